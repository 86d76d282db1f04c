"""Finds where fusing one more full-size read becomes expensive: the launches to look at, what came
of each, and the cliff. Pure; compiling and timing are the caller's.

    for problem in settings(reads=(3, 5, 7)):
        plan = mix_order.plan(problem, target, "inductor")
        row = row_of(problem, plan.launches[0], candidate, seconds or None)
    cliffs(rows)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from perfcli.model import Candidate, KernelLaunch, Problem, Target

from .._elements import ITEM_BYTES
from . import mix_order
from .plan import (
    _inductor_setting,
    _read_count,
)

READS = (3, 5, 7, 9, 11)
DTYPES = ("bfloat16", "float32")
SWEPT = {"reads": READS, "warps": (2, 4, 8), "block": (1, 4), "stages": (1, 2)}
"""What a sweep varies, and the values that it takes by default."""
SLOWER = 1.1
"""Times the fewest seconds per byte of fewer reads: from there on a launch is on the cliff."""


@dataclass(frozen=True, slots=True)
class _ProbeRow:
    """Describes one launch of the fused kernel. ``None`` means not known."""

    reads: int
    dtype: str
    num_warps: int
    block: int
    """Rows at a time."""
    num_stages: int
    registers: int | None
    """Registers per thread."""
    spilled_words: int | None
    """Spilled words of 32 bits per thread."""
    shared_bytes: int | None
    """Bytes of shared memory per block."""
    warps_per_sm: int | None
    """Resident at the same time."""
    seconds: float | None
    full_bytes: int
    """Read and written in full size: what the time is held against."""
    error: str = ""

    most_registers: int = 255
    """The most registers that a thread of this launch can have."""

    @property
    def launch(self) -> tuple[str, int, int, int]:
        return (self.dtype, self.num_warps, self.block, self.num_stages)

    @property
    def seconds_per_byte(self) -> float | None:
        return None if self.seconds is None else self.seconds / self.full_bytes


@dataclass(frozen=True, slots=True)
class _Cliff:
    """Describes what more reads do to one launch configuration."""

    dtype: str
    num_warps: int
    block: int
    num_stages: int
    most_clean_reads: int | None
    """The most reads that spill nothing; None where all spill."""
    spills_from: int | None
    """The fewest reads from which on all spill; None where the most reads do not."""
    spilled_words: int
    """The words spilled there; 0 where that is None."""
    slow_from: int | None
    """The fewest reads whose time per byte is SLOWER times that of fewer; None where there is none
    or nothing was timed."""
    slowdown: float | None
    """The worst time per byte over the best; None where nothing was timed."""


def settings(
    reads: Sequence[int] = READS,
    warps: Sequence[int] = SWEPT["warps"],
    blocks: Sequence[int] = SWEPT["block"],
    stages: Sequence[int] = SWEPT["stages"],
    dtypes: Sequence[str] = DTYPES,
    rows: int = 98304,
    columns: int = 512,
) -> tuple[Problem, ...]:
    """Return every combination, by default around what Inductor chose in pytorch #179494 (98304 ×
    512, 2 warps, 4 rows at a time). Each problem fixes its launch."""
    return tuple(
        replace(
            problem := mix_order(rows, columns, count, dtype),
            settings={**problem.settings, "warps": w, "block": b, "stages": s},
        )
        for dtype, w, b, s, count in product(dtypes, warps, blocks, stages, reads)
    )


def row_of(
    problem: Problem,
    launch: KernelLaunch,
    compiled: Candidate,
    seconds: float | None = None,
    target: Target | None = None,
) -> _ProbeRow:
    """Return the row of a launch. ``launch``: the fused kernel's, the first of its plan.
    ``target``: what it is compiled for; NVIDIA's by default."""
    resident = compiled.blocks_per_sm
    reads = _read_count(problem)
    return _ProbeRow(
        reads=reads,
        dtype=problem.dtype,
        num_warps=launch.num_warps,
        block=int(str(launch.constants["BLOCK"])),
        num_stages=int(str(launch.constants["STAGES"])),
        registers=compiled.registers,
        spilled_words=compiled.spilled_words,
        shared_bytes=compiled.shared_bytes,
        warps_per_sm=None if resident is None else resident * launch.num_warps,
        seconds=seconds,
        full_bytes=(reads + 1) * problem.elements * ITEM_BYTES[problem.dtype],
        error=compiled.error,
        most_registers=_most_registers(launch, target) if target else 255,
    )


def _most_registers(launch: KernelLaunch, target: Target) -> int:
    threads = launch.num_warps * target.warp_size
    addressable = 512 if target.vendor == "amd" else 255
    return min(addressable, target.registers_per_sm // threads)


def inductors(rows: Sequence[_ProbeRow], columns: int, row_count: int, target: Target) -> set[Any]:
    """Return, of the launches in ``rows``, the ones that torch 2.11 chooses."""
    chosen = _inductor_setting(row_count, columns, target)
    wanted = (chosen.num_warps, chosen.block, chosen.num_stages)
    return {row.launch for row in rows if row.launch[1:] == wanted}


def cliffs(rows: Iterable[_ProbeRow]) -> tuple[_Cliff, ...]:
    """Return one cliff for each launch configuration, in the order in which they come first."""
    groups: dict[tuple[str, int, int, int], list[_ProbeRow]] = {}
    for row in rows:
        groups.setdefault(row.launch, []).append(row)
    return tuple(_cliff(sorted(group, key=lambda r: r.reads)) for group in groups.values())


def _cliff(rows: Sequence[_ProbeRow]) -> _Cliff:
    known = [row for row in rows if row.spilled_words is not None]
    last_clean = max((n for n, row in enumerate(known) if not row.spilled_words), default=-1)
    spilling = known[last_clean + 1] if last_clean + 1 < len(known) else None
    clean = [row.reads for row in known[: last_clean + 1] if not row.spilled_words]
    times = [(row.reads, t) for row in rows if (t := row.seconds_per_byte) is not None]
    return _Cliff(
        *rows[0].launch,
        most_clean_reads=max(clean, default=None),
        spills_from=spilling.reads if spilling else None,
        spilled_words=(spilling.spilled_words or 0) if spilling else 0,
        slow_from=_slow_from(times),
        slowdown=max(t for _, t in times) / min(t for _, t in times) if times else None,
    )


def _slow_from(times: Sequence[tuple[int, float]]) -> int | None:
    """Return from how many reads on a launch is slow. ``times``: reads, and seconds per byte."""
    best = float("inf")
    for reads, time in times:
        if time > SLOWER * best:
            return reads
        best = min(best, time)
    return None
