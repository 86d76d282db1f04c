# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
# ruff: noqa: ANN001, SIM108 (arguments of kernels have no Python types)
"""Computes in one pass a whole row, or several short ones, held in registers; forward.

Constants
    ROWS, BLOCK             tile of a block: rows × columns, the latter a power of two
    ALIGNED, VECTORS_ONLY   strides, and columns, are multiples of VECTOR (16 bytes)
    FULL                    every row is as long as the tile, and every tile has all its rows
    RECOMPUTE               exponentials computed twice, so that only inputs are held: "no",
                            "yes", or "opaque": the compiler is kept from holding them in float32
    PERSISTENT, STAGES      blocks take tile after tile; software pipelining of that loop
    DROP                    eviction policy: everything is read or written once
"""

from __future__ import annotations

import triton
import triton.language as tl

from .._words import opaque
from .backward import _summand, gradient
from .rows import LOG2_E, _above_minus_infinity, normalise


@triton.jit
def _place_rows(
    pointer,
    first,
    stride,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    VECTOR: tl.constexpr,
    ALIGNED: tl.constexpr,
):
    """Return pointers to a tile whose first row is ``first``."""
    offset = tl.cast(first, tl.int64) * stride
    if ALIGNED:
        offset = tl.multiple_of(offset, VECTOR)
    at = pointer + offset + tl.arange(0, BLOCK)[None, :]
    if ROWS > 1:
        step = tl.arange(0, ROWS)[:, None] * stride
        if ALIGNED:
            step = tl.multiple_of(step, [VECTOR, VECTOR])
        at = at + step
    return at


@triton.jit
def _mask_existing(
    first,
    rows,
    columns,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    VECTOR: tl.constexpr,
    VECTORS_ONLY: tl.constexpr,
):
    """Return which elements of the tile exist."""
    limit = columns
    if VECTORS_ONLY:  # the product tells the compiler that whole vectors are masked
        limit = columns // VECTOR * VECTOR
    inside = tl.arange(0, BLOCK)[None, :] < limit
    if ROWS > 1:
        inside = inside & ((first + tl.arange(0, ROWS))[:, None] < rows)
    return inside


@triton.jit
def _load_rows(at, inside, other, FULL: tl.constexpr, DROP: tl.constexpr):
    if FULL:
        return tl.load(at, eviction_policy=DROP)
    return tl.load(at, mask=inside, other=other, eviction_policy=DROP)


@triton.jit
def _store_rows(at, y, inside, FULL: tl.constexpr, DROP: tl.constexpr):
    if FULL:
        tl.store(at, y, eviction_policy=DROP)
    else:
        tl.store(at, y, mask=inside, eviction_policy=DROP)


@triton.jit
def _softmax_tile(
    x_ptr,
    y_ptr,
    first,
    rows,
    columns,
    x_stride,
    y_stride,
    LOG: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    VECTOR: tl.constexpr,
    ALIGNED: tl.constexpr,
    VECTORS_ONLY: tl.constexpr,
    FULL: tl.constexpr,
    RECOMPUTE: tl.constexpr,
    DROP: tl.constexpr,
):
    """Compute softmax of one tile, from load to store."""
    inside = _mask_existing(first, rows, columns, ROWS, BLOCK, VECTOR, VECTORS_ONLY)
    at = _place_rows(x_ptr, first, x_stride, ROWS, BLOCK, VECTOR, ALIGNED)
    x = _load_rows(at, inside, float("-inf"), FULL, DROP)
    peak = tl.max(x.to(tl.float32), axis=1)[:, None]
    weights = tl.exp2((x.to(tl.float32) - peak) * LOG2_E)
    total = tl.sum(weights, axis=1)[:, None]
    if RECOMPUTE == "opaque":
        x = opaque(x)
    if LOG or RECOMPUTE != "no":
        y = normalise(x, peak, total, LOG)
    else:
        y = weights * (1.0 / total)
    to = _place_rows(y_ptr, first, y_stride, ROWS, BLOCK, VECTOR, ALIGNED)
    _store_rows(to, y, inside, FULL, DROP)


@triton.jit(do_not_specialize=["rows"])
def cached_forward(
    x_ptr,
    y_ptr,
    rows,
    columns,
    x_stride,
    y_stride,
    LOG: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    VECTOR: tl.constexpr,
    ALIGNED: tl.constexpr,
    VECTORS_ONLY: tl.constexpr,
    FULL: tl.constexpr,
    RECOMPUTE: tl.constexpr,
    PERSISTENT: tl.constexpr,
    STAGES: tl.constexpr,
    DROP: tl.constexpr,
):
    if PERSISTENT:
        start = tl.program_id(0) * ROWS
        for first in tl.range(start, rows, tl.num_programs(0) * ROWS, num_stages=STAGES):
            _softmax_tile(
                x_ptr, y_ptr, first, rows, columns, x_stride, y_stride, LOG, ROWS, BLOCK, VECTOR,
                ALIGNED, VECTORS_ONLY, FULL, RECOMPUTE, DROP,
            )  # fmt: skip
    else:
        _softmax_tile(
            x_ptr, y_ptr, tl.program_id(0) * ROWS, rows, columns, x_stride, y_stride, LOG, ROWS,
            BLOCK, VECTOR, ALIGNED, VECTORS_ONLY, FULL, RECOMPUTE, DROP,
        )  # fmt: skip


@triton.jit(do_not_specialize=["rows"])
def cached_loss(
    x_ptr,
    target_ptr,
    loss_ptr,
    lse_ptr,
    rows,
    columns,
    x_stride,
    ignored,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    VECTOR: tl.constexpr,
    ALIGNED: tl.constexpr,
    VECTORS_ONLY: tl.constexpr,
    FULL: tl.constexpr,
    DROP: tl.constexpr,
):
    """Compute cross-entropy: the logit of the target comes from the cache line that is read
    anyway."""
    first = tl.program_id(0) * ROWS
    inside = _mask_existing(first, rows, columns, ROWS, BLOCK, VECTOR, VECTORS_ONLY)
    at = _place_rows(x_ptr, first, x_stride, ROWS, BLOCK, VECTOR, ALIGNED)
    x = _load_rows(at, inside, float("-inf"), FULL, DROP).to(tl.float32)
    row = first + tl.arange(0, ROWS)
    exists = row < rows
    target = tl.load(target_ptr + row, mask=exists, other=0)
    there = exists & (target >= 0) & (target < columns)
    place = row.to(tl.int64) * x_stride + target
    logit = tl.load(x_ptr + place, mask=there, other=float("nan")).to(tl.float32)
    peak = tl.max(x, axis=1)
    base = _above_minus_infinity(peak)
    total = tl.sum(tl.exp2((x - base[:, None]) * LOG2_E), axis=1)
    loss = (peak - logit) + tl.log(total)
    tl.store(loss_ptr + row, tl.where(target == ignored, 0.0, loss), mask=exists)
    tl.store(lse_ptr + row, peak + tl.log(total), mask=exists)


@triton.jit(do_not_specialize=["rows"])
def cached_backward(
    y_ptr,
    dy_ptr,
    dx_ptr,
    rows,
    columns,
    saved_stride,
    dy_stride,
    dx_stride,
    LOG: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    VECTOR: tl.constexpr,
    ALIGNED: tl.constexpr,
    VECTORS_ONLY: tl.constexpr,
    FULL: tl.constexpr,
    DROP: tl.constexpr,
):
    first = tl.program_id(0) * ROWS
    inside = _mask_existing(first, rows, columns, ROWS, BLOCK, VECTOR, VECTORS_ONLY)
    y_at = _place_rows(y_ptr, first, saved_stride, ROWS, BLOCK, VECTOR, ALIGNED)
    dy_at = _place_rows(dy_ptr, first, dy_stride, ROWS, BLOCK, VECTOR, ALIGNED)
    y = _load_rows(y_at, inside, 0.0, FULL, DROP)
    dy = _load_rows(dy_at, inside, 0.0, FULL, DROP)
    total = tl.sum(_summand(y, dy, LOG), axis=1)[:, None]
    dx_at = _place_rows(dx_ptr, first, dx_stride, ROWS, BLOCK, VECTOR, ALIGNED)
    _store_rows(dx_at, gradient(y, dy, total, LOG), inside, FULL, DROP)
