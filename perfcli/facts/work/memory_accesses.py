"""Adds up what each load, store and atomic of a kernel's source asks for, and says how it strides.

A stride is told by axes of the block, as the source names them (``x``, ``y``, ``r0_``): along which
axis neighbouring threads run, and how many bytes lie between neighbours along each.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from perfcli.facts.work.accesses import (
    SECTOR_BYTES,
    AccessCounts,
    Numbers,
    _find_most_common,
    _frozen,
    _thread_map,
)
from perfcli.facts.work.programs import MemoryEvent
from perfcli.facts.work.ttgir import Layout
from perfcli.model import MemoryAccess

_Site = tuple[str, str, int]
"""Kind, argument and line."""
_LOOKED_AT = 4096
"""Steps between neighbours: the most common of so many is the stride."""
_AXIS = re.compile(
    r"^\s*(\w+?)(?:index|base)\w* = .*?\btl\.arange\(0, (?:\w+)\)(?:\[([^\]]*)\])?", re.MULTILINE
)


def name_axes(source: str) -> tuple[str, ...]:
    """Return the names of the axes of a kernel's blocks, the first one first, as Inductor writes
    them: ``xindex = xoffset + tl.arange(0, XBLOCK)[:, None]`` has ``x`` as its first of two. Empty
    where the source says it otherwise or, for several kernels in one, in several ways."""
    found: dict[int, str] = {}
    rank = 0
    for name, brackets in _AXIS.findall(source):
        places = [part.strip() for part in (brackets or ":").split(",")]
        if ":" not in places:
            return ()
        rank = max(rank, len(places))
        if found.setdefault(places.index(":"), name) != name:
            return ()
    return tuple(found[place] for place in range(rank)) if len(found) == rank else ()


@dataclass(slots=True)
class _Sums:
    """Adds up one site."""

    event: MemoryEvent
    apart: int
    requests: float = 0.0
    sectors: float = 0.0
    lines: float = 0.0
    needed: float = 0.0
    touched: float = 0.0
    used: float = 0.0
    masked: bool = False
    indirect: bool = False
    known: bool = True


class MemoryAccesses:
    """Collects the accesses of all programs that were run, with their counts."""

    def __init__(self) -> None:
        self._sums: dict[_Site, _Sums] = {}

    def add(self, event: MemoryEvent, counts: AccessCounts, share: float) -> None:
        """Add one event. ``share`` is the part of all programs that it was counted in."""
        site = (event.kind, event.base, event.line)
        sums = self._sums.setdefault(site, _Sums(event, counts.apart))
        weight = event.weight * share
        sums.requests += counts.own_requests * weight
        sums.sectors += counts.own_sectors * weight
        sums.lines += counts.own_lines * weight
        sums.needed += counts.needed * weight
        sums.touched += float(np.mean([len(s) for s in counts.sector_sets])) * weight
        sums.used += counts.distinct_bytes / SECTOR_BYTES * weight
        sums.masked |= event.mask is not None and not bool(np.all(event.mask))
        sums.indirect |= event.indirect
        sums.known &= event.known

    def sum_up(
        self, layouts: Mapping[str, Layout], warps: int, axes: Sequence[str]
    ) -> tuple[MemoryAccess, ...]:
        """Return all accesses in the order of the source's lines."""
        ordered = sorted(self._sums.items(), key=lambda item: item[0][2])
        return tuple(_finish(sums, layouts, warps, axes) for _, sums in ordered)


def _finish(
    sums: _Sums, layouts: Mapping[str, Layout], warps: int, axes: Sequence[str]
) -> MemoryAccess:
    event = sums.event
    shape = event.tensor.shape if event.tensor is not None else ()
    names = axes if len(axes) == len(shape) else [f"axis {place}" for place in range(len(shape))]
    return MemoryAccess(
        event.kind,
        event.base,
        event.line,
        event.element_bytes,
        sums.requests,
        sums.sectors,
        sums.needed,
        sums.touched,
        sums.used,
        sums.apart if event.known else 0,
        _find_steps(event, names) if event.known else {},
        _find_lanes(event, layouts, warps, names),
        sums.masked,
        sums.indirect,
        sums.known,
        sums.lines,
    )


def _find_steps(event: MemoryEvent, names: Sequence[str]) -> dict[str, int]:
    """Return the bytes between neighbours along each axis that is longer than 1, the most common
    of the first program."""
    if event.tensor is None:
        return {}
    steps: dict[str, int] = {}
    for place, size in enumerate(event.tensor.shape):
        if size == 1:
            continue
        offset = event.offset[0]
        if offset.ndim <= place or offset.shape[place] == 1:
            steps[names[place]] = 0
            continue
        between = np.diff(offset, axis=place).reshape(-1)[:_LOOKED_AT]
        steps[names[place]] = _find_most_common(between)
    return steps


def _find_lanes(
    event: MemoryEvent, layouts: Mapping[str, Layout], warps: int, names: Sequence[str]
) -> str:
    """Return the axis along which the first thread's neighbour is."""
    if event.tensor is None or not event.tensor.shape:
        return ""
    shape = event.tensor.shape
    held: Numbers = _thread_map(event.tensor.layout, shape, _frozen(layouts), warps).elements
    one, two = (np.unravel_index(int(held[0, 0, lane]), shape) for lane in (0, 1))
    differing = [place for place in range(len(shape)) if one[place] != two[place]]
    return names[differing[0]] if differing else ""
