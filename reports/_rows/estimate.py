"""Writes what was estimated as rows of text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from perfcli import units
from perfcli.model import (
    Comparison,
    EstimatedChange,
    GroupEstimate,
    StepEstimate,
    TimeEstimate,
    TimeVerdict,
)

from .kernels import write_bounds, write_share
from .timing import KernelTimeRow, TimeRow

ESTIMATED_COLUMNS = ("base → head", "change", "", "of change", "held up by", "of step")
_LEAST_TOLD = 0.02


def list_estimated_step(estimate: EstimatedChange) -> list[TimeRow]:
    """Return the row of the step, or of the kernels that have an estimate where not all of it
    has."""
    base, head = units.alike(estimate.base.seconds, estimate.head.seconds)
    delta = estimate.head.seconds - estimate.base.seconds
    sides = (estimate.base, estimate.head)
    whole = not any(None in side.externs or side.missing for side in sides)
    return [
        TimeRow(
            "step" if whole else "kernels",
            base,
            head,
            units.signed(units.seconds, delta) if delta else "",
            units.interval(estimate.ratio, estimate.low, estimate.high),
            estimate.verdict,
        )
    ]


def list_estimated_kernels(comparison: Comparison) -> list[KernelTimeRow]:
    """Return a row for each group whose estimated time changes, the largest change first."""
    estimate = comparison.estimate
    return (
        [_write_group(group, estimate, comparison) for group in estimate.groups] if estimate else []
    )


def _write_group(
    group: GroupEstimate, estimate: EstimatedChange, comparison: Comparison
) -> KernelTimeRow:
    match = comparison.groups[group.group].match
    side, step = (
        (comparison.head, estimate.head) if match.head else (comparison.base, estimate.base)
    )
    numbers = match.head or match.base
    number = max(numbers, key=lambda n: _seconds_of(step.kernels[n]) * side.kernels[n].launches)
    many = {len(match.base), len(match.head)} - {0, 1}
    return KernelTimeRow(
        number if match.head else None,
        units.printable(side.kernels[number].name),
        f"{len(match.base)} → {len(match.head)}" if many else "",
        _judge(group),
        _write_cells(group, estimate, step.kernels[number]),
    )


def _seconds_of(estimate: TimeEstimate | None) -> float:
    return estimate.seconds if estimate else 0.0


def _write_cells(
    group: GroupEstimate, estimate: EstimatedChange, kernel: TimeEstimate | None
) -> Mapping[str, str]:
    both = group.base and group.head
    moved = group.head - group.base
    total = estimate.head.seconds - estimate.base.seconds
    change = units.interval(group.head / group.base) if both else units.signed(units.seconds, moved)
    told = estimate.verdict in ("slower", "faster") and total
    texts = (
        units.from_to(group.base or None, group.head or None),
        change,
        "" if both else ("gone" if group.base else "new"),
        write_share(moved / total) if told else "",
        write_bounds(kernel),
        write_share((group.base or group.head) / (estimate.base.seconds or 1.0)),
    )
    return dict(zip(ESTIMATED_COLUMNS, texts, strict=True))


def _judge(group: GroupEstimate) -> TimeVerdict:
    """Return the direction of one group's change: of one alone there is no interval."""
    if group.head > group.base * (1 + _LEAST_TOLD):
        return "slower"
    return "faster" if group.base > group.head * (1 + _LEAST_TOLD) else "same"


def list_estimated(estimate: EstimatedChange) -> list[tuple[str, str]]:
    """Return the label and text of each line about where the estimate comes from."""
    lines = [("estimated", write_source(estimate.base))]
    if estimate.head.calibration != estimate.base.calibration:
        lines.append(("", f"head: {write_source(estimate.head)}"))
    missing = dict.fromkeys((*estimate.missing, *estimate.base.missing, *estimate.head.missing))
    lines += [("no estimate", text) for text in _count_missing(tuple(missing))]
    return [(label, units.printable(text)) for label, text in lines]


def _count_missing(missing: Sequence[str], most: int = 3) -> list[str]:
    more = [f"and {len(missing) - most} more"] if len(missing) > most else []
    return [*missing[:most], *more]


def write_source(step: StepEstimate) -> str:
    """Return what the constants of an estimate are measured on or derived from."""
    text = f"from constants measured on {step.calibration}" if step.calibration else ""
    if step.derived:
        text = f"from constants of {step.derived}, scaled by data sheets: intervals are wider"
    return text
