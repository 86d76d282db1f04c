"""Tells what a launch configuration means on the target: resident warps, spills that matter, bytes
in flight. Numbers were measured on an H100 80GB HBM3 (torch 2.11, triton 3.6, L2 flushed,
2026-11-21)."""

from __future__ import annotations

from collections.abc import Mapping

from perfcli import units
from perfcli.model import Candidate, Cure, KernelFacts, Run, Target
from perfcli.options import patches

SPILLS_THAT_MATTER = 16
"""Inductor's own limit, ``spill_threshold``: of several configurations it drops those that spill
more words."""

MAX_READS = "triton.mix_order_reduction_max_reads"
MAX_READS_DEFAULT = 10
MIX_ORDER = "triton.mix_order_reduction"
PERSISTENT = "triton.persistent_reductions"

# Seconds that a load from memory takes while the memory is idle. 9.0 is measured: one 16-byte load
# in flight per thread of one to four warps on every multiprocessor. The others are the pointer
# chases of arXiv:2402.13499 ("Benchmarking and Dissecting the Nvidia Hopper GPU Architecture",
# A100 466 cycles at 1.41 GHz, RTX 4090 541 at 2.52), which find less than a stream does
# (479 cycles at 1.755 GHz on an H100, 273 ns); an architecture not listed counts as the shortest.
_IDLE_LATENCY: Mapping[tuple[int, int], float] = {
    (8, 0): 331e-9,
    (8, 9): 215e-9,
    (9, 0): 400e-9,
}


def resident_warps(candidate: Candidate) -> int | None:
    """Return warps that share one multiprocessor."""
    blocks = candidate.blocks_per_sm
    return None if blocks is None else blocks * candidate.num_warps


def write_configuration(candidate: Candidate) -> str:
    """Write ``XBLOCK=4 2 warps 1 stage``."""
    blocks = [f"{name}={value}" for name, value in sorted(candidate.config.items())]
    warps = units.plural(candidate.num_warps, "warp")
    return " ".join([*blocks, warps, units.plural(candidate.num_stages, "stage")])


def spills_substantially(candidate: Candidate) -> bool:
    """Return whether more is spilled than Inductor itself would tolerate, and code touches it."""
    untouched = candidate.local_loads == 0 and candidate.local_stores == 0
    return (candidate.spilled_words or 0) > SPILLS_THAT_MATTER and not untouched


def larger_than_l2(run: Run, kernel: KernelFacts) -> bool:
    """Return whether one launch moves more than the L2 cache holds: what it waits for is the
    memory, and its launch is a small part of its time (16 µs at the least on an H100)."""
    return (
        run.target is not None
        and kernel.bytes_moved is not None
        and kernel.bytes_moved > run.target.l2_bytes
    )


def needed_in_flight(target: Target, kernel: KernelFacts) -> float | None:
    """Return bytes that each multiprocessor must have asked for at any time to use the whole
    bandwidth, by Little's law. Only reads wait; stores leave the kernel behind."""
    if kernel.bytes_read is None or not kernel.bytes_moved:
        return None
    latency = _IDLE_LATENCY.get(target.capability, min(_IDLE_LATENCY.values()))
    share = kernel.bytes_read / kernel.bytes_moved
    return target.bandwidth * share * latency / target.sm_count


def possible_in_flight(target: Target, candidate: Candidate) -> float | None:
    """Return the most bytes that each multiprocessor can have asked for: every load instruction of
    every resident thread at once, as many as its registers and the block's shared memory can
    take."""
    blocks = candidate.blocks_per_sm
    if blocks is None or candidate.registers is None or not candidate.global_loads:
        return None
    if candidate.tma_loads or candidate.tma_loads is None:
        return None
    threads = candidate.num_warps * target.warp_size
    asked = sum(int(bits) // 8 * count for bits, count in candidate.global_loads.items())
    room = candidate.registers * 4 * threads + (candidate.shared_bytes or 0)
    return float(blocks * min(asked * threads, room))


def register_cures(run: Run, kernel: KernelFacts) -> tuple[Cure, ...]:
    """Return options that let each thread hold less."""
    if kernel.kind == "mix-order-reduction":
        return mix_order_cures(run, buffers_read(kernel) or 0)
    if kernel.kind == "persistent-reduction" and run.settings.get(PERSISTENT):
        return (Cure({PERSISTENT: False}, "reduces in a loop over parts of the row"),)
    return ()


def mix_order_cures(run: Run, reads: int) -> tuple[Cure, ...]:
    """Return options that keep a mix-order kernel smaller, or from being made."""
    cures = []
    limit = run.settings.get(MAX_READS)
    brought = patches.list_fitting(run.environment.torch, run.settings)
    known = MAX_READS in run.settings or MAX_READS in brought
    limited = isinstance(limit, int) and 0 < limit <= MAX_READS_DEFAULT
    if known and not limited and reads > MAX_READS_DEFAULT:
        why = (
            f"fuses no further where a mix-order kernel would read over {MAX_READS_DEFAULT} buffers"
        )
        cures.append(Cure({MAX_READS: MAX_READS_DEFAULT}, why))
    if run.settings.get(MIX_ORDER):
        cures.append(Cure({MIX_ORDER: False}, "makes no mix-order kernels"))
    return tuple(cures)


def buffers_read(kernel: KernelFacts) -> int | None:
    """Return buffers that a kernel reads, each once: what torch 2.13 counts against the read limit
    (``FusedMixOrderReductions.can_fuse_with``) less what the kernel makes and reads itself."""
    read = {b.name for b in kernel.buffers if b.is_read}
    if read:
        return len(read)
    return kernel.source_facts.buffers_read if kernel.source_facts else None


def resources(candidate: Candidate) -> str:
    """Write ``255 registers, 92 spilled words, 112,928 B shared memory``."""
    return (
        f"{units.count(candidate.registers)} registers, "
        f"{units.plural(candidate.spilled_words or 0, 'spilled word')}, "
        f"{units.exact_bytes(candidate.shared_bytes)} shared memory"
    )


def residency(candidate: Candidate) -> str:
    """Write ``2 blocks of 2 warps per multiprocessor (6.25 % occupancy), limited by shared
    memory``."""
    blocks = units.plural(candidate.blocks_per_sm or 0, "block")
    limit = f", limited by {candidate.occupancy_limit}" if candidate.occupancy_limit else ""
    return (
        f"{blocks} of {units.plural(candidate.num_warps, 'warp')} per multiprocessor "
        f"({units.percent(candidate.occupancy)} occupancy){limit}"
    )
