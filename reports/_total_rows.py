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


def verdict(comparison: Comparison) -> str:
    """The verdict in one word. SLOWER and FASTER where times decided; WORSE and BETTER where what
    the code says did, or memory."""
    time = comparison.timing.step.verdict if comparison.timing else None
    if (time, comparison.outcome) in (("slower", "worse"), ("faster", "better")):
        return "SLOWER" if time == "slower" else "FASTER"
    return VERDICTS[comparison.outcome]


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
    rows = [_total(c) for c in comparison.totals if c.delta != 0 or c.metric not in _SECONDARY]
    moved = next((_numbers(row) for row in rows if row.metric == "bytes_moved"), None)
    return [row for row in rows if row.metric != "bytes_swept" or _numbers(row) != moved]


def _numbers(row: TotalRow) -> tuple[str, str, str, str]:
    return row.base, row.head, row.delta, row.relative


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
