# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
# ruff: noqa: ANN001, ANN202 (arguments of kernels have no Python types)
"""Whole rows in one tile: loaded through pointers, or by TMA into shared memory."""

from __future__ import annotations

import triton
import triton.language as tl

from ._rmsnorm_geometry import added, scaled


@triton.jit(do_not_specialize=["rows"])
def full_tile(
    x,
    residual,
    weight,
    y,
    total,
    rows,
    eps,
    COLUMNS: tl.constexpr,
    STRIDE: tl.constexpr,
    BLOCK: tl.constexpr,
    ROWS: tl.constexpr,
    STAGES: tl.constexpr,
    RESIDUAL: tl.constexpr,
    READ: tl.constexpr,
    WRITE: tl.constexpr,
):
    """``ROWS`` rows at a time, each read once and kept in registers. A grid smaller than the
    number of such tiles goes round, with the weights kept."""
    row = tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, BLOCK)[None, :]
    w = tl.load(weight + column, mask=column < COLUMNS, other=0.0, eviction_policy="evict_last")
    for tile in tl.range(
        tl.program_id(0), tl.cdiv(rows, ROWS), tl.num_programs(0), num_stages=STAGES
    ):
        first = tl.cast(tile, tl.int64) * ROWS
        inside = (tile * ROWS + row < rows) & (column < COLUMNS)
        source = first * STRIDE + (row * STRIDE + column)
        target = first * COLUMNS + (row * COLUMNS + column)
        values = tl.load(x + source, mask=inside, other=0.0, eviction_policy=READ)
        if RESIDUAL:
            other = tl.load(residual + source, mask=inside, other=0.0, eviction_policy=READ)
            values = added(values, other)
            tl.store(total + target, values, mask=inside, eviction_policy=WRITE)
        wide = values.to(tl.float32)
        scale = tl.rsqrt(tl.sum(wide * wide, axis=1) / COLUMNS + eps)[:, None]
        out = scaled(values, scale, w, values.dtype)
        tl.store(y + target, out, mask=inside, eviction_policy=WRITE)


@triton.jit(do_not_specialize=["rows"])
def tma_rows(
    x,
    residual,
    weight,
    y,
    total,
    rows,
    eps,
    COLUMNS: tl.constexpr,
    BLOCK: tl.constexpr,
    WIDTH: tl.constexpr,
    ROWS: tl.constexpr,
    STAGES: tl.constexpr,
    RESIDUAL: tl.constexpr,
    WRITE: tl.constexpr,
):
    """Rows seen as ``COLUMNS / WIDTH`` lines of ``WIDTH`` elements, copied by the TMA unit into
    shared memory while rows before them are normalised; lines past the end arrive as zeros."""
    LINES: tl.constexpr = BLOCK // WIDTH
    row = tl.arange(0, ROWS)[:, None, None]
    line = tl.arange(0, LINES)[None, :, None]
    column = line * WIDTH + tl.arange(0, WIDTH)[None, None, :]
    w = tl.load(
        weight + column, mask=line < COLUMNS // WIDTH, other=0.0, eviction_policy="evict_last"
    )
    for tile in tl.range(
        tl.program_id(0), tl.cdiv(rows, ROWS), tl.num_programs(0), num_stages=STAGES
    ):
        inside = (tile * ROWS + row < rows) & (line < COLUMNS // WIDTH)
        target = tl.cast(tile, tl.int64) * ROWS * COLUMNS + (row * COLUMNS + column)
        values = x.load([tile * ROWS, 0, 0])
        if RESIDUAL:
            values = added(values, residual.load([tile * ROWS, 0, 0]))
            tl.store(total + target, values, mask=inside, eviction_policy=WRITE)
        wide = values.to(tl.float32)
        squares = tl.sum(tl.sum(wide * wide, axis=2), axis=1)
        scale = tl.rsqrt(squares / COLUMNS + eps)[:, None, None]
        out = scaled(values, scale, w, values.dtype)
        tl.store(y + target, out, mask=inside, eviction_policy=WRITE)
