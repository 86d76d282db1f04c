# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
# mypy: disable-error-code="assignment, var-annotated"
# ruff: noqa: ANN001, C901, RUF005 (arguments have no Python types; branches are constant)
"""Keeps rows in registers as several tiles of half precision: one block per row, or several blocks
that tell each other their sums."""

from __future__ import annotations

import triton
import triton.language as tl

from .rows import _aligned_part, _edge_columns, _scale, add_residual, opaque


@triton.jit
def _squares_of_part(
    x, residual, first, part, main, tiles,
    CHUNK: tl.constexpr, TILE: tl.constexpr, RESIDUAL: tl.constexpr,
):  # fmt: skip
    """Return the sum that the program of this part would have told, added in the same order."""
    squares = tl.zeros([TILE], tl.float32)
    for tile in tl.range(tiles):
        local = tile * TILE + tl.arange(0, TILE)
        column = part * CHUNK + local
        mask = (local < CHUNK) & (column < main)
        values = tl.load(x + first + column, mask=mask, other=0.0)
        if RESIDUAL:
            values = add_residual(values, tl.load(residual + first + column, mask=mask, other=0.0))
        wide = values.to(tl.float32)
        squares += wide * wide
        tl.debug_barrier()  # which cannot be copied: the loop stays rolled, in few registers
    return tl.sum(squares, axis=0)


@triton.jit
def _told_by_all(
    mine, x, residual, partial, row, part, first, main, extra, tiles,
    CHUNK: tl.constexpr, PARTS: tl.constexpr, TILE: tl.constexpr, RESIDUAL: tl.constexpr,
    POLLS: tl.constexpr, MISSING: tl.constexpr,
):  # fmt: skip
    """Return the row's sum, from all its programs, always added in the same order.

    Each program puts its part where ``MISSING`` stood, which no sum of squares is, and reads until
    none is left: one word says both that a sum is there and what it is, so nothing is fenced. The
    wait is bounded: who has polled ``POLLS`` times computes the missing parts itself, so nothing
    depends on all programs of a row being resident at once.
    """
    other = tl.arange(0, PARTS)
    words = partial + row * PARTS + other
    word = (partial + row * PARTS + part).to(tl.pointer_type(tl.int32))
    tl.atomic_xchg(word, mine.to(tl.int32, bitcast=True), sem="relaxed")
    sums = tl.load(words, volatile=True)
    missing = tl.max((sums == MISSING).to(tl.int32), axis=0)
    polls = 0
    while (missing > 0) & (polls < POLLS):
        sums = tl.load(words, volatile=True)
        missing = tl.max((sums == MISSING).to(tl.int32), axis=0)
        polls += 1
    # Every warp polls for itself; a maximum over the block makes them agree on what follows.
    lane = tl.arange(0, TILE)
    if tl.max(tl.where(lane < CHUNK, missing, 0), axis=0) > 0:
        sums = tl.zeros([PARTS], tl.float32)
        for which in tl.range(PARTS):
            one = _squares_of_part(x, residual, first, which, main, tiles, CHUNK, TILE, RESIDUAL)
            sums = tl.where(other == which, one, sums)
        sums += tl.where(other == 0, extra, 0.0)
    return tl.sum(sums, axis=0)


@triton.jit(do_not_specialize=["tiles"])
def tiled(
    x,
    residual,
    weight,
    y,
    total,
    partial,
    tiles,
    eps,
    COLUMNS: tl.constexpr,
    STRIDE: tl.constexpr,
    WIDTH: tl.constexpr,
    CHUNK: tl.constexpr,
    PARTS: tl.constexpr,
    TILE: tl.constexpr,
    TILES: tl.constexpr,
    VECTOR: tl.constexpr,
    PEEL: tl.constexpr,
    RESIDUAL: tl.constexpr,
    OPAQUE: tl.constexpr,
    EARLY: tl.constexpr,
    POLLS: tl.constexpr,
    MISSING: tl.constexpr,
    READ: tl.constexpr,
    WRITE: tl.constexpr,
):
    """Compute rows with ``PARTS`` programs each, every one with ``CHUNK`` columns in ``TILES``
    tiles, read once.

    ``PEEL``: rows start at any element. What lies between multiples of ``VECTOR`` elements is
    read and written 16 bytes wide, the fewer than ``2 × VECTOR`` others one by one by the first
    program; weights come from ``shift_weights``, ``WIDTH`` elements from copy to copy.
    ``EARLY``: weights are loaded before the reduction. ``tiles`` is ``TILES``, as a number that
    the compiler does not know: it keeps a loop that hardly ever runs from being unrolled.
    """
    row = tl.program_id(0) // PARTS
    part = tl.program_id(0) % PARTS
    SURE: tl.constexpr = COLUMNS - 2 * (VECTOR - 1) if PEEL else COLUMNS
    CERTAIN: tl.constexpr = SURE // VECTOR * VECTOR - (PARTS - 1) * CHUNK
    if PEEL:
        first, head, main = _aligned_part(row, STRIDE, COLUMNS, VECTOR)
        out_first, _, _ = _aligned_part(row, COLUMNS, COLUMNS, VECTOR)
        w_first = head * WIDTH
        edge, is_edge = _edge_columns(head, main, COLUMNS, VECTOR)
    else:
        first = tl.cast(row, tl.int64) * STRIDE
        out_first = tl.cast(row, tl.int64) * COLUMNS
        main = COLUMNS
        w_first = 0
    cached = ()
    weights = ()
    for tile in tl.static_range(TILES):
        local = tile * TILE + tl.arange(0, TILE)
        column = part * CHUNK + local
        if (tile + 1) * TILE <= CERTAIN and (tile + 1) * TILE <= CHUNK:
            values = tl.load(x + first + column, eviction_policy=READ)
            if RESIDUAL:
                values = add_residual(
                    values, tl.load(residual + first + column, eviction_policy=READ)
                )
                tl.store(total + out_first + column, values, eviction_policy=WRITE)
            if EARLY:
                weights = weights + (tl.load(weight + w_first + column),)
        else:
            mask = (local < CHUNK) & (column < main)
            values = tl.load(x + first + column, mask=mask, other=0.0, eviction_policy=READ)
            if RESIDUAL:
                more = tl.load(
                    residual + first + column, mask=mask, other=0.0, eviction_policy=READ
                )
                values = add_residual(values, more)
                tl.store(total + out_first + column, values, mask=mask, eviction_policy=WRITE)
            if EARLY:
                weights = weights + (tl.load(weight + w_first + column, mask=mask, other=0.0),)
        cached = cached + (values,)
    squares = tl.zeros([TILE], tl.float32)
    for tile in tl.static_range(TILES):
        wide = cached[tile].to(tl.float32)
        squares += wide * wide
    sum_of_squares = tl.sum(squares, axis=0)
    extra = 0.0
    if PEEL:
        edge_x = tl.load(x + first - head + edge, mask=is_edge, other=0.0)
        if RESIDUAL:
            edge_r = tl.load(residual + first - head + edge, mask=is_edge, other=0.0)
            edge_x = add_residual(edge_x, edge_r)
            tl.store(total + out_first - head + edge, edge_x, mask=is_edge & (part == 0))
        edge_wide = edge_x.to(tl.float32)
        extra = tl.sum(edge_wide * edge_wide, axis=0)
    if PARTS > 1:
        mine = sum_of_squares + tl.where(part == 0, extra, 0.0)
        sum_of_squares = _told_by_all(
            mine, x, residual, partial, row, part, first, main, extra, tiles,
            CHUNK, PARTS, TILE, RESIDUAL, POLLS, MISSING,
        )  # fmt: skip
    else:
        sum_of_squares += extra
    scale = tl.rsqrt(sum_of_squares / COLUMNS + eps)
    for tile in tl.static_range(TILES):
        local = tile * TILE + tl.arange(0, TILE)
        column = part * CHUNK + local
        values = opaque(cached[tile], OPAQUE)
        if (tile + 1) * TILE <= CERTAIN and (tile + 1) * TILE <= CHUNK:
            if EARLY:
                w = weights[tile]
            else:
                w = tl.load(weight + w_first + column, eviction_policy="evict_last")
            out = _scale(values, scale, w, values.dtype)
            tl.store(y + out_first + column, out, eviction_policy=WRITE)
        else:
            mask = (local < CHUNK) & (column < main)
            if EARLY:
                w = weights[tile]
            else:
                w = tl.load(
                    weight + w_first + column, mask=mask, other=0.0, eviction_policy="evict_last"
                )
            out = _scale(values, scale, w, values.dtype)
            tl.store(y + out_first + column, out, mask=mask, eviction_policy=WRITE)
    if PEEL:
        edge_w = tl.load(weight + edge, mask=is_edge, other=0.0)
        edge_out = _scale(edge_x, scale, edge_w, edge_x.dtype)
        tl.store(y + out_first - head + edge, edge_out, mask=is_edge & (part == 0))


@triton.jit(do_not_specialize=["count"])
def mark_missing(partial, count, MISSING: tl.constexpr, BLOCK: tl.constexpr):
    """Write that nobody has told anything yet."""
    word = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(partial + word, tl.full([BLOCK], MISSING, tl.float32), mask=word < count)
