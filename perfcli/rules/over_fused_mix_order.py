"""A mix-order kernel has taken in more than its registers can hold.

What it sees: a kernel that reduces over rows and over columns in one pass (`mix_order_reduction`,
on since torch 2.10), reads more than 10 buffers, and pays for it: it spills more than 16 words
(why 16: PC101), or what its few resident warps can have in flight does not use the memory's
bandwidth (PC104). 10 is torch's own limit since 2.13 (`triton.mix_order_reduction_max_reads`,
pytorch#179423, #179494); 2.10 to 2.12 have none. Torch counts the buffers that the fused nodes
read by name; here it is the kernel's arguments, so that values made and read inside are not
counted.

More than 10 reads alone are no finding, nor is low occupancy. Torch asks its limit only when it
adds to a mix-order kernel, not about the two kernels it first makes one of: by default
`gqa-transformer -p layers=3 -p batch=48 -p learned=true` has one that reads 15 buffers, with 202
registers and 4 warps per multiprocessor. On an H100 it moves 2.86 TB/s of 3.0 that a copy reaches,
because its loads are pipelined through 112,800 B of shared memory: nothing to cure (triton 3.6,
2026-11-21).

Why it costs: all values of a row of every buffer are alive at once, and what does not fit is
spilled in each iteration. 9 mix-order kernels with 6 to 19 loads made a training step 6 % slower
(pytorch#179423). How much fusing less gains is another question: it reads memory again. In the
example above with `max_reads=1000` one kernel reads 16 buffers and spills 92 words. On an H100 it
takes 583 µs, 536 µs without the spills in another launch configuration (PC106); with the limit
all kernels together move 23.8 GB instead of 22.2, 0.5 ms of bandwidth. Timed on that GPU with torch
2.11, a step takes as long with the limit as without, within the noise (26.1 and 26.0 ms, +0.5 %),
and its generated kernels 2.6 % longer, in spite of the spills (docs/cures.md). Further on there is
a cliff: with float32 parameters a kernel spills 598 words and takes 3.7 ms on an H200, and the
limit wins 10.7 % of the step (docs/mix-order.md).
That is why this is a warning and no error; `--try-fixes` shows spilled words and bytes.

What to try: another launch configuration, if PC106 names one and the kernel can be tuned; the
limit, where it is higher or none (perfcli gives torch 2.10 to 2.12 the same option); no mix-order
kernels at all.
"""

from __future__ import annotations

from collections.abc import Iterator

from perfcli import units
from perfcli.model import Candidate, Cost, Finding, KernelFacts, Rule, Run
from perfcli.predict.savings import estimate_saving
from perfcli.rules._evidence import launches
from perfcli.rules._evidence.demands import more_moved, more_resident, without_spills
from perfcli.rules._evidence.splits import KERNEL_SECONDS
from perfcli.rules._evidence.words import number_kernels, origin_of
from perfcli.rules.low_occupancy import reachable


def _check(run: Run) -> Iterator[Finding]:
    for number, kernel, best in number_kernels(run):
        reads = launches.buffers_read(kernel) or 0
        if kernel.kind != "mix-order-reduction" or reads <= launches.MAX_READS_DEFAULT:
            continue
        starved = (reachable(run, kernel) or 1.0) < 1.0
        if launches.spills_substantially(best) or starved:
            yield _finding(run, number, kernel, best, reads)


def _finding(run: Run, number: int, kernel: KernelFacts, best: Candidate, reads: int) -> Finding:
    words = best.spilled_words or 0
    warps = launches.resident_warps(best)
    cost = (
        f"spills {units.plural(words, 'word')} per thread"
        if words > launches.SPILLS_THAT_MATTER
        else f"leaves {units.count(warps)} warps per multiprocessor"
    )
    return Finding(
        code=RULE.code,
        severity="warning",
        headline=f"{kernel.name} fuses {reads} reads into one mix-order pass and {cost}",
        kernels=(number,),
        evidence=(
            f"{reads} buffers read, torch's limit is {launches.MAX_READS_DEFAULT}; "
            f"in this run {_limit(run)}",
            launches.resources(best),
            launches.residency(best),
        ),
        advice="limit what mix-order kernels may read, or switch them off; both read memory "
        "again, so weigh the spilled words against the bytes moved",
        cures=launches.mix_order_cures(run, reads),
        cost=_cost(run, number),
        metric="spilled_words" if words > launches.SPILLS_THAT_MATTER else "occupancy",
        amount=words if words > launches.SPILLS_THAT_MATTER else 1 - (best.occupancy or 0),
        origin=origin_of(kernel),
    )


def _cost(run: Run, number: int) -> Cost | None:
    """Return what it would save not to spill, and to have enough in flight, less what fusing less
    adds at the least: one tensor passed on between two kernels, and a launch."""
    kernel = run.kernels[number]
    share = reachable(run, kernel) or 1.0
    passed_on = max((buffer.bytes for buffer in kernel.buffers), default=0)
    edits = (without_spills, more_resident(1 / share), more_moved(passed_on))
    return estimate_saving(run, {number: edits}, KERNEL_SECONDS * kernel.launches)


def _limit(run: Run) -> str:
    limit = run.settings.get(launches.MAX_READS)
    return f"it is {limit}" if isinstance(limit, int) and limit > 0 else "there is none"


RULE = Rule(
    "PC103",
    "over-fused mix-order kernel",
    __doc__,
    explains=("PC101", "PC102", "PC104"),
    of_run=_check,
)
