"""Publicly reported performance problems of torch.compile, rebuilt: one file per report, named
``PROJECT_NUMBER.py``. Each declares ``CASE`` and the functions of its two sides, which are users'
scenarios: ``perfcli run bench/reported/pytorch_193722.py:bad``.

The bad side shows what was reported in the kernels that are generated, the good twin computes the
same without it. bench/reported_problems.py runs them all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Kind = Literal[
    "memory access",
    "narrow and indirect",
    "division",
    "too few blocks",
    "split",
    "lost fusion",
    "overfusion",
    "recomputation",
    "copies",
    "launches",
    "CUDA graphs",
    "recompilation",
    "graph breaks",
    "compile time",
    "extern operators",
    "peak memory",
    "online softmax",
    "mix-order",
    "launch configuration",
]

SMALL_STEP = {"PC601": "what is rebuilt is a few µs of a step, so that the host decides either way"}
"""What is true of a good twin whose kernels were reported as part of something larger."""


@dataclass(frozen=True, slots=True)
class Side:
    """What one side of a case compiles: a function of its file, and how."""

    function: str
    params: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    dynamic: bool = False
    torch: str = ""
    """The release that it needs, ``2.11``; empty: the one that perfcli runs with."""
    vary: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """Sizes that the compiled function is called with, one after the other, by parameter."""


@dataclass(frozen=True, slots=True)
class Reported:
    """A report and how it is rebuilt. The bad side is the worse one, always."""

    issue: str
    """``OWNER/REPOSITORY#NUMBER``."""
    kind: Kind
    title: str
    said: str
    """What the report measured: numbers, device, date."""
    rebuilt: Literal["published", "scaled", "pattern"]
    """Published: its code and sizes in substance. Scaled: smaller sizes. Pattern: sizes, or code
    where none was shown, are ours."""
    seen: str
    """What to see in the generated kernels of the bad side, and not in those of the good one."""
    bad: Side
    good: Side
    codes: frozenset[str]
    """Findings each of which names the cause."""
    cause: tuple[str, ...]
    """Regular expressions, one of which any sentence matches that names the cause."""
    cure: tuple[str, ...]
    """The same for what ends the problem: an option's name, or words for a change of the model."""
    metric: Literal["time", "peak memory", "compile time", "recompilations"] = "time"
    """What is worse."""
    target: str = "h100"
    true_of_good: Mapping[str, str] = field(default_factory=dict)
    """Findings of the good twin that are true of it as well: code to why."""
