# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
# ruff: noqa: ANN001, ANN202 (arguments of kernels have no Python types)
"""Online softmax in one launch whose blocks share rows; forward.

Rows are cut into chunks, counted through all rows. Block *b* takes the statistics of chunk *b*,
then writes chunk *b − lag*. What is read again is so always what was read about *lag* chunks ago,
whatever the length of the rows, and a lag of a few hundred chunks is little enough for the L2
cache. (A block that goes through a row of 256 KiB alone has 132 of them, or more, under way at a
time on as many SMs: more than an L2 of 50 MB keeps beside what is written.)

A block waits for blocks with lower numbers only, of which none waits before it has published its
statistics. GPUs start blocks in the order of their numbers, so that all of them are running or
done: no number of resident blocks is assumed. The counter of a row, zeroed before the launch, says
how many of its chunks are published; it is the only thing that is changed atomically.
"""

from __future__ import annotations

import triton
import triton.language as tl

from ._softmax_statistics import join, row_statistics
from ._softmax_write import write_row


@triton.jit
def chunk_at(pointer, row, first, stride, VECTOR: tl.constexpr, ALIGNED: tl.constexpr):
    offset = row.to(tl.int64) * stride
    if ALIGNED:
        offset = tl.multiple_of(offset, VECTOR)
    return pointer + offset + first


@triton.jit
def wait_for(counter, count):
    """Until the counter has reached ``count``; what was published before is visible then."""
    reached = tl.atomic_add(counter, 0, sem="acquire")
    while reached < count:
        reached = tl.atomic_add(counter, 0, sem="acquire")
    tl.debug_barrier()


@triton.jit(do_not_specialize=["items", "chunks", "lag"])
def lagged_forward(
    x_ptr,
    y_ptr,
    peaks_ptr,
    totals_ptr,
    counters_ptr,
    items,
    chunks,
    lag,
    columns,
    x_stride,
    y_stride,
    PARTS: tl.constexpr,
    LOG: tl.constexpr,
    CHUNK: tl.constexpr,
    LANES: tl.constexpr,
    VECTOR: tl.constexpr,
    ITEM: tl.constexpr,
    ALIGNED: tl.constexpr,
    PEEL: tl.constexpr,
    TAIL: tl.constexpr,
    STRIPE: tl.constexpr,
    EDGE: tl.constexpr,
    STAGES: tl.constexpr,
    KEEP: tl.constexpr,
    DROP: tl.constexpr,
):
    """``items`` chunks in all, ``chunks`` of them per row; PARTS is the next power of two."""
    item = tl.program_id(0)
    if item < items:
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
    earlier = item - lag
    if earlier >= 0:
        row = earlier // chunks
        first = (earlier - row * chunks) * CHUNK
        wait_for(counters_ptr + row, chunks)
        part = tl.arange(0, PARTS)
        at = row * chunks + part
        # Past the L1, which may hold an older state of these lines.
        peaks = tl.load(
            peaks_ptr + at, mask=part < chunks, other=float("-inf"), cache_modifier=".cg"
        )
        totals = tl.load(totals_ptr + at, mask=part < chunks, other=0.0, cache_modifier=".cg")
        top, weight = join(peaks, totals)
        x = chunk_at(x_ptr, row, first, x_stride, VECTOR, ALIGNED)
        y = chunk_at(y_ptr, row, first, y_stride, VECTOR, ALIGNED)
        length = tl.minimum(columns - first, CHUNK)
        write_row(
            x, y, length, top, weight,
            LOG, LANES, VECTOR, ITEM, PEEL, TAIL, STRIPE, EDGE, STAGES, False, DROP,
        )  # fmt: skip
