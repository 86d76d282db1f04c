"""Two runs side by side, as the library gives them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from perfcli.diagnosis import diagnose
from perfcli.diff.compare import compare
from perfcli.library.frames import comparison_frame
from perfcli.library.text import as_text, screen
from perfcli.model import Comparison, Finding, KernelGroup, Outcome, Run

# Whoever holds two functions together knows that they have two names.
_NAMES = ("scenario", "params")


@dataclass(frozen=True, slots=True)
class Compared:
    """What changed from a base to a head."""

    comparison: Comparison
    """Everything that is known."""

    @property
    def outcome(self) -> Outcome:
        """Of the head: ``worse``, ``better``, ``same``, ``unknown``."""
        return self.comparison.outcome

    @property
    def reason(self) -> str:
        """The one reason that matters, in a sentence."""
        return self.comparison.reason

    @property
    def groups(self) -> tuple[KernelGroup, ...]:
        """Kernels of both that compute the same; every kernel is in exactly one."""
        return self.comparison.groups

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What came with the head first, then what is gone, then what both have."""
        return self.comparison.findings

    def to_frame(self) -> Any:
        """A ``pandas.DataFrame`` with one row per group: ``relation``, ``base`` and ``head``
        (kernels' names), ``method``, ``confidence``, and for each metric ``…_base``, ``…_head``
        and ``…_delta``."""
        return comparison_frame(self.comparison)

    def report(self, columns: int = 100) -> str:
        """What ``perfcli compare`` shows."""
        places = [("", ""), ("", "")]
        return as_text(screen().comparison(self.comparison, places, False, False), columns)

    def __rich__(self) -> Any:
        return screen().comparison(self.comparison, [("", ""), ("", "")], False, False)


def compared(base: Run, head: Run, allow: Sequence[str]) -> Compared:
    """Raises NotComparable, RuleFailed, and PerfcliError where neither has a kernel."""
    return Compared(diagnose(compare(base, head, {*_NAMES, *allow})))
