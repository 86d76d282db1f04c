# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
# ruff: noqa: ANN001, ANN202 (arguments of kernels have no Python types)
"""Rows split over many blocks in two launches: sums of chunks, then the same chunks normalised."""

from __future__ import annotations

import triton
import triton.language as tl

from ._rmsnorm_geometry import aligned_part, edge_columns, scaled
from ._rmsnorm_loop import edge_squares, normalise_range, squares_of_range


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
    """``partial[row, part]``: the squares of ``CHUNK`` columns, added."""
    row = tl.program_id(0) // PARTS
    part = tl.program_id(0) % PARTS
    if PEEL:
        first, head, main = aligned_part(row, STRIDE, COLUMNS, VECTOR)
        out_first, _, _ = aligned_part(row, COLUMNS, COLUMNS, VECTOR)
        edge, is_edge = edge_columns(head, main, COLUMNS, VECTOR)
        _, extra = edge_squares(
            x, residual, total, first - head, out_first - head, edge, is_edge & (part == 0), True,
            RESIDUAL,
        )  # fmt: skip
    else:
        first = tl.cast(row, tl.int64) * STRIDE
        out_first = tl.cast(row, tl.int64) * COLUMNS
        main = COLUMNS
        extra = 0.0
    squares = squares_of_range(
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
    """Adds a row's partial sums and normalises ``CHUNK`` of its columns. Programs start with the
    rows that ``split_sum`` read last."""
    program = tl.num_programs(0) - 1 - tl.program_id(0)
    row = program // PARTS
    part = program % PARTS
    which = tl.arange(0, PARTS_PADDED)
    sums = tl.load(partial + row * PARTS + which, mask=which < PARTS, other=0.0)
    scale = tl.rsqrt(tl.sum(sums, axis=0) / COLUMNS + eps)
    if PEEL:
        first, head, main = aligned_part(row, STRIDE, COLUMNS, VECTOR)
        out_first, _, _ = aligned_part(row, COLUMNS, COLUMNS, VECTOR)
        w = weight + head * WIDTH
        edge, is_edge = edge_columns(head, main, COLUMNS, VECTOR)
        is_edge = is_edge & (part == 0)
        edge_x = tl.load(source + first - head + edge, mask=is_edge, other=0.0)
        edge_w = tl.load(weight + edge, mask=is_edge, other=0.0)
        out = scaled(edge_x, scale, edge_w, edge_x.dtype)
        tl.store(y + out_first - head + edge, out, mask=is_edge)
    else:
        first = tl.cast(row, tl.int64) * STRIDE
        out_first = tl.cast(row, tl.int64) * COLUMNS
        main = COLUMNS
        w = weight
    normalise_range(
        source, w, y, first, out_first, part * CHUNK, part * CHUNK + CHUNK, main, scale, BLOCK,
        COLUMNS != PARTS * CHUNK or PEEL, "evict_first", WRITE,
    )  # fmt: skip
