"""Registers or shared memory leave too few warps to keep the memory busy.

What it sees: a kernel whose resident warps, limited by registers or by shared memory, cannot have
enough bytes in flight, even if each thread issued all of its loads at once. By Little's law the
bandwidth is used only while each multiprocessor waits for

    needed = bandwidth × share of reads × memory latency / multiprocessors

bytes, of which it can have asked for

    possible = blocks per multiprocessor × min(threads × bytes of all load instructions,
                                               registers × 4 × threads + shared memory)

The bytes are those of the LDG instructions in the binary with their widths, copies for a pipeline
(`num_stages`) among them, so that `possible` is an upper bound. The latency is that of an idle
memory, so that `needed` is a lower bound: 400 ns on an H100 (measured: 16 bytes per thread of 1 to
4 warps per multiprocessor), 331 ns on an A100 and 215 ns on Ada (pointer chases of
arXiv:2402.13499), else the shortest of these. On an H100 `needed` is 10,150 B; 8,192 B in flight
reached 65 % of 3.35 TB/s, 4,096 B 38 %, 32,768 B 90 %.

Occupancy itself is no measure: 14 kernels with 4 to 28 of 64 warps resident (6 to 44 %) all moved
2.67 to 2.88 of the 3.0 TB/s that a copy reaches on that H100 (torch 2.13's sources, triton 3.6,
2026-11-21). Left out are kernels that move less than the L2 cache holds (they wait for their
launch, not for the memory; 16 µs on an H100), kernels too small to fill the device or of unknown
size, TMA loads, matmul templates and hand-written kernels (which may wait for tensor cores
instead).

Why it costs: with fewer bytes in flight than needed the memory idles, in that proportion.

What to try: a smaller block or fewer values alive per thread, wider loads, fewer fusions.
No option of Inductor sets one kernel's launch configuration; `coordinate_descent_tuning` and
`max_autotune` search for one on a device.
"""

from __future__ import annotations

from collections.abc import Iterator

from perfcli import units
from perfcli.model import Candidate, Finding, KernelFacts, Rule, Run, Target
from perfcli.predict.savings import estimate_saving
from perfcli.rules._evidence import launches
from perfcli.rules._evidence.demands import more_resident
from perfcli.rules._evidence.words import number_kernels, origin_of

GENERATED = ("pointwise", "reduction", "persistent-reduction", "mix-order-reduction", "combo")
_BLOCKS = (("x", "XBLOCK"), ("y", "YBLOCK"), ("z", "ZBLOCK"))


def _check(run: Run) -> Iterator[Finding]:
    for number, kernel, best in number_kernels(run):
        share = reachable(run, kernel)
        if share is not None and share < 1.0 and run.target is not None:
            yield _finding(run, run.target, number, kernel, best, share)


def reachable(run: Run, kernel: KernelFacts) -> float | None:
    """Return the part of the bandwidth that a kernel's warps can use, at most, or None where this
    is not known or not what limits the kernel."""
    target, best = run.target, kernel.best
    if target is None or best is None or kernel.kind not in GENERATED:
        return None
    if best.occupancy_limit not in ("registers", "shared memory") or not best.blocks_per_sm:
        return None  # what cannot be launched at all is PC105
    if not launches.larger_than_l2(run, kernel) or not _fills(target, kernel, best):
        return None
    needed = launches.needed_in_flight(target, kernel)
    usable = [c for c in kernel.candidates if not c.error and c.blocks_per_sm != 0]
    possible = [launches.possible_in_flight(target, c) for c in usable]
    known = [value for value in possible if value is not None]
    if not needed or len(known) < len(possible) or not known:
        return None
    return min(max(known) / needed, 1.0)


def _fills(target: Target, kernel: KernelFacts, candidate: Candidate) -> bool:
    """Return whether there are as many blocks as the device can hold; not where sizes are
    unknown."""
    config = {**candidate.config}
    config["XBLOCK"] = config.get("RSPLIT_SIZE", config.get("XBLOCK", 1))
    blocks = 1
    for size, block in _BLOCKS:
        blocks *= -(-kernel.sizes.get(size, 1) // config.get(block, 1))
    return bool(kernel.sizes) and blocks >= target.sm_count * (candidate.blocks_per_sm or 0)


def _finding(
    run: Run, target: Target, number: int, kernel: KernelFacts, best: Candidate, share: float
) -> Finding:
    warps = launches.resident_warps(best)
    return Finding(
        code=RULE.code,
        severity="warning",
        headline=f"{kernel.name} can use at most {units.percent(share)} of the memory's bandwidth: "
        f"{best.occupancy_limit} leave{'s' * (best.occupancy_limit != 'registers')} "
        f"{units.plural(warps or 0, 'warp')} per multiprocessor",
        kernels=(number,),
        evidence=(
            f"{units.count(best.registers)} registers, "
            f"{units.exact_bytes(best.shared_bytes)} shared memory",
            launches.residency(best),
            f"at most {units.exact_bytes(launches.possible_in_flight(target, best))} in flight "
            f"per multiprocessor, {units.exact_bytes(_needed(target, kernel))} needed",
        ),
        advice="let each thread hold less, or load more at once",
        cures=launches.register_cures(run, kernel),
        cost=estimate_saving(run, {number: (more_resident(1 / share),)}),
        metric="occupancy",
        amount=1 - (best.occupancy or 0.0),
        origin=origin_of(kernel),
    )


def _needed(target: Target, kernel: KernelFacts) -> int:
    return round(launches.needed_in_flight(target, kernel) or 0)


RULE = Rule("PC104", "occupancy lost to registers or shared memory", __doc__, of_run=_check)
