"""A large contiguous input is loaded a few bytes at a time, because of the length of its rows.

What it sees: a reduction along contiguous rows whose length or stride is no multiple of 16 bytes,
and in its machine code, in every launch configuration, at least as many narrow loads (LDG) as the
rows' elements need when no more can be loaded at once than rows and masks are aligned to. Only
where the input takes 5 µs or more of memory bandwidth, twice what it takes to launch a kernel.

Why it costs: a thread that loads 16 bytes at once needs an eighth of the instructions of one that
loads 2, and has more bytes under way. Rows that start at odd addresses, or a mask that ends
anywhere, leave one element at a time (pytorch #148402, #122840). bfloat16 on an H100, torch 2.11,
compared with the next aligned size: RMSNorm of 8,192 x 50,257 takes 1.07 ms, of 50,264 0.71 ms, of
50,304 0.60 ms; softmax 1.16, 0.98 and 0.90 ms; of 32,768 x 4,097 RMSNorm takes 249 µs, of 4,096
181 µs. Short rows, held in registers, lose less and are only worth knowing:
softmax of 1,023 instead of 1,024 columns loses 4 %.

What to try: pad the rows' length to a multiple of 16 bytes (8 elements of half precision, 4 of
float32), better of 128 bytes, in the model: a vocabulary of 50,257 becomes 50,264 or 50,304.
Padding the stride alone is not enough, because the mask still ends within 16 bytes. A hand-written
kernel can peel the last, masked block off the loop (PR #179941 for Inductor was never merged: no
option in torch 2.8 to 2.15).
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from perfcli import units
from perfcli.model import Access, Buffer, Candidate, Finding, KernelFacts, Rule, Run
from perfcli.rules._evidence import origin_of
from perfcli.rules._whole_reads import ANY_REDUCTION, reduced, row_stride, whole_reads

WIDEST = 16
GOOD_ROW = 128
SMALL_SECONDS = 5e-6
ITEMSIZE = {"bfloat16": 2, "float16": 2, "float32": 4}


def check(run: Run) -> Iterator[Finding]:
    for number, kernel in enumerate(run.kernels):
        if run.target is None or any(size.startswith("r") for size in kernel.dynamic_sizes):
            continue
        for buffer in whole_reads(kernel, ANY_REDUCTION):
            seconds = buffer.bytes / run.target.bandwidth
            if seconds >= SMALL_SECONDS and _is_narrow(kernel, buffer):
                yield _finding(number, kernel, buffer)
                break


def _is_narrow(kernel: KernelFacts, buffer: Buffer) -> bool:
    stride = row_stride(kernel, buffer)
    itemsize = ITEMSIZE.get(buffer.dtype)
    if stride is None or itemsize is None or not kernel.candidates:
        return False
    unit = _unit(kernel, stride, itemsize)
    loads = sum(a.pointer == buffer.argument and a.kind == "load" for a in _accesses(kernel))
    return unit < WIDEST and all(
        0 < loads * _narrow_each(kernel, c, unit, itemsize) <= _narrow(c, unit)
        for c in kernel.candidates
    )


def _accesses(kernel: KernelFacts) -> tuple[Access, ...]:
    return kernel.source_facts.accesses if kernel.source_facts else ()


def _unit(kernel: KernelFacts, stride: int, itemsize: int) -> int:
    """Bytes that every row's start and end are aligned to, at most 16."""
    return math.gcd(WIDEST, reduced(kernel) * itemsize, stride * itemsize)


def _narrow_each(kernel: KernelFacts, candidate: Candidate, unit: int, itemsize: int) -> int:
    """Load instructions for one load of the source, one for each ``unit`` bytes of a thread's
    elements; 0 where a thread has not even one such unit too many."""
    held = 1 << (reduced(kernel) - 1).bit_length()
    block = candidate.config.get("XBLOCK", 1) * candidate.config.get("R0_BLOCK", held)
    each = block * itemsize // (32 * candidate.num_warps)
    return each // unit if each > unit else 0


def _narrow(candidate: Candidate, unit: int) -> int:
    return sum(n for bits, n in candidate.global_loads.items() if int(bits) <= 8 * unit)


def _finding(number: int, kernel: KernelFacts, buffer: Buffer) -> Finding:
    itemsize = ITEMSIZE[buffer.dtype]
    length, stride = reduced(kernel), row_stride(kernel, buffer) or 0
    unit = _unit(kernel, stride, itemsize)
    if length * itemsize % WIDEST:
        what, part, wrong = f"of {units.count(length)} are", "rows", length
    else:
        what, part, wrong = f"{units.count(stride)} elements apart start at", "the stride", stride
    best = kernel.best or kernel.candidates[0]
    widths = sorted(best.global_loads.items(), key=lambda item: -int(item[0]))
    return Finding(
        code=RULE.code,
        severity="warning" if kernel.kind == "reduction" else "info",
        headline=f"{kernel.name} loads {units.size(buffer.bytes)} {8 * unit} bits at a time: rows "
        f"{what} no multiple of 16 bytes",
        kernels=(number,),
        evidence=(
            "LDG instructions: " + ", ".join(f"{n} of {bits} bits" for bits, n in widths),
            f"{buffer.argument}: rows of {units.exact_bytes(length * itemsize)}, "
            f"{units.exact_bytes(stride * itemsize)} apart: "
            f"{wrong * itemsize % WIDEST} more than a multiple of 16",
        ),
        advice=f"pad {part} from {units.count(wrong)} to {_padded(wrong, itemsize)} elements",
        metric="narrow_loads",
        amount=_narrow(best, unit),
        origin=origin_of(kernel),
    )


def _padded(length: int, itemsize: int) -> str:
    """The next multiples of 16 bytes and of 128, where they differ."""
    aligned = [-(-length * itemsize // unit) * unit // itemsize for unit in (WIDEST, GOOD_ROW)]
    return " or ".join(units.count(n) for n in dict.fromkeys(aligned))


RULE = Rule("PC204", "narrow loads", __doc__, of_run=check)
