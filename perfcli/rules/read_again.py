"""A reduction reads its input again, and the cache cannot hold it.

What it sees: a looped reduction that sweeps over an input more than once, where the sweeps after
the first are a tenth of its bytes or more. What counts is whether a sweep finds the rows in the L2
cache: the rows reduced at the same time (blocks per multiprocessor x multiprocessors x rows per
block, of the launch configuration that needs least) hold so many bytes of what is read again. More
than L2: a warning. More than half of it: worth knowing. Less: nothing.

Why it costs: what L2 lost comes from memory again. bfloat16 on an H100 (L2 52 MB, copy 2.97 TB/s),
torch 2.11, bytes counted once: RMSNorm of 8,192 columns (9 MB in use at once) runs at 3.01 TB/s and
of 32,768 (17 MB) at 2.99; of 50,304 (27 to 53 MB) at 2.35 to 2.73, of 65,536 (69 MB) at 2.25, of
131,072 (138 MB) at 2.02.

What to try: read each row once. Inductor holds rows of up to 1,024 elements in registers
(`triton.persistent_reductions`), and lets the autotuner try rows of up to 32,768 in one block. It
has no option for longer ones: `triton.multi_kernel` goes to 16,384 only. A hand-written kernel
that keeps the row in registers or shared memory, over a cluster of blocks where it must, reaches
84 to 90 % of the memory's peak (QuACK, softmax on H100, 2K to 262K columns). If `online_softmax` is
off, that is the cause of one sweep: 16,384 x 50,304 takes 2.18 ms without and 1.77 ms with it.
With rows that L2 holds it is the other way round (16,384 x 32,768: 0.84 and 1.07 ms), and on an
H200, whose memory is faster (torch 2.11, 2026-11-23): 16,384 x 50,304 takes 1.68 ms without and
1.75 ms with it, 8,192 x 131,072 2.04 and 2.12 ms, since it takes more instructions. Where the
estimate sees that, the finding is only worth knowing.
"""

from __future__ import annotations

from collections.abc import Iterator

from perfcli import units
from perfcli.model import Buffer, Cost, Cure, Finding, KernelFacts, Rule, Run, Severity
from perfcli.predict.reuse import share_cold
from perfcli.predict.savings import estimate_saving
from perfcli.rules._evidence.demands import fewer_loads, more_read, taken_online
from perfcli.rules._evidence.whole_reads import in_flight, reduced_elements, rows_of, whole_reads
from perfcli.rules._evidence.words import origin_of

SHARE = 0.1
LONGEST_PERSISTENT = 1024

Again = list[tuple[Buffer, int]]


def _check(run: Run) -> Iterator[Finding]:
    for number, kernel in enumerate(run.kernels):
        again = _read_again(kernel)
        extra = (kernel.bytes_swept or 0) - (kernel.bytes_moved or 0)
        if again and kernel.bytes_moved and extra >= SHARE * (kernel.bytes_swept or 0):
            yield from _finding(run, number, again, extra)


def _read_again(kernel: KernelFacts) -> Again:
    passes = kernel.source_facts.passes if kernel.source_facts else {}
    swept = [(buffer, passes.get(buffer.argument, 0)) for buffer in whole_reads(kernel)]
    return [(buffer, sweeps) for buffer, sweeps in swept if sweeps > 1]


def _finding(run: Run, number: int, again: Again, extra: int) -> Iterator[Finding]:
    kernel = run.kernels[number]
    held = in_flight(run, kernel, sum(buffer.bytes for buffer, _ in again))
    l2 = run.target.l2_bytes if run.target else 0
    cause, cures = _cause(run, kernel)
    severity = _severity(held, l2, cause)
    if severity is None:
        return
    swept = kernel.bytes_swept or 0
    sweeps = max(sweeps for _, sweeps in again)
    cost = _cost(run, number, again, extra, "online_softmax" in cause)
    if cause and cost is not None and cost.seconds <= 0:
        severity = "info"
    yield Finding(
        code=RULE.code,
        severity=severity,
        headline=f"{kernel.name} reads its input {sweeps} times: {units.size(swept)} where "
        f"{units.size(swept - extra)} would do",
        kernels=(number,),
        evidence=(
            *(f"{b.argument} ({units.size(b.bytes)}) is swept {n} times" for b, n in again),
            f"read once, the kernel would move {units.percent(extra / swept)} less"
            + ("" if cost else _in_time(run, extra)),
            *_cached(held, l2),
            *([cause] if cause else []),
        ),
        advice=""
        if cures
        else "hold the row in registers or shared memory: Inductor has no "
        f"option for rows of {units.count(reduced_elements(kernel))}, a hand-written kernel can",
        cures=cures,
        cost=cost,
        metric="bytes_swept",
        amount=extra * kernel.launches,
        origin=origin_of(kernel),
    )


def _cost(run: Run, number: int, again: Again, extra: int, is_online: bool) -> Cost | None:
    """Return what it saves to sweep once in all, or once less where a softmax's maximum and sum are
    taken online, which takes more instructions. What the cache lost of the rows comes from memory
    again, which the kernel's estimate leaves out: it has every byte come from there once."""
    kernel = run.kernels[number]
    held = in_flight(run, kernel, sum(buffer.bytes for buffer, _ in again)) or 0
    lost = share_cold(held, run.target.l2_bytes) if run.target else 0.0
    spares = sum(buffer.bytes * (1 if is_online else sweeps - 1) for buffer, sweeps in again)
    loads = sum(buffer.bytes * (sweeps - 1) for buffer, sweeps in again) + (kernel.bytes_read or 0)
    kept = [fewer_loads(1 - spares / loads), more_read(lost * max(extra - spares, 0))]
    if is_online:
        kept.append(taken_online(rows_of(kernel) * reduced_elements(kernel)))
    return estimate_saving(run, {number: kept}, unseen=(more_read(lost * extra),))


def _severity(held: int | None, l2: int, cause: str) -> Severity | None:
    if held is None or not l2:
        return None
    if held > l2:
        return "error" if cause else "warning"
    return "info" if held > l2 / 2 else None


def _cause(run: Run, kernel: KernelFacts) -> tuple[str, tuple[Cure, ...]]:
    """Return an option that is off and would save a sweep."""
    # A softmax's backward has no maximum: its two sweeps are a sum and the result.
    ops = [origin.op for origin in kernel.origins]
    softmax = any("softmax" in op and "backward" not in op for op in ops)
    if softmax and run.settings.get("online_softmax") is False:
        why = "takes a softmax's maximum and sum in one sweep"
        return "online_softmax is off", (Cure({"online_softmax": True}, why),)
    persistent = run.settings.get("triton.persistent_reductions")
    if persistent is False and reduced_elements(kernel) <= LONGEST_PERSISTENT:
        why = "holds the row in registers"
        return "persistent reductions are off", (Cure({"triton.persistent_reductions": True}, why),)
    return "", ()


def _in_time(run: Run, extra: int) -> str:
    if run.target is None:
        return ""
    return f", {units.seconds(extra / run.target.bandwidth)} of memory traffic"


def _cached(held: int | None, l2: int) -> Iterator[str]:
    if held is not None:
        fits = "more than" if held > l2 else "much of"
        yield f"{units.size(held)} of it are in use at once, {fits} the L2 cache's {units.size(l2)}"


RULE = Rule("PC203", "input read again", __doc__, of_run=_check)
