"""Measured changes with their intervals, as bars."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from perfcli import units
from perfcli.model import Comparison, TimeChange, Timing
from perfcli.units import shorten

from .._rows.timing import order_by_change, write_kernel_time
from .data import _kernel_id
from .scale import Scale, Tick

WIDTH, ROW, TOP = 1040.0, 28.0, 26.0
LEFT, RIGHT, TEXT = 480.0, 850.0, 870.0
MOST_ROWS = 20
MOST_NAME = 44
# A change beyond this would press all others together.
MOST_CHANGE = 1.0


@dataclass(frozen=True, slots=True)
class _Bar:
    """``low`` to ``high`` is the interval, ``at`` the change itself; None: no ratio."""

    y: float
    name: str
    link: str
    times: str
    text: str
    verdict: str
    low: float | None = None
    high: float | None = None
    at: float | None = None


@dataclass(frozen=True, slots=True)
class Forest:
    """``floor``: left and right edge of what noise explains."""

    width: float
    height: float
    right: float
    zero: float
    floor: tuple[float, float]
    floor_text: str
    ticks: tuple[Tick, ...]
    bars: tuple[_Bar, ...]
    more: int
    beyond: bool
    """Whether a change is greater than there is room for."""


def _forest(comparison: Comparison, check: int) -> Forest:
    """Return the step, then kernels, the largest changes first.

    Asked only where times are known.
    """
    timing = comparison.timing
    assert timing is not None
    rows = list(_rows(comparison, timing, check))
    shown = rows[: MOST_ROWS + 1]
    xs = _scale(timing, [change for _, _, _, change in shown])
    bars = [_bar(number, *row, xs) for number, row in enumerate(shown)]
    floor = timing.deciding_floor.relative
    return Forest(
        width=WIDTH,
        height=TOP + len(bars) * ROW + 4,
        right=TEXT,
        zero=xs(0.0),
        floor=(xs(max(-floor, xs.low)), xs(min(floor, xs.high))),
        floor_text=units.percent(floor),
        ticks=xs.ticks(_percent),
        bars=tuple(bars),
        more=len(rows) - len(shown),
        beyond=any((change.ratio or 0) - 1 > MOST_CHANGE for _, _, _, change in shown),
    )


Named = tuple[str, str, str, TimeChange]


def _rows(comparison: Comparison, timing: Timing, check: int) -> Iterator[Named]:
    """Name, address, mark and change."""
    if timing.device is not None:
        yield "device", "", timing.device.verdict, timing.device
    yield "step", "", timing.step.verdict, timing.step
    for group in order_by_change(timing):
        row = write_kernel_time(group, comparison)
        mark = row.cells[""] or row.verdict
        link = f"#{_link(comparison, group.group, check)}" if group.group is not None else ""
        yield f"{row.name} {row.suffix}".strip(), link, mark, group.change


def _link(comparison: Comparison, group: int, check: int) -> str:
    match = comparison.groups[group].match
    side, number = ("head", match.head[0]) if match.head else ("base", match.base[0])
    return _kernel_id(check, side, number)


def _scale(timing: Timing, changes: Sequence[TimeChange]) -> Scale:
    """Return a scale from the least to the greatest change, with the noise floor on both sides."""
    floor = timing.deciding_floor.relative
    edges = [floor * 1.5, -floor * 1.5]
    for change in changes:
        edges += [edge - 1 for edge in (change.low, change.high, change.ratio) if edge]
    low, high = max(min(edges), -MOST_CHANGE), min(max(edges), MOST_CHANGE)
    return Scale(low * 1.05, high * 1.05, LEFT, RIGHT)


def _bar(number: int, name: str, link: str, mark: str, change: TimeChange, xs: Scale) -> _Bar:
    text = units.interval(change.ratio, change.low, change.high) if change.ratio else mark
    bar = _Bar(
        y=TOP + number * ROW,
        name=shorten(name, MOST_NAME),
        link=link,
        times=units.from_to(change.base, change.head),
        text=text,
        verdict=mark,
    )
    if change.ratio is None:
        return bar
    low, high = change.low or change.ratio, change.high or change.ratio
    inside = [xs(min(max(v - 1, xs.low), xs.high)) for v in (low, high, change.ratio)]
    return _Bar(bar.y, bar.name, link, bar.times, text, mark, *inside)


def _percent(value: float) -> str:
    return "0" if not value else f"{'+' if value > 0 else '−'}{abs(value) * 100:g} %"
