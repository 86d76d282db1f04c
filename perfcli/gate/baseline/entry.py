"""Holds one check of a baseline, as it stands in the file."""

from __future__ import annotations

from dataclasses import dataclass

from perfcli.model import Finding, Run

FORMAT = 1
"""Of the file; it grows when a field changes its meaning or goes.

1  first version
"""


@dataclass(frozen=True, slots=True)
class Made:
    """Says how a check came into the baseline."""

    created: str
    """ISO date."""
    reason: str
    revision: str = ""
    """Of the repository; empty where there was none."""


@dataclass(frozen=True, slots=True)
class BaselineEntry:
    """Holds one check: its run without sources, node names and numbers of kernels, as far as the
    file keeps it, and what the rules said of it."""

    made: Made
    run: Run
    findings: tuple[Finding, ...]
    target: str = ""
    """``h100 (sm_90, 132 SMs)``; empty on a CPU. The run of an entry has no target."""
