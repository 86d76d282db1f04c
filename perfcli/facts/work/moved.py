"""Says how much a user's kernel reads and writes, from the addresses that its blocks compute."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from perfcli.facts.work.accesses import Numbers, _whole
from perfcli.facts.work.programs import Execution, MemoryEvent, _sample_programs, run_programs
from perfcli.facts.work.ttgir import Module
from perfcli.model import Buffer, Grid

_ALL = 1024
"""Blocks: of a launch with no more all are looked at, of others ``_SOME``."""
_SOME = 256
_AT_ONCE = 64
_Site = tuple[str, bool]
"""An argument, and whether it is written."""


def count_moved(
    module: Module, arguments: Mapping[str, int], grid: Grid, buffers: Sequence[Buffer]
) -> tuple[int, int] | None:
    """Return the bytes of the elements that a launch reads and writes, each once in a block and of
    no tensor more than it has: what several blocks read alike counts for each. None where an
    address can't be followed. Raises what ``run_programs`` does."""
    blocks = math.prod(grid)
    programs = _sample_programs(grid, _ALL if blocks <= _ALL else _SOME)
    found: dict[_Site, list[float]] = defaultdict(lambda: [0.0] * len(programs))
    done = 0
    for start in range(0, len(programs), _AT_ONCE):
        for run in run_programs(module, arguments, grid, programs[start : start + _AT_ONCE]):
            if run.unknown_loops or any(e.indirect or not e.known for e in run.events):
                return None
            for site, numbers in _count_each(run):
                found[site][done : done + run.programs] = numbers
            done += run.programs
    sizes = {buffer.argument: buffer.bytes for buffer in buffers}
    moved = [0, 0]
    for (argument, writes), numbers in found.items():
        if argument not in sizes:
            return None
        *others, last = numbers
        # The last block is seldom full.
        in_all = float(np.mean(others)) * (blocks - 1) + last if others else last
        moved[writes] += min(sizes[argument], round(in_all))
    return moved[0], moved[1]


def _count_each(run: Execution) -> Iterator[tuple[_Site, list[float]]]:
    """Yield the bytes of different elements that each program of a batch moves, by argument."""
    sites: dict[_Site, list[MemoryEvent]] = defaultdict(list)
    for event in run.events:
        if event.kind != "store":
            sites[event.base, False].append(event)
        if event.kind != "load":
            sites[event.base, True].append(event)
    for site, events in sites.items():
        yield site, [_count_one(events, program) for program in range(run.programs)]


def _count_one(events: Sequence[MemoryEvent], program: int) -> float:
    """Return the bytes of different elements that one program moves. Of sweeps that have elements
    in common the longest counts, as far as their iterations were run."""
    sweeps: dict[tuple[int, ...], list[tuple[float, Numbers]]] = defaultdict(list)
    for event in events:
        sweeps[event.loops].append((event.weight, _elements(event, program)))
    size = events[0].element_bytes
    known: list[tuple[float, Numbers]] = []
    for sweep in sweeps.values():
        weight = max(each for each, _ in sweep)
        together = np.unique(np.concatenate([elements for _, elements in sweep]))
        largest = max(elements.size for _, elements in sweep)
        fresh = together.size > largest or len(sweep) == 1
        number = together.size * weight if fresh else float(largest)
        overlapping = next(
            (n for n, (_, other) in enumerate(known) if np.intersect1d(other, together).size), None
        )
        if overlapping is None:
            known.append((number, together))
        else:
            before, other = known[overlapping]
            known[overlapping] = max(before, number), np.union1d(other, together)
    return size * sum(number for number, _ in known)


def _elements(event: MemoryEvent, program: int) -> Numbers:
    """Return the offsets of the elements that a program moves, each once."""
    shape = event.tensor.shape if event.tensor is not None else ()
    offsets = _whole(event.offset, shape)
    own = offsets[min(program, len(offsets) - 1)]
    if event.mask is not None:
        masks = _whole(event.mask, shape)
        own = own[masks[min(program, len(masks) - 1)].astype(bool)]
    found: Numbers = np.unique(own)
    return found
