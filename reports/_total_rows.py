"""The totals of two runs as rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from perfcli import units
from perfcli.model import Change, Comparison, Outcome

VERDICTS: Mapping[Outcome, str] = {
    "worse": "WORSE",
    "better": "BETTER",
    "same": "SAME",
    "unknown": "UNSURE",
}


@dataclass(frozen=True, slots=True)
class TotalRow:
    metric: str
    title: str
    base: str
    head: str
    delta: str
    relative: str
    outcome: Outcome


# Said only where they changed.
_SECONDARY = ("loads_in_loops", "graphs", "graph_breaks")


def total_rows(comparison: Comparison) -> list[TotalRow]:
    """Without those that say what another says, or nothing."""
    moved = next((_sides(c) for c in comparison.totals if c.metric == "bytes_moved"), None)
    return [
        _total(change)
        for change in comparison.totals
        if (change.delta != 0 or change.metric not in _SECONDARY)
        and not (change.metric == "bytes_swept" and _sides(change) == moved)
    ]


def _sides(change: Change) -> tuple[float | None, float | None]:
    return change.base, change.head


def _total(change: Change) -> TotalRow:
    write = units.writer(change.metric)
    return TotalRow(
        metric=change.metric,
        title=units.title(change.metric),
        base=write(change.base),
        head=write(change.head),
        delta="" if not change.delta else units.signed(write, change.delta),
        relative=units.relative(change.base, change.head),
        outcome=change.outcome,
    )
