# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
# ruff: noqa: ANN001 (arguments of kernels have no Python types)
"""Computes few and long rows: every row is read by many blocks, and the pieces are combined;
forward.

Kernel 1 writes (maximum, sum of exponentials) of every chunk, kernel 2 combines those of its row
and writes its chunk, which the L2 cache still holds where the whole input fits. Where a row has
more chunks than one block should read again and again, a kernel between them combines them once
per row. Always in the same order: no atomics, the same result on every run.
"""

from __future__ import annotations

import triton
import triton.language as tl

from .._overlap import await_previous
from .backward import _row_sum, _write_gradient
from .looped import _row_at, load_logit, write_loss
from .rows import (
    LOG2_E,
    _first_vector,
    _head_elements,
    _row_statistics,
    _tile_offsets,
    _write_row,
    edge_columns,
    join,
    stripe,
)


@triton.jit
def _chunk_length(first, columns, CHUNK: tl.constexpr):
    return tl.minimum(columns - first, CHUNK)


@triton.jit
def combine(peaks_ptr, totals_ptr, chunks, PARTS: tl.constexpr):
    """Return this row's statistics from those of its chunks; PARTS: the next power of two."""
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
    x = _row_at(x_ptr, x_stride, VECTOR, ALIGNED) + first
    length = _chunk_length(first, columns, CHUNK)
    peak, total = _row_statistics(
        x, length, LANES, VECTOR, ITEM, PEEL, TAIL, STRIPE, EDGE, STAGES, KEEP
    )
    at = tl.program_id(0) * tl.num_programs(1) + chunk
    tl.store(peaks_ptr + at, peak)
    tl.store(totals_ptr + at, total)


@triton.jit(do_not_specialize=["chunks"])
def split_combine(peaks_ptr, totals_ptr, chunks, PARTS: tl.constexpr):
    """Combine the statistics of whole rows, and write them after those of all chunks."""
    peak, total = combine(peaks_ptr, totals_ptr, chunks, PARTS)
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
    """Write a chunk of a row. COMBINED: split_combine came before. Chunks are taken from the last
    on, which the L2 cache got last."""
    chunk = tl.num_programs(1) - 1 - tl.program_id(1)
    first = chunk * CHUNK
    if COMBINED:
        whole = tl.num_programs(0) * chunks + tl.program_id(0)
        peak = tl.load(peaks_ptr + whole)
        total = tl.load(totals_ptr + whole)
    else:
        peak, total = combine(peaks_ptr, totals_ptr, chunks, PARTS)
    x = _row_at(x_ptr, x_stride, VECTOR, ALIGNED) + first
    y = _row_at(y_ptr, y_stride, VECTOR, ALIGNED) + first
    length = _chunk_length(first, columns, CHUNK)
    _write_row(
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
    OVERLAP: tl.constexpr,
):
    row = _row_at(x_ptr, x_stride, 1, False)
    target = tl.load(target_ptr + tl.program_id(0))
    logit = load_logit(row, target, columns)
    await_previous(OVERLAP)
    peak, total = combine(peaks_ptr, totals_ptr, chunks, PARTS)
    write_loss(tl.program_id(0), True, logit, target, loss_ptr, lse_ptr, peak, total, ignored)


@triton.jit
def split_sums(
    y_ptr,
    dy_ptr,
    sums_ptr,
    columns,
    saved_stride,
    dy_stride,
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
):
    chunk = tl.program_id(1)
    first = chunk * CHUNK
    y = _row_at(y_ptr, saved_stride, VECTOR, ALIGNED) + first
    dy = _row_at(dy_ptr, dy_stride, VECTOR, ALIGNED) + first
    length = _chunk_length(first, columns, CHUNK)
    total = _row_sum(
        y, dy, length, LOG, LANES, VECTOR, ITEM, PEEL, TAIL, STRIPE, EDGE, STAGES, KEEP
    )
    tl.store(sums_ptr + tl.program_id(0) * tl.num_programs(1) + chunk, total)


@triton.jit
def _sum_of_chunks(sums_ptr, chunks, PARTS: tl.constexpr):
    part = tl.arange(0, PARTS)
    at = sums_ptr + tl.program_id(0) * chunks + part
    return tl.sum(tl.load(at, mask=part < chunks, other=0.0), axis=0)


@triton.jit(do_not_specialize=["chunks"])
def split_total(sums_ptr, chunks, PARTS: tl.constexpr):
    """Add the sums of whole rows, and write them after those of all chunks."""
    total = _sum_of_chunks(sums_ptr, chunks, PARTS)
    tl.store(sums_ptr + tl.num_programs(0) * chunks + tl.program_id(0), total)


@triton.jit(do_not_specialize=["chunks"])
def split_gradient(
    y_ptr,
    dy_ptr,
    dx_ptr,
    sums_ptr,
    columns,
    chunks,
    saved_stride,
    dy_stride,
    dx_stride,
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
    """Write the gradient of a chunk of a row. COMBINED: split_total came before."""
    chunk = tl.num_programs(1) - 1 - tl.program_id(1)
    first = chunk * CHUNK
    if COMBINED:
        total = tl.load(sums_ptr + tl.num_programs(0) * chunks + tl.program_id(0))
    else:
        total = _sum_of_chunks(sums_ptr, chunks, PARTS)
    y = _row_at(y_ptr, saved_stride, VECTOR, ALIGNED) + first
    dy = _row_at(dy_ptr, dy_stride, VECTOR, ALIGNED) + first
    dx = _row_at(dx_ptr, dx_stride, VECTOR, ALIGNED) + first
    length = _chunk_length(first, columns, CHUNK)
    _write_gradient(
        y, dy, dx, length, total,
        LOG, LANES, VECTOR, ITEM, PEEL, TAIL, STRIPE, EDGE, STAGES, False, DROP,
    )  # fmt: skip


@triton.jit
def _loss_gradient(x, column, target, lse, dloss):
    """Return the gradient of cross-entropy: ``(softmax − 1 at the target) × dloss``."""
    chance = tl.exp2((x.to(tl.float32) - lse) * LOG2_E)
    return tl.where(column == target, chance - 1.0, chance) * dloss


@triton.jit
def cross_entropy_gradient(
    x_ptr,
    target_ptr,
    lse_ptr,
    dloss_ptr,
    dx_ptr,
    columns,
    saved_stride,
    dx_stride,
    ignored,
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
    """Write the gradient of one chunk of a row. A row whose target is ``ignored`` gets zeros,
    whatever it holds."""
    row = tl.program_id(0)
    first = tl.program_id(1) * CHUNK
    x = _row_at(x_ptr, saved_stride, VECTOR, ALIGNED) + first
    dx = _row_at(dx_ptr, dx_stride, VECTOR, ALIGNED) + first
    length = _chunk_length(first, columns, CHUNK)
    target = tl.load(target_ptr + row)
    lse = tl.load(lse_ptr + row)
    dloss = tl.load(dloss_ptr + row)
    counts = target != ignored
    target = tl.where((target >= first) & (target < first + length), target - first, -1)
    target = target.to(tl.int32)
    head = _head_elements(x, length, ITEM, PEEL)
    x_start = _first_vector(x, head, PEEL)
    dx_start = _first_vector(dx, head, PEEL)
    vectors = (length - head) // VECTOR
    full = vectors // LANES
    offsets = _tile_offsets(LANES, VECTOR)
    for tile in tl.range(0, full, num_stages=STAGES):
        at = tile * (LANES * VECTOR) + offsets
        x_tile = tl.load(x_start + at, eviction_policy=DROP)
        dx_tile = _loss_gradient(x_tile, head + at, target, lse, dloss)
        tl.store(dx_start + at, tl.where(counts, dx_tile, 0.0), eviction_policy=DROP)
    if TAIL:
        for lane in tl.range(full * LANES, vectors, STRIPE):
            at, inside = stripe(lane, vectors, STRIPE, VECTOR)
            x_tile = tl.load(x_start + at, mask=inside, other=0.0, eviction_policy=DROP)
            dx_tile = _loss_gradient(x_tile, head + at, target, lse, dloss)
            dx_tile = tl.where(counts, dx_tile, 0.0)
            tl.store(dx_start + at, dx_tile, mask=inside, eviction_policy=DROP)
    if EDGE:
        column, there = edge_columns(head, length, VECTOR, tl.arange(0, 2 * VECTOR))
        x_edge = tl.load(x + column, mask=there, other=0.0)
        dx_edge = _loss_gradient(x_edge, column, target, lse, dloss)
        tl.store(dx + column, tl.where(counts, dx_edge, 0.0), mask=there)
