"""Kernels against what the target's memory and arithmetic allow."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from perfcli import units
from perfcli.model import Comparison, GroupTiming, KernelFacts, Target
from perfcli.units import shorten

from .._rows.groups import list_changed
from .data import _kernel_id
from .scale import Plot, Scale

ASSUMED = "fp32"
"""What generated kernels compute in, whatever they load."""


@dataclass(frozen=True, slots=True)
class _Roof:
    path: str
    look: str
    text: str
    x: float
    y: float


def _roofs(target: Target, xs: Scale, ys: Scale) -> Iterator[_Roof]:
    fastest = max(target.peak_flops, key=lambda kind: (kind == "bf16", kind == ASSUMED))
    for kind in dict.fromkeys((ASSUMED, fastest)):
        peak = target.peak_flops[kind]
        ridge = min(max(peak / target.bandwidth, xs.low), xs.high)
        start = (xs(xs.low), ys(max(xs.low * target.bandwidth, ys.low)))
        corner, end = (xs(ridge), ys(peak)), (xs(xs.high), ys(peak))
        if kind != ASSUMED:  # below the first roof's corner they are one line
            start = (
                xs(target.peak_flops[ASSUMED] / target.bandwidth),
                ys(target.peak_flops[ASSUMED]),
            )
        if peak / target.bandwidth > xs.high:
            corner = end = (xs(xs.high), ys(xs.high * target.bandwidth))
        path = "M" + " L".join(f"{x:g},{y:g}" for x, y in (start, corner, end))
        word = f"{kind} {_flops_per_second(peak)}"
        word += " (matrix units)" if kind != ASSUMED else ""
        below = 17 if kind == ASSUMED else -10
        look = "assumed" if kind == ASSUMED else "other"
        yield _Roof(path, look, word, xs.end, end[1] + below)


def _flops_per_second(value: float) -> str:
    for size, unit in ((1e15, "PFLOP/s"), (1e12, "TFLOP/s"), (1e9, "GFLOP/s"), (1e6, "MFLOP/s")):
        if value >= size * 0.9995:
            return f"{value / size:.3g} {unit}"
    return f"{value:.3g} FLOP/s"


WIDTH, HEIGHT = 760.0, 400.0
LEFT, RIGHT, TOP, BOTTOM = 92.0, 742.0, 18.0, 352.0
MOST_NAME = 60
SIDES = ("base", "head")
SMALLEST, LARGEST = 3.0, 9.0
LEAST = 300
"""How far below the roof's lower end the drawing goes; what is slower lies at its edge."""


@dataclass(frozen=True, slots=True)
class _Point:
    """Holds all kernels of one side of a group.

    ``measured``: it is where a clock put it, else at the least time that the target's peaks allow.
    """

    x: float
    y: float
    radius: float
    """The larger, the more bytes."""
    side: str
    measured: bool
    name: str
    link: str
    text: str
    cells: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Roofline(Plot):
    """``left_out``: kernels whose arithmetic or bytes are not known, or that have none, on the
    sides of which something is drawn."""

    roofs: tuple[_Roof, ...]
    points: tuple[_Point, ...]
    measured: bool
    left_out: int
    sides: tuple[str, ...]
    """Of which points are drawn."""
    uncounted: tuple[str, ...]
    """Of which none is, since no kernel's operations are known."""
    target: str
    memory: str


@dataclass(frozen=True, slots=True)
class _Work:
    side: str
    kernels: tuple[tuple[int, KernelFacts], ...]
    flops: float
    bytes: float
    seconds: float | None

    @property
    def intensity(self) -> float:
        return self.flops / self.bytes


def _roofline(comparison: Comparison, check: int) -> Roofline | None:
    """Return the drawing, or None where the target's peaks are not known, or no kernel's operations
    are."""
    target = comparison.head.target
    if target is None or ASSUMED not in target.peak_flops:
        return None
    works, missing = _works(comparison)
    if not works:
        return None
    peak = target.peak_flops[ASSUMED]
    xs, ys = _scales(works, target, peak)
    most = max(work.bytes for work in works)
    sides = tuple(side for side in SIDES if any(work.side == side for work in works))
    points = tuple(_point(work, target, peak, xs, ys, check, most) for work in works)
    return Roofline(
        width=WIDTH, height=HEIGHT, left=LEFT, right=RIGHT, top=TOP, bottom=BOTTOM,
        x_ticks=xs.ticks(lambda value: f"{value:g}"),
        y_ticks=ys.ticks(_flops_per_second),
        roofs=tuple(_roofs(target, xs, ys)),
        points=points,
        measured=any(point.measured for point in points),
        left_out=sum(missing.get(side, 0) for side in sides),
        sides=sides,
        uncounted=tuple(side for side in missing if side not in sides),
        target=target.description,
        memory=units.rate(target.bandwidth),
    )  # fmt: skip


def _works(comparison: Comparison) -> tuple[list[_Work], dict[str, int]]:
    """Return the work of both sides of what changed and of the head of what did not, and how many
    kernels of each side lack the numbers."""
    timed = {g.group: g for g in comparison.timing.groups} if comparison.timing else {}
    changed = {id(group) for group in list_changed(comparison)}
    works: list[_Work] = []
    missing: dict[str, int] = {}
    for number, group in enumerate(comparison.groups):
        base = tuple((n, comparison.base.kernels[n]) for n in group.match.base)
        head = tuple((n, comparison.head.kernels[n]) for n in group.match.head)
        both = id(group) in changed
        for side, kernels in (("base", base if both or not head else ()), ("head", head)):
            if kernels:
                work = _work(side, kernels, timed.get(number))
                if work:
                    works.append(work)
                else:
                    missing[side] = missing.get(side, 0) + len(kernels)
    return works, missing


def _work(
    side: str, kernels: tuple[tuple[int, KernelFacts], ...], timing: GroupTiming | None
) -> _Work | None:
    flops = moved = 0.0
    for _, kernel in kernels:
        if kernel.operations is None or kernel.bytes_moved is None:
            return None
        flops += kernel.operations * kernel.launches
        moved += kernel.bytes_moved * kernel.launches
    seconds = getattr(timing.change, side) if timing else None
    return _Work(side, kernels, flops, moved, seconds or None) if flops and moved else None


def _scales(works: Sequence[_Work], target: Target, peak: float) -> tuple[Scale, Scale]:
    ridge = peak / target.bandwidth
    intensities = [work.intensity for work in works]
    low, high = min(*intensities, ridge / 20) / 2, max(*intensities, ridge * 4) * 2
    speeds = [work.flops / work.seconds for work in works if work.seconds]
    xs = Scale(low, high, LEFT, RIGHT, log=True)
    roof = low * target.bandwidth
    least = max(min([roof, *(speed / 2 for speed in speeds)]), roof / LEAST)
    return xs, Scale(least, max(target.peak_flops.values()) * 2, BOTTOM, TOP, log=True)


def _point(
    work: _Work, target: Target, peak: float, xs: Scale, ys: Scale, check: int, most: float
) -> _Point:
    bound = min(peak, work.intensity * target.bandwidth)
    speed = work.flops / work.seconds if work.seconds else bound
    number, first = work.kernels[0]
    more = f" and {len(work.kernels) - 1} more" if len(work.kernels) > 1 else ""
    name = shorten(units.printable(first.name), MOST_NAME) + more
    cells = (
        _count_flops(work.flops),
        units.size(work.bytes),
        f"{work.intensity:.3g}",
        units.seconds(work.flops / bound),
        units.seconds(work.seconds) if work.seconds else "",
        units.percent(speed / bound) if work.seconds else "",
    )
    said = f"{cells[2]} operations per byte, at least {cells[3]}"
    said += f", took {cells[4]}, {cells[5]} of what the roof allows" if work.seconds else ""
    return _Point(
        x=xs(work.intensity),
        y=ys(max(speed, ys.low)),
        radius=_radius(work.bytes / most),
        side=work.side,
        measured=work.seconds is not None,
        name=name,
        link=f"#{_kernel_id(check, work.side, number)}",
        text=f"{work.side}: {name}: {said}",
        cells=cells,
    )


def _radius(share: float) -> float:
    """Return radii whose areas are as bytes."""
    return round(max(SMALLEST, LARGEST * math.sqrt(share)), 1)


def _count_flops(value: float) -> str:
    return units.size(value).replace("kB", "k").replace("B", "").strip() if value else "0"
