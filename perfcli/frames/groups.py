"""Declares the table of a comparison: the groups of kernels that compute the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from perfcli.diff.metrics import KERNEL_METRICS
from perfcli.frames.table import Column, Table, joined
from perfcli.model import Comparison, GroupTiming, KernelGroup


@dataclass(frozen=True, slots=True)
class GroupRow:
    """Holds a group of kernels with the comparison that it belongs to."""

    comparison: Comparison
    number: int

    @property
    def group(self) -> KernelGroup:
        return self.comparison.groups[self.number]

    @property
    def timing(self) -> GroupTiming | None:
        timing = self.comparison.timing
        return next((t for t in timing.groups if t.group == self.number), None) if timing else None


def list_groups(comparison: Comparison) -> list[GroupRow]:
    """Return the groups of a comparison as rows, in its order."""
    return [GroupRow(comparison, number) for number in range(len(comparison.groups))]


def _value(metric: str, side: str) -> Callable[[GroupRow], object]:
    def read(row: GroupRow) -> object:
        changes = (change for change in row.group.changes if change.metric == metric)
        return getattr(next(changes, None), side, None)

    return read


def _changed(part: str) -> Callable[[GroupRow], object]:
    return lambda row: row.timing and getattr(row.timing.change, part)


UNITS = {
    "spilled_words": "32-bit words per thread",
    "occupancy": "fraction",
    "lower_bound_seconds": "s",
    "stack_bytes": "B per thread",
    "shared_bytes": "B per block",
    "bytes_moved": "B",
    "bytes_swept": "B",
}
_NUMBERS = ("occupancy", "lower_bound_seconds")
_SIDES = {"base": "of the base", "head": "of the head", "delta": "head minus base"}


def _metrics() -> Iterator[Column[GroupRow]]:
    for metric in KERNEL_METRICS:
        name = metric.name
        folded = {"sum": "sum", "max": "largest", "min": "smallest"}[metric.fold]
        step = ", of one step" if metric.per_launch or name == "launches" else ""
        for side, of in _SIDES.items():
            yield Column(
                f"{name}_{side}",
                "number" if name in _NUMBERS else "count",
                f"{name.replace('_', ' ')} {of} ({folded} over its kernels{step})",
                _value(name, side),
                UNITS.get(name, ""),
            )


GROUPS: Table[GroupRow] = Table(
    "groups",
    "a group of kernels of both sides that compute the same",
    "`compare`, `report`, `Compared.to_frame()`",
    (
        Column("base_run", "text", "id of the base's run", lambda r: r.comparison.base.id),
        Column("head_run", "text", "id of the head's run", lambda r: r.comparison.head.id),
        Column("relation", "text", "same, fused, split, new, …", lambda r: r.group.match.relation),
        Column(
            *("base", "text", "names of the base's kernels"),
            lambda r: joined(r.comparison.base.kernels[n].name for n in r.group.match.base),
        ),
        Column(
            *("head", "text", "names of the head's kernels"),
            lambda r: joined(r.comparison.head.kernels[n].name for n in r.group.match.head),
        ),
        Column("method", "text", "how they were matched", lambda r: r.group.match.method),
        Column(
            *("confidence", "number", "how sure the match is, 0 to 1"),
            *(lambda r: r.group.match.confidence, "fraction"),
        ),
        Column("measured_base", "number", "measured time of the base", _changed("base"), "s"),
        Column("measured_head", "number", "measured time of the head", _changed("head"), "s"),
        Column("measured_ratio", "number", "head over base", _changed("ratio"), "ratio"),
        Column(
            "measured_low", "number", "lower end of its 95 % interval", _changed("low"), "ratio"
        ),
        Column(
            "measured_high", "number", "upper end of its 95 % interval", _changed("high"), "ratio"
        ),
        *_metrics(),
    ),
)
