# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
# ruff: noqa: ANN001, ANN202 (arguments of kernels have no Python types)
"""Online softmax in one launch, each long row by two or more blocks at the same time; forward.

A block takes the statistics of its chunk, waits for those of the row's other chunks, and writes its
chunk, which it finds in the L1 cache: 128 KiB and more of a row stay there, and re-reading from the
L2 is what the lagged and online variants are bound by where rows are longer.

GPUs start blocks in the order of their numbers, so that the blocks of a row run at the same time
where there is room for all of them. Where there is none, or in Triton's interpreter, which runs one
after the other, a block has patience for so many looks at the counter and then takes the missing
statistics itself: the same numbers by the same function, so that the result has the same bits.

Constants as in _softmax_statistics; PATIENCE is a number of looks, each of which takes about 1 µs.
"""

from __future__ import annotations

import triton
import triton.language as tl

from ._softmax_lagged import chunk_at
from ._softmax_opaque import INTERPRETED
from ._softmax_statistics import join, row_statistics
from ._softmax_write import write_row


@triton.jit
def are_published(counter, count, PATIENCE: tl.constexpr):
    """Whether the counter has reached ``count``; if so, what was published before is visible."""
    looks = 0
    reached = tl.atomic_add(counter, 0, sem="acquire")
    while (reached < count) & (looks < PATIENCE):
        reached = tl.atomic_add(counter, 0, sem="acquire")
        looks += 1
    tl.debug_barrier()
    return reached >= count


@triton.jit(do_not_specialize=["chunks"])
def shared_forward(
    x_ptr,
    y_ptr,
    peaks_ptr,
    totals_ptr,
    counters_ptr,
    chunks,
    columns,
    x_stride,
    y_stride,
    PARTS: tl.constexpr,
    LOG: tl.constexpr,
    CHUNK: tl.constexpr,
    PATIENCE: tl.constexpr,
    LANES: tl.constexpr,
    VECTOR: tl.constexpr,
    ITEM: tl.constexpr,
    ALIGNED: tl.constexpr,
    PEEL: tl.constexpr,
    TAIL: tl.constexpr,
    STRIPE: tl.constexpr,
    EDGE: tl.constexpr,
    STAGES: tl.constexpr,
    BACKWARDS: tl.constexpr,
    KEEP: tl.constexpr,
    DROP: tl.constexpr,
):
    """``chunks`` blocks per row; PARTS is the next power of two."""
    item = tl.program_id(0)
    row = item // chunks
    first = (item - row * chunks) * CHUNK
    x = chunk_at(x_ptr, row, first, x_stride, VECTOR, ALIGNED)
    length = tl.minimum(columns - first, CHUNK)
    peak, total = row_statistics(
        x, length, LANES, VECTOR, ITEM, PEEL, TAIL, STRIPE, EDGE, STAGES, KEEP
    )
    tl.store(peaks_ptr + item, peak)
    tl.store(totals_ptr + item, total)
    tl.debug_barrier()
    tl.atomic_add(counters_ptr + row, 1, sem="release")
    looks: tl.constexpr = 1 if INTERPRETED else PATIENCE
    if not are_published(counters_ptr + row, chunks, looks):
        for other in tl.range(0, chunks):
            at = other * CHUNK
            piece = chunk_at(x_ptr, row, at, x_stride, VECTOR, ALIGNED)
            size = tl.minimum(columns - at, CHUNK)
            peak, total = row_statistics(
                piece, size, LANES, VECTOR, ITEM, PEEL, TAIL, STRIPE, EDGE, STAGES, KEEP
            )
            tl.store(peaks_ptr + row * chunks + other, peak)
            tl.store(totals_ptr + row * chunks + other, total)
        tl.debug_barrier()
    part = tl.arange(0, PARTS)
    parts = row * chunks + part
    # Past the L1, which may hold an older state of these lines.
    peaks = tl.load(
        peaks_ptr + parts, mask=part < chunks, other=float("-inf"), cache_modifier=".cg"
    )
    totals = tl.load(totals_ptr + parts, mask=part < chunks, other=0.0, cache_modifier=".cg")
    top, weight = join(peaks, totals)
    y = chunk_at(y_ptr, row, first, y_stride, VECTOR, ALIGNED)
    write_row(
        x, y, length, top, weight,
        LOG, LANES, VECTOR, ITEM, PEEL, TAIL, STRIPE, EDGE, STAGES, BACKWARDS, DROP,
    )  # fmt: skip
