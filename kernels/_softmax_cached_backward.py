# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
# ruff: noqa: ANN001, ANN202 (arguments of kernels have no Python types)
"""Gradients of softmax and log-softmax in one pass: both inputs' rows are held in registers.

Constants as in _softmax_cached.
"""

from __future__ import annotations

import triton
import triton.language as tl

from ._softmax_backward import gradient, summand
from ._softmax_cached import existing, load_rows, place_rows, store_rows


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
    inside = existing(first, rows, columns, ROWS, BLOCK, VECTOR, VECTORS_ONLY)
    y_at = place_rows(y_ptr, first, saved_stride, ROWS, BLOCK, VECTOR, ALIGNED)
    dy_at = place_rows(dy_ptr, first, dy_stride, ROWS, BLOCK, VECTOR, ALIGNED)
    y = load_rows(y_at, inside, 0.0, FULL, DROP)
    dy = load_rows(dy_at, inside, 0.0, FULL, DROP)
    total = tl.sum(summand(y, dy, LOG), axis=1)[:, None]
    dx_at = place_rows(dx_ptr, first, dx_stride, ROWS, BLOCK, VECTOR, ALIGNED)
    store_rows(dx_at, gradient(y, dy, total, LOG), inside, FULL, DROP)
