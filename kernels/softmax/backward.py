# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
# ruff: noqa: ANN001 (arguments of kernels have no Python types)
"""Computes the gradients of softmax and log-softmax of rows of any length, read tile by tile.

``y`` is what the forward wrote. Softmax: ``dx = y × (dy − Σ y dy)``; its logarithm:
``dx = dy − exp(y) × Σ dy``. One pass for the row's sum, one to write; rows, tiles and constants
as in rows.py.
"""

from __future__ import annotations

import triton
import triton.language as tl

from .looped import _row_at
from .rows import LOG2_E, _first_vector, _head_elements, _tile_offsets, edge_columns, stripe


@triton.jit
def _summand(y, dy, LOG: tl.constexpr):
    if LOG:
        return dy.to(tl.float32)
    return y.to(tl.float32) * dy.to(tl.float32)


@triton.jit
def gradient(y, dy, total, LOG: tl.constexpr):
    if LOG:
        return dy.to(tl.float32) - tl.exp2(y.to(tl.float32) * LOG2_E) * total
    return y.to(tl.float32) * (dy.to(tl.float32) - total)


@triton.jit
def _row_sum(
    y,
    dy,
    columns,
    LOG: tl.constexpr,
    LANES: tl.constexpr,
    VECTOR: tl.constexpr,
    ITEM: tl.constexpr,
    PEEL: tl.constexpr,
    TAIL: tl.constexpr,
    STRIPE: tl.constexpr,
    EDGE: tl.constexpr,
    STAGES: tl.constexpr,
    KEEP: tl.constexpr,
):
    """Return the row's sum of summands. Where PEEL, all addresses are congruent modulo 16."""
    head = _head_elements(dy, columns, ITEM, PEEL)
    y_start = _first_vector(y, head, PEEL)
    dy_start = _first_vector(dy, head, PEEL)
    vectors = (columns - head) // VECTOR
    full = vectors // LANES
    offsets = _tile_offsets(LANES, VECTOR)
    sums = tl.zeros([LANES], tl.float32)
    for tile in tl.range(0, full, num_stages=STAGES):
        at = tile * (LANES * VECTOR) + offsets
        dy_tile = tl.load(dy_start + at, eviction_policy=KEEP)
        if LOG:
            sums += tl.sum(dy_tile.to(tl.float32), axis=1)
        else:
            y_tile = tl.load(y_start + at, eviction_policy=KEEP)
            sums += tl.sum(_summand(y_tile, dy_tile, LOG), axis=1)
    if TAIL:
        if STRIPE < LANES:
            sums = tl.sum(tl.reshape(sums, [LANES // STRIPE, STRIPE]), axis=0)
        for first in tl.range(full * LANES, vectors, STRIPE):
            at, inside = stripe(first, vectors, STRIPE, VECTOR)
            y_tile = tl.load(y_start + at, mask=inside, other=0.0, eviction_policy=KEEP)
            dy_tile = tl.load(dy_start + at, mask=inside, other=0.0, eviction_policy=KEEP)
            sums += tl.sum(_summand(y_tile, dy_tile, LOG), axis=1)
    total = tl.sum(sums, axis=0)
    if EDGE:
        column, there = edge_columns(head, columns, VECTOR, tl.arange(0, 2 * VECTOR))
        y_edge = tl.load(y + column, mask=there, other=0.0)
        dy_edge = tl.load(dy + column, mask=there, other=0.0)
        total += tl.sum(_summand(y_edge, dy_edge, LOG), axis=0)
    return total


@triton.jit
def _write_gradient(
    y,
    dy,
    dx,
    columns,
    total,
    LOG: tl.constexpr,
    LANES: tl.constexpr,
    VECTOR: tl.constexpr,
    ITEM: tl.constexpr,
    PEEL: tl.constexpr,
    TAIL: tl.constexpr,
    STRIPE: tl.constexpr,
    EDGE: tl.constexpr,
    STAGES: tl.constexpr,
    BACKWARDS: tl.constexpr,
    DROP: tl.constexpr,
):
    head = _head_elements(dy, columns, ITEM, PEEL)
    y_start = _first_vector(y, head, PEEL)
    dy_start = _first_vector(dy, head, PEEL)
    dx_start = _first_vector(dx, head, PEEL)
    vectors = (columns - head) // VECTOR
    full = vectors // LANES
    offsets = _tile_offsets(LANES, VECTOR)
    if EDGE:
        column, there = edge_columns(head, columns, VECTOR, tl.arange(0, 2 * VECTOR))
        y_edge = tl.load(y + column, mask=there, other=0.0)
        dy_edge = tl.load(dy + column, mask=there, other=0.0)
        tl.store(dx + column, gradient(y_edge, dy_edge, total, LOG), mask=there)
    if TAIL:
        for first in tl.range(full * LANES, vectors, STRIPE):
            at, inside = stripe(first, vectors, STRIPE, VECTOR)
            y_tile = tl.load(y_start + at, mask=inside, other=0.0, eviction_policy=DROP)
            dy_tile = tl.load(dy_start + at, mask=inside, other=0.0, eviction_policy=DROP)
            dx_tile = gradient(y_tile, dy_tile, total, LOG)
            tl.store(dx_start + at, dx_tile, mask=inside, eviction_policy=DROP)
    for step in tl.range(0, full, num_stages=STAGES):
        tile = step
        if BACKWARDS:
            tile = full - 1 - step
        at = tile * (LANES * VECTOR) + offsets
        y_tile = tl.load(y_start + at, eviction_policy=DROP)
        dy_tile = tl.load(dy_start + at, eviction_policy=DROP)
        dx_tile = gradient(y_tile, dy_tile, total, LOG)
        tl.store(dx_start + at, dx_tile, eviction_policy=DROP)


@triton.jit
def online_backward(
    y_ptr,
    dy_ptr,
    dx_ptr,
    columns,
    saved_stride,
    dy_stride,
    dx_stride,
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
    y = _row_at(y_ptr, saved_stride, VECTOR, ALIGNED)
    dy = _row_at(dy_ptr, dy_stride, VECTOR, ALIGNED)
    dx = _row_at(dx_ptr, dx_stride, VECTOR, ALIGNED)
    total = _row_sum(
        y, dy, columns, LOG, LANES, VECTOR, ITEM, PEEL, TAIL, STRIPE, EDGE, STAGES, KEEP
    )
    _write_gradient(
        y, dy, dx, columns, total,
        LOG, LANES, VECTOR, ITEM, PEEL, TAIL, STRIPE, EDGE, STAGES, BACKWARDS, DROP,
    )  # fmt: skip
