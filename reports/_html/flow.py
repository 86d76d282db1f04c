"""Kernels that were fused, split or regrouped, as a drawing: what was at the left, what became of
it at the right."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from perfcli import units
from perfcli.model import Comparison, KernelFacts, KernelGroup
from perfcli.units import shorten

from .._rows.groups import list_changed, write_group
from .data import _kernel_id

WIDTH, BOX, HEIGHT, GAP = 920.0, 370.0, 50.0, 14.0
THINNEST, THICKEST = 2.0, 22.0
MOST_NAME = 46
DRAWN = ("fused", "split", "regrouped")


@dataclass(frozen=True, slots=True)
class _Box:
    x: float
    y: float
    link: str
    name: str
    """As much of it as there is room for."""
    whole: str
    facts: str
    spills: bool


@dataclass(frozen=True, slots=True)
class _Edge:
    path: str
    width: float
    text: str


@dataclass(frozen=True, slots=True)
class Flow:
    """``sums``: what the whole group gained, ``+92 spilled``."""

    headline: str
    sums: tuple[tuple[str, str], ...]
    width: float
    height: float
    boxes: tuple[_Box, ...]
    edges: tuple[_Edge, ...]


def _flows(comparison: Comparison, check: int) -> Iterator[Flow]:
    """Yield the costliest first."""
    for group in list_changed(comparison):
        if group.match.relation in DRAWN:
            yield _flow(group, comparison, check)


def _flow(group: KernelGroup, comparison: Comparison, check: int) -> Flow:
    base = [(n, comparison.base.kernels[n]) for n in group.match.base]
    head = [(n, comparison.head.kernels[n]) for n in group.match.head]
    rows = max(len(base), len(head))
    height = rows * HEIGHT + (rows - 1) * GAP
    left = _column("base", base, check, 0.0, height)
    right = _column("head", head, check, WIDTH - BOX, height)
    drawn = write_group(group, comparison)
    sums = tuple((f"{text} {title}", outcome) for title, (text, outcome) in drawn.deltas.items())
    edges = tuple(_edges([k for _, k in base], [k for _, k in head], left, right))
    return Flow(drawn.headline, sums, WIDTH, height, (*left, *right), edges)


def _column(
    side: str, kernels: Sequence[tuple[int, KernelFacts]], check: int, x: float, height: float
) -> list[_Box]:
    """Return the boxes of a column, in the middle of the height."""
    taken = len(kernels) * HEIGHT + (len(kernels) - 1) * GAP
    start = (height - taken) / 2
    return [
        _box(kernel, f"#{_kernel_id(check, side, number)}", x, start + place * (HEIGHT + GAP))
        for place, (number, kernel) in enumerate(kernels)
    ]


def _box(kernel: KernelFacts, link: str, x: float, y: float) -> _Box:
    return _Box(
        x=x,
        y=y,
        link=link,
        name=shorten(units.printable(kernel.name), MOST_NAME),
        whole=units.printable(kernel.name),
        facts=" · ".join(_facts(kernel)),
        spills=bool(kernel.spilled_words),
    )


def _facts(kernel: KernelFacts) -> Iterator[str]:
    if kernel.source_facts:
        yield units.plural(kernel.source_facts.loads, "load")
    if kernel.spilled_words is not None:
        yield f"{units.count(kernel.spilled_words)} spilled"
    if kernel.best and kernel.best.registers is not None:
        yield f"{units.count(kernel.best.registers)} regs"
    if kernel.bytes_moved is not None:
        yield units.size(kernel.bytes_moved)
    if kernel.launches != 1:
        yield f"×{kernel.launches}"


# --- edges -----------------------------------------------------------------------------------


def _edges(
    base: Sequence[KernelFacts], head: Sequence[KernelFacts], left: Sequence[_Box],
    right: Sequence[_Box],
) -> Iterator[_Edge]:  # fmt: skip
    """Yield edges as wide as the bytes that the kernel at the end with fewer edges moves in a
    step."""
    pairs = _pairs(base, head)
    many_left = len(base) >= len(head)
    moved = [_bytes(base[a] if many_left else head[b]) for a, b in pairs]
    ends = [a if many_left else b for a, b in pairs]
    shares = [m / ends.count(e) for m, e in zip(moved, ends, strict=True)]
    most = max(shares, default=0.0) or 1.0
    for (a, b), share in zip(pairs, shares, strict=True):
        width = max(THINNEST, THICKEST * share / most)
        text = f"{left[a].whole} → {right[b].whole}: {units.size(share)}"
        yield _Edge(_curve(left[a], right[b]), round(width, 1), text)


def _pairs(base: Sequence[KernelFacts], head: Sequence[KernelFacts]) -> list[tuple[int, int]]:
    """Return the kernels with work in common; all of them where that is not known."""
    every = [(a, b) for a in range(len(base)) for b in range(len(head))]
    if len(base) == 1 or len(head) == 1:
        return every
    nodes = [[{o.node for o in kernel.origins} for kernel in side] for side in (base, head)]
    return [(a, b) for a, b in every if nodes[0][a] & nodes[1][b]] or every


def _bytes(kernel: KernelFacts) -> float:
    return float((kernel.bytes_moved or 0) * max(kernel.launches, 1))


def _curve(left: _Box, right: _Box) -> str:
    x, y = left.x + BOX, left.y + HEIGHT / 2
    to_x, to_y = right.x, right.y + HEIGHT / 2
    middle = (x + to_x) / 2
    return f"M{x:g},{y:g} C{middle:g},{y:g} {middle:g},{to_y:g} {to_x:g},{to_y:g}"
