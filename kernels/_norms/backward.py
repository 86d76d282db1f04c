# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
# ruff: noqa: ANN001 (arguments of kernels have no Python types)
"""Computes the gradients of RMSNorm: fused, with the weight's gradient summed while rows pass, and
unfused."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _row_gradient(x, g, squares, dot, eps, COLUMNS: tl.constexpr):
    """Return the input's gradient of rows whose sums are known, and their scale; ``g`` is the
    output's gradient times the weight. With x̂ = x · scale it is (g − x̂ · mean(g · x̂)) · scale:
    no power of the scale is formed, which would leave fp32's range before the result does."""
    scale = tl.rsqrt(squares / COLUMNS + eps)
    mean = dot * scale / COLUMNS
    return (g - x * scale * mean) * scale, scale


@triton.jit(do_not_specialize=["rows"])
def backward_rows(
    x,
    dy,
    dsum,
    weight,
    dx,
    scale,
    partial,
    rows,
    eps,
    COLUMNS: tl.constexpr,
    STRIDE: tl.constexpr,
    BLOCK: tl.constexpr,
    ROWS: tl.constexpr,
    STAGES: tl.constexpr,
    RESIDUAL: tl.constexpr,
    FUSED: tl.constexpr,
    READ: tl.constexpr,
    WRITE: tl.constexpr,
):
    """Compute gradients of ``ROWS`` whole rows at a time. ``FUSED``: a persistent program adds up
    the weight's gradient over all of its rows and writes one partial sum; else each row's scale is
    written for the kernel that sums columns."""
    row = tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, BLOCK)[None, :]
    w = tl.load(weight + column, mask=column < COLUMNS, other=0.0, eviction_policy="evict_last")
    dw = tl.zeros([ROWS, BLOCK], tl.float32)
    for tile in tl.range(
        tl.program_id(0), tl.cdiv(rows, ROWS), tl.num_programs(0), num_stages=STAGES
    ):
        first = tl.cast(tile, tl.int64) * ROWS
        present = tile * ROWS + row < rows
        inside = present & (column < COLUMNS)
        source = first * STRIDE + (row * STRIDE + column)
        target = first * COLUMNS + (row * COLUMNS + column)
        x_half = tl.load(x + source, mask=inside, other=0.0, eviction_policy=READ)
        dy_half = tl.load(dy + source, mask=inside, other=0.0, eviction_policy=READ)
        wide, gradient = x_half.to(tl.float32), dy_half.to(tl.float32)
        g = gradient * w.to(tl.float32)
        squares = tl.sum(wide * wide, axis=1)[:, None]
        dot = tl.sum(g * wide, axis=1)[:, None]
        out, row_scale = _row_gradient(wide, g, squares, dot, eps, COLUMNS)
        if FUSED:
            dw += gradient * wide * tl.where(present, row_scale, 0.0)
        else:
            tl.store(scale + first + row, row_scale, mask=present)
        if RESIDUAL:
            more = tl.load(dsum + source, mask=inside, other=0.0, eviction_policy=READ)
            out += more.to(tl.float32)
        tl.store(dx + target, out.to(x_half.dtype), mask=inside, eviction_policy=WRITE)
    if FUSED:
        kept = tl.arange(0, BLOCK)
        sums = tl.sum(dw, axis=0)
        tl.store(partial + tl.program_id(0) * COLUMNS + kept, sums, mask=kept < COLUMNS)


@triton.jit
def backward_loop(
    x,
    dy,
    dsum,
    weight,
    dx,
    scale,
    eps,
    COLUMNS: tl.constexpr,
    STRIDE: tl.constexpr,
    BLOCK: tl.constexpr,
    RESIDUAL: tl.constexpr,
):
    """Compute the input's gradient of rows too long for registers: read twice, in a loop."""
    row = tl.program_id(0)
    source = tl.cast(row, tl.int64) * STRIDE
    target = tl.cast(row, tl.int64) * COLUMNS
    squares = tl.zeros([BLOCK], tl.float32)
    dots = tl.zeros([BLOCK], tl.float32)
    for start in tl.range(0, COLUMNS, BLOCK):
        column = start + tl.arange(0, BLOCK)
        mask = column < COLUMNS
        wide = tl.load(x + source + column, mask=mask, other=0.0).to(tl.float32)
        gradient = tl.load(dy + source + column, mask=mask, other=0.0).to(tl.float32)
        w = tl.load(weight + column, mask=mask, other=0.0, eviction_policy="evict_last")
        squares += wide * wide
        dots += gradient * w.to(tl.float32) * wide
    squares_sum, dot = tl.sum(squares, axis=0), tl.sum(dots, axis=0)
    for start in tl.range(0, COLUMNS, BLOCK):
        column = start + tl.arange(0, BLOCK)
        mask = column < COLUMNS
        x_half = tl.load(x + source + column, mask=mask, other=0.0, eviction_policy="evict_first")
        gradient = tl.load(
            dy + source + column, mask=mask, other=0.0, eviction_policy="evict_first"
        )
        w = tl.load(weight + column, mask=mask, other=0.0, eviction_policy="evict_last")
        g = gradient.to(tl.float32) * w.to(tl.float32)
        out, _ = _row_gradient(x_half.to(tl.float32), g, squares_sum, dot, eps, COLUMNS)
        if RESIDUAL:
            out += tl.load(dsum + source + column, mask=mask, other=0.0).to(tl.float32)
        tl.store(dx + target + column, out.to(x_half.dtype), mask=mask)
    tl.store(scale + row, tl.rsqrt(squares_sum / COLUMNS + eps))


@triton.jit(do_not_specialize=["rows"])
def weight_gradient(
    x,
    dy,
    scale,
    partial,
    rows,
    COLUMNS: tl.constexpr,
    STRIDE: tl.constexpr,
    BLOCK: tl.constexpr,
    ROWS: tl.constexpr,
    STAGES: tl.constexpr,
):
    """Compute ``partial[split, column]``: output gradient times normalised input, added over the
    rows ``split``, ``split + number of splits``, … in tiles of ``ROWS``."""
    split, splits = tl.program_id(1), tl.num_programs(1)
    row = tl.arange(0, ROWS)[:, None]
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[None, :]
    sums = tl.zeros([ROWS, BLOCK], tl.float32)
    for tile in tl.range(split, tl.cdiv(rows, ROWS), splits, num_stages=STAGES):
        first = tl.cast(tile, tl.int64) * ROWS
        present = tile * ROWS + row < rows
        inside = present & (column < COLUMNS)
        wide = tl.load(x + first * STRIDE + (row * STRIDE + column), mask=inside, other=0.0).to(
            tl.float32
        )
        gradient = tl.load(
            dy + first * STRIDE + (row * STRIDE + column), mask=inside, other=0.0
        ).to(tl.float32)
        sums += gradient * wide * tl.load(scale + first + row, mask=present, other=0.0)
    kept = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(partial + split * COLUMNS + kept, tl.sum(sums, axis=0), mask=kept < COLUMNS)


@triton.jit(do_not_specialize=["count"])
def sum_partials(
    partial,
    dw,
    count,
    COLUMNS: tl.constexpr,
    BLOCK: tl.constexpr,
    ROWS: tl.constexpr,
):
    """Add ``count`` partial sums of the weight's gradient in a fixed order."""
    row = tl.arange(0, ROWS)[:, None]
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[None, :]
    sums = tl.zeros([ROWS, BLOCK], tl.float32)
    for first in tl.range(0, count, ROWS):
        inside = (first + row < count) & (column < COLUMNS)
        sums += tl.load(partial + (first + row) * COLUMNS + column, mask=inside, other=0.0)
    kept = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    out = tl.sum(sums, axis=0).to(dw.dtype.element_ty)
    tl.store(dw + kept, out, mask=kept < COLUMNS)
