"""Live memory over the step: Inductor's estimate along its schedule, and what was measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from perfcli import units
from perfcli.model import Comparison, GraphFacts, MemoryUse, Timing

from .scale import Plot, Scale

WIDTH, HEIGHT = 760.0, 240.0
LEFT, RIGHT, TOP, BOTTOM = 78.0, 742.0, 18.0, 196.0

Steps = Sequence[tuple[float, float]]
"""From which place on (nodes, or seconds) how many bytes live."""


@dataclass(frozen=True, slots=True)
class _Curve:
    side: str
    path: str
    peak: str
    peak_x: float
    peak_y: float
    estimate: str
    """Inductor's own peak where that is another number."""


@dataclass(frozen=True, slots=True)
class Memory(Plot):
    """``one``: both sides are the same curve."""

    title: str
    along: str
    derived: bool
    one: bool
    curves: tuple[_Curve, ...]


def _memories(comparison: Comparison) -> Iterator[Memory]:
    """Yield a drawing for each graph of which the estimate is known, and one of what was
    measured."""
    graphs = [{g.name: g for g in run.graphs} for run in (comparison.base, comparison.head)]
    for name in {**graphs[0], **graphs[1]}:
        sides = [(side, of[name]) for side, of in zip(_SIDES, graphs, strict=True) if name in of]
        known = [(side, _nodes(graph), graph.peak_memory_bytes) for side, graph in sides]
        drawn = [each for each in known if each[1]]
        if drawn:
            yield _memory(name, "position in the schedule", drawn, derived=True)
    if comparison.timing:
        yield from _measured(comparison.timing)


_SIDES = ("base", "head")


def _nodes(graph: GraphFacts) -> Steps:
    """Return positions on one scale, because schedules of both sides have other lengths: places are
    percent of them."""
    last = max(len(graph.live_bytes) - 1, 1)
    return [(100 * n / last, float(live)) for n, live in enumerate(graph.live_bytes)]


def _measured(timing: Timing) -> Iterator[Memory]:
    known = [(side.side, side.memory) for side in timing.prepared if side.memory]
    drawn = [(side, _seconds(memory), None) for side, memory in known if memory.timeline]
    if drawn:
        yield _memory("measured", "time since the step began, on the host", drawn, derived=False)


def _seconds(memory: MemoryUse) -> Steps:
    return [(at, float(live)) for at, live in memory.timeline]


def _memory(
    title: str, along: str, sides: Sequence[tuple[str, Steps, int | None]], derived: bool
) -> Memory:
    most = max(live for _, steps, _ in sides for _, live in steps)
    last = max(at for _, steps, _ in sides for at, _ in steps)
    xs = Scale(0.0, last or 1.0, LEFT, RIGHT)
    ys = Scale(0.0, most * 1.12 or 1.0, BOTTOM, TOP)
    write = (lambda value: f"{value:g} %") if derived else units.seconds
    one = len(sides) == 2 and list(sides[0][1]) == list(sides[1][1])
    return Memory(
        title=title, along=along, derived=derived, one=one,
        width=WIDTH, height=HEIGHT, left=LEFT, right=RIGHT, top=TOP, bottom=BOTTOM,
        x_ticks=xs.ticks(write), y_ticks=ys.ticks(units.size, 5),
        curves=tuple(_curve(side, steps, own, xs, ys) for side, steps, own in sides),
    )  # fmt: skip


def _curve(side: str, steps: Steps, own: int | None, xs: Scale, ys: Scale) -> _Curve:
    at, peak = max(steps, key=lambda step: step[1])
    parts = [f"M{xs(steps[0][0]):g},{ys(steps[0][1]):g}"]
    parts += [f"H{xs(at_):g}V{ys(live):g}" for at_, live in steps[1:]]
    other = units.size(own) if own is not None and own != peak else ""
    return _Curve(side, "".join([*parts, f"H{RIGHT:g}"]), units.size(peak), xs(at), ys(peak), other)
