# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
# ruff: noqa: ANN001 (arguments of kernels have no Python types)
"""Computes rows that are read twice, in loops of one block each; the loops serve split rows,
too."""

from __future__ import annotations

import triton
import triton.language as tl

from .rows import _aligned_part, _edge_columns, add_residual, normalise


@triton.jit
def _squares_of_range(
    x, residual, total, first, out_first, begin, end, main,
    BLOCK: tl.constexpr, MASKED: tl.constexpr, RESIDUAL: tl.constexpr, READ: tl.constexpr,
):  # fmt: skip
    """Return, per lane, the sum of squares over columns ``begin`` to ``end``, in steps of
    ``BLOCK``."""
    squares = tl.zeros([BLOCK], tl.float32)
    for start in tl.range(begin, end, BLOCK):
        column = start + tl.arange(0, BLOCK)
        mask = column < main if MASKED else None
        values = tl.load(x + first + column, mask=mask, eviction_policy=READ)
        if RESIDUAL:
            values = add_residual(values, tl.load(residual + first + column, mask=mask))
            tl.store(total + out_first + column, values, mask=mask)
        wide = values.to(tl.float32)
        if MASKED:
            wide = tl.where(mask, wide, 0.0)
        squares += wide * wide
    return squares


@triton.jit
def _normalise_range(
    source, weight, y, source_first, out_first, begin, end, main, scale,
    BLOCK: tl.constexpr, MASKED: tl.constexpr, AGAIN: tl.constexpr, WRITE: tl.constexpr,
):  # fmt: skip
    """Write columns ``begin`` to ``end``, the last block first: it is the likeliest to be in a
    cache."""
    for start in tl.range(begin, end, BLOCK):
        column = begin + (tl.cdiv(end - begin, BLOCK) * BLOCK - BLOCK) - (start - begin)
        column = column + tl.arange(0, BLOCK)
        mask = column < main if MASKED else None
        values = tl.load(source + source_first + column, mask=mask, eviction_policy=AGAIN)
        w = tl.load(weight + column, mask=mask, eviction_policy="evict_last")
        out = normalise(values, 0.0, scale, w, w, False, values.dtype)
        tl.store(y + out_first + column, out, mask=mask, eviction_policy=WRITE)


@triton.jit
def _edge_squares(
    x, residual, total, first, out_first, edge, is_edge, write, RESIDUAL: tl.constexpr
):  # fmt: skip
    """Return the values outside the aligned part, and their sum of squares."""
    values = tl.load(x + first + edge, mask=is_edge, other=0.0)
    if RESIDUAL:
        values = add_residual(values, tl.load(residual + first + edge, mask=is_edge, other=0.0))
        tl.store(total + out_first + edge, values, mask=is_edge & write)
    wide = values.to(tl.float32)
    return values, tl.sum(wide * wide, axis=0)


@triton.jit
def two_reads(
    x,
    residual,
    weight,
    y,
    total,
    eps,
    COLUMNS: tl.constexpr,
    STRIDE: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
    VECTOR: tl.constexpr,
    PEEL: tl.constexpr,
    RESIDUAL: tl.constexpr,
    READ: tl.constexpr,
    AGAIN: tl.constexpr,
    WRITE: tl.constexpr,
):
    """Compute one row per program: a loop that sums, a loop that reads again and writes. ``PEEL``
    as in the tiled kernel; the loop over what is certainly inside the row has no mask."""
    row = tl.program_id(0)
    SURE: tl.constexpr = COLUMNS - 2 * (VECTOR - 1) if PEEL else COLUMNS
    FULL: tl.constexpr = SURE // BLOCK * BLOCK
    if PEEL:
        first, head, main = _aligned_part(row, STRIDE, COLUMNS, VECTOR)
        out_first, _, _ = _aligned_part(row, COLUMNS, COLUMNS, VECTOR)
        w = weight + head * WIDTH
        edge, is_edge = _edge_columns(head, main, COLUMNS, VECTOR)
        edge_x, extra = _edge_squares(
            x, residual, total, first - head, out_first - head, edge, is_edge, True, RESIDUAL
        )
    else:
        first = tl.cast(row, tl.int64) * STRIDE
        out_first = tl.cast(row, tl.int64) * COLUMNS
        main = COLUMNS
        w = weight
        extra = 0.0
    squares = _squares_of_range(
        x, residual, total, first, out_first, 0, FULL, main, BLOCK, False, RESIDUAL, READ
    )
    if FULL < COLUMNS:
        squares += _squares_of_range(
            x, residual, total, first, out_first, FULL, COLUMNS, main, BLOCK, True, RESIDUAL, READ
        )
    scale = tl.rsqrt((tl.sum(squares, axis=0) + extra) / COLUMNS + eps)
    if RESIDUAL:
        tl.debug_barrier()  # other threads' part of the sum is read below
        source = total
        source_first = out_first
    else:
        source = x
        source_first = first
    if FULL < COLUMNS:
        _normalise_range(
            source,
            w,
            y,
            source_first,
            out_first,
            FULL,
            COLUMNS,
            main,
            scale,
            BLOCK,
            True,
            AGAIN,
            WRITE,
        )
    _normalise_range(
        source, w, y, source_first, out_first, 0, FULL, main, scale, BLOCK, False, AGAIN, WRITE
    )
    if PEEL:
        edge_w = tl.load(weight + edge, mask=is_edge, other=0.0)
        out = normalise(edge_x, 0.0, scale, edge_w, edge_w, False, edge_x.dtype)
        tl.store(y + out_first - head + edge, out, mask=is_edge)


@triton.jit
def split_sum(
    x,
    residual,
    total,
    partial,
    COLUMNS: tl.constexpr,
    STRIDE: tl.constexpr,
    CHUNK: tl.constexpr,
    PARTS: tl.constexpr,
    BLOCK: tl.constexpr,
    VECTOR: tl.constexpr,
    PEEL: tl.constexpr,
    RESIDUAL: tl.constexpr,
    READ: tl.constexpr,
):
    """Compute ``partial[row, part]``: the squares of ``CHUNK`` columns, added."""
    row = tl.program_id(0) // PARTS
    part = tl.program_id(0) % PARTS
    if PEEL:
        first, head, main = _aligned_part(row, STRIDE, COLUMNS, VECTOR)
        out_first, _, _ = _aligned_part(row, COLUMNS, COLUMNS, VECTOR)
        edge, is_edge = _edge_columns(head, main, COLUMNS, VECTOR)
        _, extra = _edge_squares(
            x, residual, total, first - head, out_first - head, edge, is_edge & (part == 0), True,
            RESIDUAL,
        )  # fmt: skip
    else:
        first = tl.cast(row, tl.int64) * STRIDE
        out_first = tl.cast(row, tl.int64) * COLUMNS
        main = COLUMNS
        extra = 0.0
    squares = _squares_of_range(
        x, residual, total, first, out_first, part * CHUNK, part * CHUNK + CHUNK, main, BLOCK,
        COLUMNS != PARTS * CHUNK or PEEL, RESIDUAL, READ,
    )  # fmt: skip
    tl.store(partial + row * PARTS + part, tl.sum(squares, axis=0) + extra)


@triton.jit
def split_apply(
    source,
    weight,
    y,
    partial,
    eps,
    COLUMNS: tl.constexpr,
    STRIDE: tl.constexpr,
    WIDTH: tl.constexpr,
    CHUNK: tl.constexpr,
    PARTS: tl.constexpr,
    PARTS_PADDED: tl.constexpr,
    BLOCK: tl.constexpr,
    VECTOR: tl.constexpr,
    PEEL: tl.constexpr,
    WRITE: tl.constexpr,
):
    """Add a row's partial sums and normalise ``CHUNK`` of its columns. Programs start with the rows
    that ``split_sum`` read last."""
    program = tl.num_programs(0) - 1 - tl.program_id(0)
    row = program // PARTS
    part = program % PARTS
    which = tl.arange(0, PARTS_PADDED)
    sums = tl.load(partial + row * PARTS + which, mask=which < PARTS, other=0.0)
    scale = tl.rsqrt(tl.sum(sums, axis=0) / COLUMNS + eps)
    if PEEL:
        first, head, main = _aligned_part(row, STRIDE, COLUMNS, VECTOR)
        out_first, _, _ = _aligned_part(row, COLUMNS, COLUMNS, VECTOR)
        w = weight + head * WIDTH
        edge, is_edge = _edge_columns(head, main, COLUMNS, VECTOR)
        is_edge = is_edge & (part == 0)
        edge_x = tl.load(source + first - head + edge, mask=is_edge, other=0.0)
        edge_w = tl.load(weight + edge, mask=is_edge, other=0.0)
        out = normalise(edge_x, 0.0, scale, edge_w, edge_w, False, edge_x.dtype)
        tl.store(y + out_first - head + edge, out, mask=is_edge)
    else:
        first = tl.cast(row, tl.int64) * STRIDE
        out_first = tl.cast(row, tl.int64) * COLUMNS
        main = COLUMNS
        w = weight
    _normalise_range(
        source, w, y, first, out_first, part * CHUNK, part * CHUNK + CHUNK, main, scale, BLOCK,
        COLUMNS != PARTS * CHUNK or PEEL, "evict_first", WRITE,
    )  # fmt: skip
