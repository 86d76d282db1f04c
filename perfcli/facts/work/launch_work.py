"""Joins index arithmetic and machine code into the work of one launch configuration."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields

import numpy as np

from perfcli.facts.binary.sass import Listing
from perfcli.facts.work.accesses import (
    MOST_VECTOR_BYTES,
    AccessCounts,
    Numbers,
    _count_bank_conflicts,
    count_access,
)
from perfcli.facts.work.divisions import find_divisions
from perfcli.facts.work.memory_accesses import MemoryAccesses
from perfcli.facts.work.parts import find_parts
from perfcli.facts.work.programs import Execution, _sample_programs, run_programs
from perfcli.facts.work.timeline import Accesses, Known, _Code, _widths_of, trace_warp
from perfcli.facts.work.ttgir import Module
from perfcli.model import Grid, LaunchWork, Traffic

_PROGRAMS = 4
_PROGRAMS_OF_PARTS = 48
"""Programs of a kernel whose programs do different things (combo kernels)."""


def work_of(
    module: Module,
    listing: Listing,
    source_file: str,
    grid: Grid,
    arguments: Mapping[str, int] | None = None,
    axes: Sequence[str] = (),
) -> LaunchWork:
    """Count what a launch asks for.

    ``arguments`` has the whole-number arguments of the kernel that it needs, ``axes`` the names of
    its blocks' axes. Raises UnreadableTtgir, LookupError or ValueError where its index arithmetic
    could not be run."""
    arguments = arguments or {}
    runs = run_programs(module, arguments, grid, _sample_programs(grid, _PROGRAMS))
    if len(runs) > 1 and math.prod(grid) > _PROGRAMS:
        runs = run_programs(module, arguments, grid, _sample_programs(grid, _PROGRAMS_OF_PARTS))
    total = sum(run.programs for run in runs)
    code = _Code(listing, source_file)
    widths = _widths_of(code)
    accesses = MemoryAccesses()
    counted = [_count(module, run, widths, accesses, run.programs / total) for run in runs]
    traffic = _average(
        [(run.programs / total, c.traffic) for run, c in zip(runs, counted, strict=True)]
    )
    traffic.atomic_shared = _share_atomics([c.atomics for c in counted])
    expected: dict[int, Accesses] = {}
    known: dict[int, Known] = {}
    for count in counted:
        known.update(count.known)
        for line, number in count.accesses.items():
            before = expected.get(line, (0.0, 0.0))
            expected[line] = max(before[0], number[0]), max(before[1], number[1])
    mean = _mean_lines(runs, total)
    counters = {line: counter for run in runs for line, counter in run.counters.items()}
    dividing = find_divisions(module)
    parts, parting = find_parts(runs)
    warp = trace_warp(code, mean, expected, known, counters, dividing, parting)
    longest = warp
    if len(runs) > 1:
        most = max(runs, key=lambda run: sum(run.line_runs.values()))
        longest = trace_warp(code, most.line_runs, expected, known, counters, dividing, parting)
    return LaunchWork(
        grid,
        module.num_warps,
        traffic,
        warp,
        longest,
        any(event.indirect for run in runs for event in run.events),
        any(run.unknown_loops for run in runs),
        _has_retries(code.listing, runs),
        tuple(sorted(dividing)),
        parts,
        accesses.sum_up(module.layouts, module.num_warps, axes),
    )


def _has_retries(listing: Listing, runs: Sequence[Execution]) -> bool:
    """Return whether the machine code has to swap whole words for the kernel's updates. Hopper adds
    bfloat16 in pairs only, so that a single one is a loop (ptxas 12.8 and 13.0)."""
    small = any(e.kind == "atomic" and e.element_bytes < 4 for run in runs for e in run.events)
    return small and any(".CAS" in each.opcode for each in listing.instructions)


def _mean_lines(runs: Sequence[Execution], total: int) -> dict[int, float]:
    lines: dict[int, float] = defaultdict(float)
    for run in runs:
        for line, number in run.line_runs.items():
            lines[line] += number * run.programs / total
    if len(runs) > 1:  # a line that a program never reaches runs less than once
        everywhere = set().union(*(run.line_runs for run in runs))
        return {line: lines[line] for line in everywhere}
    return dict(lines)


@dataclass(slots=True)
class _Counted:
    """Holds what one block of a batch of programs asks for."""

    traffic: Traffic = field(default_factory=Traffic)
    accesses: dict[int, Accesses] = field(default_factory=dict)
    """Memory instructions of a warp by source line."""
    known: dict[int, Known] = field(default_factory=dict)
    atomics: list[Numbers] = field(default_factory=list)
    """For each program the sectors that its atomics update."""


_Loads = dict[tuple[str, tuple[int, ...]], list[tuple[float, tuple[Numbers, ...]]]]


def _count(
    module: Module,
    run: Execution,
    widths: Mapping[tuple[int, str], int],
    accesses: MemoryAccesses,
    share: float,
) -> _Counted:
    counted = _Counted()
    traffic = counted.traffic
    loads: _Loads = defaultdict(list)
    stores: list[tuple[float, tuple[Numbers, ...]]] = []
    for event in run.events:
        widest = widths.get((event.line, event.kind), MOST_VECTOR_BYTES)
        counts = count_access(event, module.layouts, module.num_warps, widest)
        if event.iteration == 0:
            least, most = counted.accesses.get(event.line, (0.0, 0.0))
            counted.accesses[event.line] = (
                least + counts.instructions,
                most + counts.most_instructions,
            )
        weight = event.weight
        accesses.add(event, counts, share)
        if event.kind == "load":
            traffic.requests += counts.requests * weight
            traffic.lines += counts.lines * weight
            traffic.load_sectors += counts.sectors * weight
            counted.known[event.line] = _find_known(event.base, event.loops, counts, loads)
            loads[event.base, event.loops].append((weight, counts.sector_sets))
        elif event.kind == "store":
            traffic.store_requests += counts.requests * weight
            traffic.store_sectors += counts.sectors * weight
            traffic.warp_store_sectors += counts.warp_sectors * weight
            traffic.partial += counts.partial * weight
            traffic.fragments += counts.fragments * weight
            stores.append((weight, counts.sector_sets))
        else:
            traffic.atomic_sectors += counts.sectors * weight
            traffic.atomic_addresses += weight * _mean_size(counts)
            traffic.atomic_updates += weight * counts.useful_bytes / event.element_bytes
            counted.atomics += counts.sector_sets
    largest: dict[str, float] = {}
    for (base, _), sweep in loads.items():
        distinct = _distinct(sweep)
        largest[base] = max(largest.get(base, 0.0), distinct)
        traffic.new_sectors += distinct
        traffic.touched[base] = traffic.touched.get(base, 0.0) + distinct
    # A loop over what another has left over is no sweep of its own.
    for base, touched in traffic.touched.items():
        traffic.swept[base] = touched / largest[base] if largest[base] else 1.0
    traffic.block_store_sectors = sum(
        weight * float(np.mean([len(s) for s in sets])) for weight, sets in stores
    )
    traffic.bank_conflicts = sum(
        weight * _count_bank_conflicts(reduction, module.layouts, module.num_warps)
        for reduction, weight in run.reductions
    )
    return counted


def _find_known(base: str, loops: tuple[int, ...], counts: AccessCounts, loads: _Loads) -> Known:
    """Return how much of what the first program loads it has loaded before, as far as its earlier
    loads say: in the same sweep, and in an earlier one."""
    own = counts.sector_sets[0]
    if not own.size:
        return 0.0, 0.0
    near = [s[0] for _, s in loads.get((base, loops), ())]
    far = [
        s[0]
        for (b, sweep), events in loads.items()
        if b == base and sweep != loops
        for _, s in events
    ]
    fresh = np.setdiff1d(own, np.concatenate(near), True) if near else own
    left = np.setdiff1d(fresh, np.concatenate(far), True) if far else fresh
    return 1 - fresh.size / own.size, (fresh.size - left.size) / own.size


def _share_atomics(programs: Sequence[Sequence[Numbers]]) -> float:
    """Return the part of the updated sectors that several of the programs that were run update."""
    sets = [sectors for program in programs for sectors in program if sectors.size]
    total = sum(s.size for s in sets)
    if len(sets) < 2 or not total:
        return 0.0
    return (total - np.unique(np.concatenate(sets)).size) / (total - total / len(sets))


def _mean_size(counts: AccessCounts) -> float:
    return float(np.mean([len(sectors) for sectors in counts.sector_sets]))


def _distinct(accesses: Sequence[tuple[float, tuple[Numbers, ...]]]) -> float:
    """Return how many different sectors all accesses of one sweep touch. Those that the iterations
    that were run have in common are taken to be common to all."""
    weight = max(w for w, _ in accesses)
    programs = max(len(sets) for _, sets in accesses)
    total = 0.0
    for program in range(programs):
        sets = [s[min(program, len(s) - 1)] for _, s in accesses]
        together = len(np.unique(np.concatenate(sets))) if len(sets) > 1 else len(sets[0])
        largest = max(len(s) for s in sets)
        # Iterations that bring nothing new: the sweep touches what one of them does.
        total += together * weight if together > largest or len(sets) == 1 else largest
    return total / programs


def _average(parts: Sequence[tuple[float, Traffic]]) -> Traffic:
    if len(parts) == 1:
        return parts[0][1]
    result = Traffic()
    for share, part in parts:
        for each in fields(Traffic):
            own, found = getattr(result, each.name), getattr(part, each.name)
            if isinstance(own, float):
                setattr(result, each.name, own + share * found)
                continue
            for base, number in found.items():
                own[base] = own.get(base, 0.0) + share * number
    return result
