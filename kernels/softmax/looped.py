# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
# ruff: noqa: ANN001, SIM108 (arguments of kernels have no Python types)
"""Computes rows of any length, read tile by tile: online (two passes) and three-pass, forward.

``peeled`` is ``online`` with PEEL: see rows.py.
"""

from __future__ import annotations

import triton
import triton.language as tl

from .rows import (
    LOG2_E,
    _above_minus_infinity,
    _row_statistics,
    _write_row,
)


@triton.jit
def _row_at(pointer, stride, VECTOR: tl.constexpr, ALIGNED: tl.constexpr):
    """Return this program's row. ALIGNED: the stride is a multiple of VECTOR."""
    offset = tl.program_id(0).to(tl.int64) * stride
    if ALIGNED:
        offset = tl.multiple_of(offset, VECTOR)
    return pointer + offset


@triton.jit
def load_logit(row, target, columns):
    """Return the target's logit, NaN where it is no column. Loaded before the row is reduced, it
    comes meanwhile."""
    there = (target >= 0) & (target < columns)
    return tl.load(row + target, mask=there, other=float("nan")).to(tl.float32)


@triton.jit
def write_loss(index, exists, logit, target, loss_ptr, lse_ptr, peak, total, ignored):
    """Write a row's cross-entropy: ``log(sum(exp(x))) − x[target]``; 0 where the target is
    ``ignored``."""
    loss = (peak - logit) + tl.log(total)
    tl.store(loss_ptr + index, tl.where(target == ignored, 0.0, loss), mask=exists)
    tl.store(lse_ptr + index, peak + tl.log(total), mask=exists)


@triton.jit
def online_forward(
    x_ptr,
    y_ptr,
    columns,
    x_stride,
    y_stride,
    LOG: tl.constexpr,
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
    x = _row_at(x_ptr, x_stride, VECTOR, ALIGNED)
    y = _row_at(y_ptr, y_stride, VECTOR, ALIGNED)
    peak, total = _row_statistics(
        x, columns, LANES, VECTOR, ITEM, PEEL, TAIL, STRIPE, EDGE, STAGES, KEEP
    )
    _write_row(
        x, y, columns, peak, total,
        LOG, LANES, VECTOR, ITEM, PEEL, TAIL, STRIPE, EDGE, STAGES, BACKWARDS, DROP,
    )  # fmt: skip


@triton.jit
def online_loss(
    x_ptr,
    target_ptr,
    loss_ptr,
    lse_ptr,
    columns,
    x_stride,
    ignored,
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
    x = _row_at(x_ptr, x_stride, VECTOR, ALIGNED)
    target = tl.load(target_ptr + tl.program_id(0))
    logit = load_logit(x, target, columns)
    peak, total = _row_statistics(
        x, columns, LANES, VECTOR, ITEM, PEEL, TAIL, STRIPE, EDGE, STAGES, DROP
    )
    write_loss(tl.program_id(0), True, logit, target, loss_ptr, lse_ptr, peak, total, ignored)


@triton.jit
def _two_pass_statistics(row, columns, TILE: tl.constexpr):
    """Take the maximum in one pass and the sum in another, with nothing clever: the baseline."""
    place = tl.arange(0, TILE)
    highest = tl.full([TILE], float("-inf"), tl.float32)
    for first in range(0, columns, TILE):
        inside = first + place < columns
        x = tl.load(row + first + place, mask=inside, other=float("-inf"))
        highest = tl.maximum(highest, x.to(tl.float32))
    peak = tl.max(highest, axis=0)
    base = _above_minus_infinity(peak)
    sums = tl.zeros([TILE], tl.float32)
    for first in range(0, columns, TILE):
        inside = first + place < columns
        x = tl.load(row + first + place, mask=inside, other=float("-inf"))
        sums += tl.exp2((x.to(tl.float32) - base) * LOG2_E)
    return peak, tl.sum(sums, axis=0)


@triton.jit
def three_pass_forward(
    x_ptr,
    y_ptr,
    columns,
    x_stride,
    y_stride,
    LOG: tl.constexpr,
    TILE: tl.constexpr,
):
    x_row = _row_at(x_ptr, x_stride, 1, False)
    y_row = _row_at(y_ptr, y_stride, 1, False)
    peak, total = _two_pass_statistics(x_row, columns, TILE)
    place = tl.arange(0, TILE)
    for first in range(0, columns, TILE):
        inside = first + place < columns
        above = tl.load(x_row + first + place, mask=inside, other=0.0).to(tl.float32) - peak
        if LOG:
            y = above - tl.log(total)
        else:
            y = tl.exp2(above * LOG2_E) / total
        tl.store(y_row + first + place, y, mask=inside)


@triton.jit
def three_pass_loss(
    x_ptr,
    target_ptr,
    loss_ptr,
    lse_ptr,
    columns,
    x_stride,
    ignored,
    TILE: tl.constexpr,
):
    row = _row_at(x_ptr, x_stride, 1, False)
    target = tl.load(target_ptr + tl.program_id(0))
    logit = load_logit(row, target, columns)
    peak, total = _two_pass_statistics(row, columns, TILE)
    write_loss(tl.program_id(0), True, logit, target, loss_ptr, lse_ptr, peak, total, ignored)
