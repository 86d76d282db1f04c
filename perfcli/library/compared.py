"""Holds two runs side by side, as the library returns them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self, cast

from perfcli import units
from perfcli.console.output import render, screen
from perfcli.diagnosis import diagnose
from perfcli.diff.compare import gather_evidence
from perfcli.frames.groups import GROUPS, list_groups
from perfcli.model import Comparison, Finding, KernelGroup, Outcome, Run

# Whoever holds two functions together knows that they have two names.
_NAMES = ("scenario", "params")
MOST_GROUPS = 5
"""Groups of kernels that a failed assertion names."""


class Said(str):
    """An outcome that remembers its ``reason``, which a failed assertion shows."""

    __slots__ = ("reason",)
    reason: str

    @classmethod
    def of(cls, comparison: Comparison) -> Self:
        made = cls(comparison.outcome)
        made.reason = comparison.reason
        return made

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        return str, (str(self),)


@dataclass(frozen=True, slots=True, repr=False)
class Compared:
    """Says what changed from a base to a head."""

    comparison: Comparison
    """Everything that is known."""

    @property
    def outcome(self) -> Outcome:
        """Return the outcome of the head: ``worse``, ``better``, ``same``, ``unknown``."""
        return cast(Outcome, Said.of(self.comparison))

    @property
    def reason(self) -> str:
        """Return the one reason that matters, in a sentence."""
        return self.comparison.reason

    @property
    def groups(self) -> tuple[KernelGroup, ...]:
        """Return the kernels of both that compute the same; every kernel is in exactly one."""
        return self.comparison.groups

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Return what came with the head first, then what is gone, then what both have."""
        return self.comparison.findings

    def to_frame(self) -> Any:
        """Return a ``pandas.DataFrame`` with one row per group of kernels; docs/frames.md has
        the columns."""
        return GROUPS.to_frame(list_groups(self.comparison))

    def assert_not_worse(self) -> None:
        """Raise AssertionError where the head is worse, or nobody can tell, with the reason and the
        kernels that changed."""
        __tracebackhide__ = True  # of pytest: a test's own lines are what is wrong
        if self.comparison.outcome not in ("worse", "unknown"):
            return
        changed = [
            group for group in self.groups if any(c.outcome == "worse" for c in group.changes)
        ]
        lines = [f"{self.comparison.outcome}: {self.reason}"]
        lines += [line for group in changed[:MOST_GROUPS] for line in self._lines(group)]
        if more := len(changed) - MOST_GROUPS:
            lines += [f"… and {units.plural(more, 'group')} of kernels more"] if more > 0 else []
        raise AssertionError(units.printable("\n".join(lines)))

    def _lines(self, group: KernelGroup) -> Iterator[str]:
        base, head = self.comparison.base.kernels, self.comparison.head.kernels
        ours = ", ".join(base[index].name for index in group.match.base)
        theirs = ", ".join(head[index].name for index in group.match.head)
        yield f"{group.match.relation}: {ours or 'nothing'} → {theirs or 'nothing'}"
        for change in group.changes:
            if change.outcome == "worse":
                title, write = units.title(change.metric), units.writer(change.metric)
                yield f"    {title} {write(change.base)} → {write(change.head)}"

    def __repr__(self) -> str:
        because = self.comparison.because
        why = because.change if because else self.reason.partition(":")[0]
        return units.printable(f"<Compared: {self.comparison.outcome}, {why}>")

    def report(self, columns: int = 100) -> str:
        """Return what ``perfcli compare`` shows."""
        places = [("", ""), ("", "")]
        return render(screen().comparison(self.comparison, places, False, False), columns)

    def __rich__(self) -> Any:
        return screen().comparison(self.comparison, [("", ""), ("", "")], False, False)


def compare_runs(base: Run, head: Run, allow: Sequence[str]) -> Compared:
    """Raise NotComparable, RuleFailed, and PerfcliError where neither has a kernel."""
    return Compared(diagnose(gather_evidence(base, head, {*_NAMES, *allow})))
