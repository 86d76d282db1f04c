# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
# ruff: noqa: ANN001, ANN202 (arguments of kernels have no Python types)
"""Few and long rows: every row is read by many blocks, and the pieces are combined; forward.

Kernel 1 writes (maximum, sum of exponentials) of every chunk, kernel 2 combines those of its row
and writes its chunk, which the L2 cache still holds where the whole input fits. Where a row has
more chunks than one block should read again and again, a kernel between them combines them once
per row. Always in the same order: no atomics, the same result on every run.
"""

from __future__ import annotations

import triton
import triton.language as tl

from ._softmax_looped import row_at, write_loss
from ._softmax_statistics import join, row_statistics
from ._softmax_write import write_row


@triton.jit
def chunk_length(first, columns, CHUNK: tl.constexpr):
    return tl.minimum(columns - first, CHUNK)


@triton.jit
def combined(peaks_ptr, totals_ptr, chunks, PARTS: tl.constexpr):
    """This row's statistics from those of its chunks; PARTS: the next power of two."""
    part = tl.arange(0, PARTS)
    at = tl.program_id(0) * chunks + part
    peak = tl.load(peaks_ptr + at, mask=part < chunks, other=float("-inf"))
    total = tl.load(totals_ptr + at, mask=part < chunks, other=0.0)
    return join(peak, total)


@triton.jit
def split_statistics(
    x_ptr,
    peaks_ptr,
    totals_ptr,
    columns,
    x_stride,
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
):
    chunk = tl.program_id(1)
    first = chunk * CHUNK
    x = row_at(x_ptr, x_stride, VECTOR, ALIGNED) + first
    length = chunk_length(first, columns, CHUNK)
    peak, total = row_statistics(
        x, length, LANES, VECTOR, ITEM, PEEL, TAIL, STRIPE, EDGE, STAGES, KEEP
    )
    at = tl.program_id(0) * tl.num_programs(1) + chunk
    tl.store(peaks_ptr + at, peak)
    tl.store(totals_ptr + at, total)


@triton.jit(do_not_specialize=["chunks"])
def split_combine(peaks_ptr, totals_ptr, chunks, PARTS: tl.constexpr):
    """The statistics of whole rows, after those of all chunks."""
    peak, total = combined(peaks_ptr, totals_ptr, chunks, PARTS)
    at = tl.num_programs(0) * chunks + tl.program_id(0)
    tl.store(peaks_ptr + at, peak)
    tl.store(totals_ptr + at, total)


@triton.jit(do_not_specialize=["chunks"])
def split_write(
    x_ptr,
    y_ptr,
    peaks_ptr,
    totals_ptr,
    columns,
    chunks,
    x_stride,
    y_stride,
    PARTS: tl.constexpr,
    COMBINED: tl.constexpr,
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
    DROP: tl.constexpr,
):
    """COMBINED: split_combine came before. Chunks are taken from the last on, which the L2 cache
    got last."""
    chunk = tl.num_programs(1) - 1 - tl.program_id(1)
    first = chunk * CHUNK
    if COMBINED:
        whole = tl.num_programs(0) * chunks + tl.program_id(0)
        peak = tl.load(peaks_ptr + whole)
        total = tl.load(totals_ptr + whole)
    else:
        peak, total = combined(peaks_ptr, totals_ptr, chunks, PARTS)
    x = row_at(x_ptr, x_stride, VECTOR, ALIGNED) + first
    y = row_at(y_ptr, y_stride, VECTOR, ALIGNED) + first
    length = chunk_length(first, columns, CHUNK)
    write_row(
        x, y, length, peak, total,
        LOG, LANES, VECTOR, ITEM, PEEL, TAIL, STRIPE, EDGE, STAGES, False, DROP,
    )  # fmt: skip


@triton.jit(do_not_specialize=["chunks"])
def split_loss(
    x_ptr,
    target_ptr,
    peaks_ptr,
    totals_ptr,
    loss_ptr,
    lse_ptr,
    columns,
    chunks,
    x_stride,
    ignored,
    PARTS: tl.constexpr,
):
    row = row_at(x_ptr, x_stride, 1, False)
    target = tl.load(target_ptr + tl.program_id(0))
    peak, total = combined(peaks_ptr, totals_ptr, chunks, PARTS)
    write_loss(row, target, loss_ptr, lse_ptr, peak, total, columns, ignored)
