"""A large contiguous input is loaded a few bytes at a time, because of the length of its rows.

What it sees: a reduction along contiguous rows whose length or stride is no multiple of 16 bytes,
and in its machine code, in every launch configuration, at least as many narrow loads (LDG) as the
rows' elements need when no more can be loaded at once than rows and masks are aligned to. Where a
row is reduced in chunks (a split reduction), the chunks count: the row's length divided by their
number, rounded up. Only where the input takes 5 µs or more of memory bandwidth, twice what it takes
to launch a kernel.

Why it costs: a thread that loads 16 bytes at once needs an eighth of the instructions of one that
loads 2, and has more bytes under way. Rows that start at odd addresses, or a mask that ends
anywhere, leave one element at a time (pytorch #148402, #122840). bfloat16 on an H100, torch 2.11:
a softmax of 32,768 x 50,257 takes 4.65 ms, of 50,264 14 % less, of 50,304 22 % less; cross-entropy
9 % less with both (docs/cures.md). RMSNorm of 8,192 x 50,257 takes 1.07 ms, of 50,264 0.71 ms, of
50,304 0.60 ms; of 32,768 x 4,097 249 µs, of 4,096 181 µs. Split, softmax of 256 rows: 250,003
columns take 271 µs, 250,008 222, 250,176 221; 1,000,003 take 1,075 µs, 1,000,064 755, 1,000,448 731
(2026-11-21). Short rows, held in registers, lose less and are only worth knowing: softmax of 1,023
instead of 1,024 columns loses 4 %.

It also sees pointwise kernels in which a thread loads or stores its neighbouring elements one by
one, by the addresses that its index arithmetic gives, where moving up to 16 bytes at a time would
save a microsecond of the step, 1 % of it and 10 % of the kernel's time by the estimate.
Sizes that only a run knows, odd ones, and cats at odd places keep them narrow (pytorch #189940).

What to try: pad the rows' length, in the model, to a multiple of 64 elements, the fastest of those
that were timed: a vocabulary of 50,257 becomes 50,304. The smallest that makes loads wide is a
multiple of 16 bytes (8 elements of half precision, 4 of float32), 50,264. Of split rows each chunk
has to be such a multiple: in 3 chunks 250,016 columns are loaded 16 bits at a time and take 264 µs,
although 250,016 is a multiple of 32; 250,008 and 250,176 are multiples of 3 x 8 and 3 x 64. Padding
the stride alone is not enough, because the mask still ends within 16 bytes. Where the model can't
change, perfcli's `patch.loop_peeling` (torch 2.11 to 2.13) makes Inductor read whole tiles without
a mask and from 16-byte boundaries on, as PR #179941 proposed, which was never merged: RMSNorm of
32,768 x 50,257 took 2.43 ms instead of 4.32 on an H200 (docs/patches.md).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from perfcli import units
from perfcli.model import (
    Buffer,
    Candidate,
    Cost,
    Cure,
    Finding,
    KernelFacts,
    MemoryAccess,
    Rule,
    Run,
)
from perfcli.predict.coalescing import is_narrow, widen
from perfcli.predict.savings import estimate_saving
from perfcli.rules._evidence.demands import wider_accesses
from perfcli.rules._evidence.patch_cures import propose_patch
from perfcli.rules._evidence.splits import find_splits
from perfcli.rules._evidence.whole_reads import (
    ANY_REDUCTION,
    chunk_shape,
    reduced_elements,
    row_stride,
    whole_reads,
)
from perfcli.rules._evidence.words import origin_of
from perfcli.rules._evidence.worth import is_worth

WIDEST = 16
GOOD = 64
"""Elements: the multiple that was fastest of those that were timed (docs/cures.md)."""
SMALL_SECONDS = 5e-6
ITEMSIZE = {"bfloat16": 2, "float16": 2, "float32": 4}


@dataclass(frozen=True, slots=True)
class _Rows:
    """Describes how a kernel walks over the rows of a buffer, in elements."""

    length: int
    stride: int
    chunks: int
    """Parts that a row is reduced in, each by another program."""
    itemsize: int

    @property
    def chunk(self) -> int:
        return -(-self.length // self.chunks)

    @property
    def unit(self) -> int:
        """Return bytes that the start and end of every chunk are aligned to, at most 16."""
        elements = math.gcd(self.length, self.stride, self.chunk)
        return math.gcd(WIDEST, elements * self.itemsize)


def _check(run: Run) -> Iterator[Finding]:
    yield from _check_reductions(run)
    yield from _check_pointwise(run)


def _check_reductions(run: Run) -> Iterator[Finding]:
    split_rows = {split.first: split.rows for split in find_splits(run)}
    for number, kernel in enumerate(run.kernels):
        if run.target is None or any(size.startswith("r") for size in kernel.dynamic_sizes):
            continue
        for buffer in whole_reads(kernel, ANY_REDUCTION):
            rows = _rows(kernel, buffer, split_rows.get(number, 0))
            seconds = buffer.bytes / run.target.bandwidth
            if rows and seconds >= SMALL_SECONDS and _is_narrow(kernel, buffer, rows):
                yield _finding(run, number, buffer, rows)
                break


def _rows(kernel: KernelFacts, buffer: Buffer, split_rows: int) -> _Rows | None:
    itemsize = ITEMSIZE.get(buffer.dtype)
    if itemsize is None:
        return None
    stride = row_stride(kernel, buffer)
    if stride is not None:
        return _Rows(reduced_elements(kernel), stride, 1, itemsize)
    cut = chunk_shape(kernel, buffer, split_rows)
    if cut is None:
        return None
    outer = [n for size, n in zip(buffer.shape[:-1], buffer.stride[:-1], strict=True) if size > 1]
    return _Rows(cut[0], outer[-1] if outer else cut[0], cut[1], itemsize)


def _is_narrow(kernel: KernelFacts, buffer: Buffer, rows: _Rows) -> bool:
    accesses = kernel.source_facts.accesses if kernel.source_facts else ()
    loads = sum(a.pointer == buffer.argument and a.kind == "load" for a in accesses)
    return (
        rows.unit < WIDEST
        and bool(kernel.candidates)
        and all(
            0 < loads * _narrow_each(kernel, c, rows) <= _narrow(c, rows.unit)
            for c in kernel.candidates
        )
    )


def _narrow_each(kernel: KernelFacts, candidate: Candidate, rows: _Rows) -> int:
    """Load instructions for one load of the source, one for each ``unit`` bytes of a thread's
    elements; 0 where a thread has not even one such unit too many."""
    held = 1 << (reduced_elements(kernel) - 1).bit_length()
    block = candidate.config.get("XBLOCK", 1) * candidate.config.get("R0_BLOCK", held)
    each = block * rows.itemsize // (32 * candidate.num_warps)
    return each // rows.unit if each > rows.unit else 0


def _narrow(candidate: Candidate, unit: int) -> int:
    return sum(n for bits, n in candidate.global_loads.items() if int(bits) <= 8 * unit)


def _finding(run: Run, number: int, buffer: Buffer, rows: _Rows) -> Finding:
    kernel = run.kernels[number]
    best = kernel.best or kernel.candidates[0]
    widths = sorted(best.global_loads.items(), key=lambda item: -int(item[0]))
    return Finding(
        code=RULE.code,
        severity="warning" if kernel.kind == "reduction" else "info",
        headline=f"{kernel.name} loads {units.size(buffer.bytes)} {8 * rows.unit} bits at a time: "
        f"{_wrong(rows)} no multiple of 16 bytes",
        kernels=(number,),
        evidence=(
            "LDG instructions: " + ", ".join(f"{n} of {bits} bits" for bits, n in widths),
            f"{buffer.argument}: {_layout(rows)}",
            _cause(rows),
        ),
        advice=_advice(rows),
        cures=_cures(run, kernel),
        cost=estimate_saving(run, {number: (wider_accesses(WIDEST / rows.unit),)}),
        metric="narrow_loads",
        amount=_narrow(best, rows.unit),
        origin=origin_of(kernel),
    )


def _cures(run: Run, kernel: KernelFacts) -> tuple[Cure, ...]:
    if kernel.kind != "reduction":
        return ()
    why = "reads whole tiles without a mask, from 16-byte boundaries on"
    return propose_patch(run, "patch.loop_peeling", True, why)


def _wrong(rows: _Rows) -> str:
    if rows.chunks > 1:
        return f"chunks of {units.count(rows.chunk)}, {rows.chunks} to a row, are"
    if _over(rows.length, rows):
        return f"rows of {units.count(rows.length)} are"
    return f"rows {units.count(rows.stride)} elements apart start at"


def _layout(rows: _Rows) -> str:
    length, stride = rows.length * rows.itemsize, rows.stride * rows.itemsize
    chunks = f" in {rows.chunks} chunks of {units.exact_bytes(rows.chunk * rows.itemsize)}"
    return (
        f"rows of {units.exact_bytes(length)}{chunks if rows.chunks > 1 else ''}, "
        f"{units.exact_bytes(stride)} apart"
    )


def _cause(rows: _Rows) -> str:
    """Return where the loads start, and where their mask ends: each alone keeps them narrow."""
    part, starts = "rows", rows.stride
    if rows.chunks > 1:
        part, starts = "chunks", math.gcd(rows.stride, rows.chunk)
    if _over(starts, rows):
        return f"{part} start at no multiple of 16 bytes"
    return (
        f"{part} start at multiples of 16 bytes; the mask, which ends "
        f"{_over(rows.length, rows)} B behind one, keeps loads narrow"
    )


def _over(elements: int, rows: _Rows) -> int:
    """Return bytes more than a multiple of 16."""
    return elements * rows.itemsize % WIDEST


def _advice(rows: _Rows) -> str:
    """Return one size: the multiple of ``GOOD`` elements, and the smallest whose loads are wide."""
    what = "the stride" if rows.chunks == 1 and not _over(rows.length, rows) else "rows"
    wrong = rows.stride if what == "the stride" else rows.length
    steps = (WIDEST // rows.itemsize * rows.chunks, GOOD * rows.chunks)
    least, good = (-(-wrong // step) * step for step in steps)
    text = f"pad {what} from {units.count(wrong)} to {units.count(good)} elements"
    text += f", a multiple of {_times(GOOD, rows)}"
    if least != good:
        text += f" ({units.count(least)}, of {_times(WIDEST // rows.itemsize, rows)}, is the least)"
    return text


def _times(elements: int, rows: _Rows) -> str:
    return f"{rows.chunks} × {elements}" if rows.chunks > 1 else str(elements)


# --- pointwise kernels -----------------------------------------------------------------------

_LEAST_OF_STEP, _LEAST_OF_KERNEL = 0.01, 0.1


def _check_pointwise(run: Run) -> Iterator[Finding]:
    for number, kernel in enumerate(run.kernels):
        candidate = kernel.expected if kernel.kind == "pointwise" else None
        accesses = candidate.work.accesses if candidate and candidate.work else None
        narrow = [access for access in accesses or () if is_narrow(access)]
        if candidate is None or not narrow:
            continue
        cost = estimate_saving(run, {number: ()}, rework=widen)
        if is_worth(cost, _LEAST_OF_STEP, _LEAST_OF_KERNEL * (kernel.step_seconds or 0.0)):
            yield _pointwise_finding(run, number, candidate, narrow, cost)


def _pointwise_finding(
    run: Run, number: int, candidate: Candidate, narrow: Sequence[MemoryAccess], cost: Cost
) -> Finding:
    kernel = run.kernels[number]
    widths = [("LDG", candidate.global_loads), ("STG", candidate.global_stores)]
    counted = [
        f"{name} instructions: " + ", ".join(f"{n} of {bits} bits" for bits, n in found.items())
        for name, found in widths
        if found
    ]
    which = ", ".join(dict.fromkeys(access.argument for access in narrow))
    bits = 8 * max(access.element_bytes for access in narrow)
    return Finding(
        code=RULE.code,
        severity="warning",
        headline=f"{kernel.name} moves neighbouring elements {bits} bits at a time: {which}",
        kernels=(number,),
        evidence=(*counted, _why_narrow(run, kernel)),
        advice="make sizes and offsets multiples of 16 bytes, and static where they do not change",
        cost=cost,
        metric="narrow_loads",
        amount=sum(int(n) for b, n in candidate.global_loads.items() if int(b) <= 8 * 2),
        origin=origin_of(kernel),
    )


def _why_narrow(run: Run, kernel: KernelFacts) -> str:
    if kernel.dynamic_sizes or kernel.scalars:
        return "sizes that only a run knows: nothing says that rows start at multiples of 16 bytes"
    odd = [
        f"{b.argument} is {' × '.join(map(str, b.shape))}"
        for b in kernel.buffers
        if b.shape and b.shape[-1] * ITEMSIZE.get(b.dtype, 1) % WIDEST
    ]
    return odd[0] if odd else "their masks or offsets end within 16 bytes"


RULE = Rule("PC204", "narrow loads", __doc__, of_run=_check)
