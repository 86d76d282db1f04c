"""What ``perfcli calibrate`` and ``perfcli targets`` show."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from perfcli import units
from perfcli.calibrate.accuracy import _CheckedKernel, _sum_up
from perfcli.console import table
from perfcli.frames.table import Column, Table
from perfcli.model.estimate import LEAST_SECONDS
from perfcli.predict.calibration import Calibration

_TOP = 30
_HEADERS = ("KERNEL", "LAUNCHES", "ESTIMATED", "INTERVAL", "MEASURED", "ERROR", "")


def _describe_calibration(found: Calibration, path: Path) -> str:
    """Return what was made, in a few lines."""
    everything = found.residuals["all"]
    where = "derived" if found.derived else "measured"
    lines = [
        f"{found.target.description} ({found.target.name}): {where} with torch {found.torch}, "
        f"triton {found.triton}, {found.date}",
        f"{everything.kernels} launches, held out: median error "
        f"{_as_part(everything.median)}, 90th percentile {_as_part(everything.q90)}",
        *(f"note: {note}" for note in found.notes),
        f"written: {path}",
    ]
    return "\n".join(lines) + "\n"


def _list_checked(kernels: Sequence[_CheckedKernel]) -> str:
    """Return the table of kernels, those that take longest, and how many it leaves out."""
    more = f"… and {len(kernels) - _TOP} more\n" if len(kernels) > _TOP else ""
    return table.plain(_HEADERS, [_row(each) for each in kernels[:_TOP]]) + more


def _row(each: _CheckedKernel) -> Sequence[str]:
    estimate = each.estimate
    edges = f"{units.seconds(estimate.low)} – {units.seconds(estimate.high)}"
    mark = "far outside" if each.is_far else "" if each.is_inside else "outside"
    return (
        units.printable(each.name),
        str(each.launches),
        units.seconds(estimate.seconds),
        edges,
        units.seconds(each.measured),
        units.signed(units.percent, round(each.error, 2)),
        mark,
    )


def _describe_check(kernels: Sequence[_CheckedKernel], source: str) -> Iterator[str]:
    """Yield the lines below the table."""
    found, least = _sum_up(kernels), units.seconds(LEAST_SECONDS)
    if found is None:
        yield f"no launch takes {least} or more: shorter ones say little"
    else:
        yield (
            f"{units.plural(found.kernels, 'kernel')} of {least} and more: median error "
            f"{units.percent(round(found.median, 3))}, 90th percentile "
            f"{units.percent(round(found.p90, 3))}; "
            f"{units.percent(round(found.covered, 2))} inside their 90 % interval"
        )
    far = [each for each in kernels if each.is_far]
    for each in far:
        yield f"far outside: {units.printable(each.name)}: the model does not know why (PC904)"
    yield f"constants: {source}"


def _describe_accuracy(kernels: Sequence[_CheckedKernel]) -> Mapping[str, Any]:
    """Return the fields of the JSON document."""
    return {
        "accuracy": _sum_up(kernels),
        "kernels": [
            {
                "name": each.name,
                "graph": each.graph,
                "launches": each.launches,
                "estimated_seconds": each.estimate.seconds,
                "low": each.estimate.low,
                "high": each.estimate.high,
                "measured_seconds": each.measured,
                "error": each.error,
                "inside": each.is_inside,
                "far": each.is_far,
            }
            for each in kernels
        ],
    }


def _as_part(residual: float) -> str:
    """Write the absolute logarithm of estimated over measured time as a relative error."""
    return units.percent(round(math.expm1(residual), 3))


CHECKED: Table[_CheckedKernel] = Table(
    "estimates",
    "a kernel whose estimate is held against its measured time, the longest of a step first",
    "`calibrate --check`",
    (
        Column("name", "text", "its name", lambda each: each.name),
        Column("graph", "text", "the graph that launches it", lambda each: each.graph),
        Column("launches", "count", "launches of a step", lambda each: each.launches),
        Column(
            *("estimated_seconds", "number", "estimated time of a launch"),
            *(lambda each: each.estimate.seconds, "s"),
        ),
        Column("low", "number", "lower end of its interval", lambda each: each.estimate.low, "s"),
        Column("high", "number", "upper end of its interval", lambda each: each.estimate.high, "s"),
        Column(
            *("measured_seconds", "number", "measured time of a launch"),
            *(lambda each: each.measured, "s"),
        ),
        Column(
            *("error", "number", "estimated over measured, less 1"),
            *(lambda each: each.error, "fraction"),
        ),
        Column("inside", "flag", "whether the interval holds it", lambda each: each.is_inside),
        Column("far", "flag", "whether it is far outside", lambda each: each.is_far),
    ),
)
