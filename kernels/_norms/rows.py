# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
# ruff: noqa: ANN001, RET505 (arguments have no Python types; branches are constant)
"""Computes whole rows in one tile: loaded through pointers, or by TMA into shared memory."""

from __future__ import annotations

import triton
import triton.language as tl

from .._overlap import start_next


@triton.jit
def _aligned_part(row, STRIDE: tl.constexpr, COLUMNS: tl.constexpr, VECTOR: tl.constexpr):
    """Find the row's part that starts at, and is as long as, a multiple of ``VECTOR`` elements.

    Returns the tensor's element where it starts, how many elements of the row lie before it, and
    how many are in it. That the first number is a multiple is visible to the compiler, which
    therefore loads 16 bytes at a time though rows start anywhere.
    """
    start = tl.cast(row, tl.int64) * STRIDE
    first = (start + (VECTOR - 1)) // VECTOR * VECTOR
    head = (first - start).to(tl.int32)
    return first, head, (COLUMNS - head) // VECTOR * VECTOR


@triton.jit
def _edge_columns(head, main, COLUMNS: tl.constexpr, VECTOR: tl.constexpr):
    """Return columns before and after the aligned part, fewer than ``VECTOR`` each, and which are
    any."""
    edge = tl.arange(0, 2 * VECTOR)
    before = edge < VECTOR
    column = tl.where(before, edge, head + main + edge - VECTOR)
    return column, tl.where(before, edge < head, column < COLUMNS)


@triton.jit
def add_residual(x, residual):
    """Return the sum as it is stored: rounded to the inputs' dtype."""
    return (x.to(tl.float32) + residual.to(tl.float32)).to(x.dtype)


@triton.jit
def normalise(x, mean, scale, weight, bias, MEAN: tl.constexpr, dtype: tl.constexpr):
    """Return what is stored; only ``MEAN``, layer norm, subtracts a mean and adds a bias."""
    wide = x.to(tl.float32)
    if MEAN and x.dtype.primitive_bitwidth == 16:  # which is rounded more than mean · scale
        normal = tl.fma(wide, scale, -mean * scale)
        return tl.fma(normal, weight.to(tl.float32), bias.to(tl.float32)).to(dtype)
    elif MEAN:
        return ((wide - mean) * scale * weight.to(tl.float32) + bias.to(tl.float32)).to(dtype)
    else:
        return (wide * scale * weight.to(tl.float32)).to(dtype)


@triton.jit
def shift_weights(
    unshifted, weight, unshifted_bias, bias,
    COLUMNS: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr, MEAN: tl.constexpr,
    OVERLAP: tl.constexpr,
):  # fmt: skip
    """Write ``weight[h, i] = unshifted[i + h]``: a row whose aligned part starts at its column
    ``h`` finds its weights aligned in copy ``h``."""
    start_next(OVERLAP)
    head = tl.program_id(1)
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = head + column < COLUMNS
    values = tl.load(unshifted + head + column, mask=inside, other=0.0)
    if MEAN:
        others = tl.load(unshifted_bias + head + column, mask=inside, other=0.0)
        tl.store(bias + head * WIDTH + column, others, mask=column < WIDTH)
    tl.store(weight + head * WIDTH + column, values, mask=column < WIDTH)


@triton.jit(do_not_specialize=["rows"])
def full_tile(
    x,
    residual,
    weight,
    bias,
    y,
    total,
    mean,
    rstd,
    rows,
    eps,
    COLUMNS: tl.constexpr,
    STRIDE: tl.constexpr,
    BLOCK: tl.constexpr,
    ROWS: tl.constexpr,
    RESIDUAL: tl.constexpr,
    MEAN: tl.constexpr,
    READ: tl.constexpr,
    WRITE: tl.constexpr,
):
    """Compute ``ROWS`` rows, each read once and kept in registers. ``MEAN``: layer norm, which
    writes each row's mean and 1 / deviation. Weights come after what they are multiplied with: a
    compiler unpacks them where they are loaded, and so waits for them before it asks for more."""
    row = tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, BLOCK)[None, :]
    first = tl.cast(tl.program_id(0), tl.int64) * ROWS
    present = tl.program_id(0) * ROWS + row < rows
    inside = present & (column < COLUMNS)
    source = first * STRIDE + (row * STRIDE + column)
    target = first * COLUMNS + (row * COLUMNS + column)
    values = tl.load(x + source, mask=inside, other=0.0, eviction_policy=READ)
    if RESIDUAL:
        other = tl.load(residual + source, mask=inside, other=0.0, eviction_policy=READ)
    w = tl.load(weight + column, mask=column < COLUMNS, other=0.0, eviction_policy="evict_last")
    b = w
    if MEAN:
        b = tl.load(bias + column, mask=column < COLUMNS, other=0.0, eviction_policy="evict_last")
    if RESIDUAL:
        values = add_residual(values, other)
        tl.store(total + target, values, mask=inside, eviction_policy=WRITE)
    wide = values.to(tl.float32)
    middle = 0.0
    if MEAN:
        middle = (tl.sum(wide, axis=1) / COLUMNS)[:, None]
        wide = wide - middle
        if COLUMNS < BLOCK:
            wide = tl.where(column < COLUMNS, wide, 0.0)
    scale = tl.rsqrt(tl.sum(wide * wide, axis=1) / COLUMNS + eps)[:, None]
    if MEAN:
        tl.store(mean + first + row, middle, mask=present)
        tl.store(rstd + first + row, scale, mask=present)
    out = normalise(values, middle, scale, w, b, MEAN, values.dtype)
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
    """Compute rows seen as ``COLUMNS / WIDTH`` lines of ``WIDTH`` elements, copied by the TMA unit
    into shared memory while rows before them are normalised; lines past the end arrive as zeros."""
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
            values = add_residual(values, residual.load([tile * ROWS, 0, 0]))
            tl.store(total + target, values, mask=inside, eviction_policy=WRITE)
        wide = values.to(tl.float32)
        squares = tl.sum(tl.sum(wide * wide, axis=2), axis=1)
        scale = tl.rsqrt(squares / COLUMNS + eps)[:, None, None]
        out = normalise(values, 0.0, scale, w, w, False, values.dtype)
        tl.store(y + target, out, mask=inside, eviction_policy=WRITE)
