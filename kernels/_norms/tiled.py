# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
# mypy: disable-error-code="assignment, var-annotated"
# ruff: noqa: ANN001, C901, RET505, RUF005 (arguments have no Python types; branches are constant)
"""Keeps rows in registers as several tiles of half precision: one block per row, or several blocks
that tell each other their sums."""

from __future__ import annotations

import triton
import triton.language as tl

from .._overlap import await_previous
from .._words import add_pairs, opaque, pack, unpack
from . import blocks
from .exchange import await_words
from .rows import _aligned_part, _edge_columns, add_residual, normalise

PAST_L1 = tl.constexpr(blocks.PAST_L1)


@triton.jit
def _again(x, OPAQUE: tl.constexpr):
    """Return ``x``, which the compiler can no longer see to be a value it has converted before: so
    it keeps 16 bits of it over a reduction, and not the 32 that it has been widened to."""
    if OPAQUE:
        x = opaque(x)
    return x


@triton.jit
def _columns_of_part(part, main, COLUMNS: tl.constexpr, CHUNK: tl.constexpr):
    """Return how many columns a part has, the edges of the first one included."""
    inner = tl.maximum(tl.minimum(main - part * CHUNK, CHUNK), 0)
    return inner + tl.where(part == 0, COLUMNS - main, 0)


@triton.jit
def _total_of_part(
    x, residual, first, part, main, tiles, middle,
    CHUNK: tl.constexpr, TILE: tl.constexpr, RESIDUAL: tl.constexpr, SQUARED: tl.constexpr,
):  # fmt: skip
    """Return the sum of a part's values, or of the squares of what they are away from
    ``middle``."""
    total = tl.zeros([TILE], tl.float32)
    for tile in tl.range(tiles):
        local = tile * TILE + tl.arange(0, TILE)
        column = part * CHUNK + local
        mask = (local < CHUNK) & (column < main)
        values = tl.load(x + first + column, mask=mask, other=0.0)
        if RESIDUAL:
            values = add_residual(values, tl.load(residual + first + column, mask=mask, other=0.0))
        wide = values.to(tl.float32)
        if SQUARED:
            wide = tl.where(mask, wide - middle, 0.0)
            wide = wide * wide
        total += wide
        tl.debug_barrier()  # which cannot be copied: the loop stays rolled, in few registers
    return tl.sum(total, axis=0)


@triton.jit
def _statistics_of_part(
    x, residual, first, part, main, edge, is_edge, tiles, COLUMNS: tl.constexpr,
    CHUNK: tl.constexpr, TILE: tl.constexpr, RESIDUAL: tl.constexpr, MEAN: tl.constexpr,
    PEEL: tl.constexpr,
):  # fmt: skip
    """Return the pair that the program of this part would have told, added in the same order."""
    total, middle = 0.0, 0.0
    if MEAN:
        total = _total_of_part(
            x, residual, first, part, main, tiles, 0.0, CHUNK, TILE, RESIDUAL, False
        )
        if PEEL:
            total += tl.sum(tl.where(is_edge & (part == 0), edge, 0.0), axis=0)
        middle = total / tl.maximum(_columns_of_part(part, main, COLUMNS, CHUNK), 1)
    squares = _total_of_part(
        x, residual, first, part, main, tiles, middle, CHUNK, TILE, RESIDUAL, True
    )
    if PEEL:
        off = tl.where(is_edge & (part == 0), edge - middle, 0.0)
        squares += tl.sum(off * off, axis=0)
    if not MEAN:
        total = squares
    return total, squares


@triton.jit
def _told_by_all(
    mine, words, x, residual, part, first, main, edge, is_edge, tiles,
    COLUMNS: tl.constexpr, CHUNK: tl.constexpr, PARTS: tl.constexpr, PADDED: tl.constexpr,
    TILE: tl.constexpr, RESIDUAL: tl.constexpr, MEAN: tl.constexpr, PEEL: tl.constexpr,
    POLLS: tl.constexpr,
):  # fmt: skip
    """Return the row's mean and its squares' sum, from all its programs, always added in the same
    order; this one has told ``mine``."""
    other = tl.arange(0, PADDED)
    seen, missing = await_words(words, PARTS, mine, PADDED, POLLS)
    # Every warp polls for itself; a maximum over the block makes them agree on what follows.
    lane = tl.arange(0, TILE)
    if tl.max(tl.where(lane < CHUNK, missing, 0), axis=0) > 0:
        seen = tl.zeros([PADDED], tl.int64)
        for which in tl.range(PARTS):
            one, two = _statistics_of_part(
                x, residual, first, which, main, edge, is_edge, tiles,
                COLUMNS, CHUNK, TILE, RESIDUAL, MEAN, PEEL,
            )  # fmt: skip
            seen = tl.where(other == which, pack(one, two), seen)
    totals, parts = unpack(seen)
    mean = 0.0
    if MEAN:  # parts' squares are about their own means
        mean = tl.sum(totals, axis=0) / COLUMNS
        counts = _columns_of_part(other, main, COLUMNS, CHUNK)
        off = totals / tl.maximum(counts, 1) - mean
        parts += counts * off * off
    return mean, tl.sum(parts, axis=0)


@triton.jit
def _sum_each(tiles, ROWS: tl.constexpr):
    """Return the sum of each row's tile, of two rows at the same time."""
    if ROWS == 2:
        return tl.reduce((tiles[0], tiles[1]), 0, add_pairs)
    else:
        return (tl.sum(tiles[0], axis=0),)


@triton.jit
def _load_tile(
    vector, part, main, tile: tl.constexpr, CERTAIN: tl.constexpr, CHUNK: tl.constexpr,
    TILE: tl.constexpr, POLICY: tl.constexpr,
):  # fmt: skip
    """Return a tile of the vector, which begins with the row's aligned part."""
    CACHE: tl.constexpr = ".cg" if POLICY == PAST_L1 else ""
    EVICT: tl.constexpr = "" if POLICY == PAST_L1 else POLICY
    local = tile * TILE + tl.arange(0, TILE)
    column = part * CHUNK + local
    if (tile + 1) * TILE <= CERTAIN and (tile + 1) * TILE <= CHUNK:
        values = tl.load(vector + column, eviction_policy=EVICT, cache_modifier=CACHE)
    else:
        mask = (local < CHUNK) & (column < main)
        values = tl.load(
            vector + column, mask=mask, other=0.0, eviction_policy=EVICT, cache_modifier=CACHE
        )
    return values


@triton.jit
def _store_tile(
    vector, values, part, main, tile: tl.constexpr, CERTAIN: tl.constexpr, CHUNK: tl.constexpr,
    TILE: tl.constexpr, POLICY: tl.constexpr,
):  # fmt: skip
    local = tile * TILE + tl.arange(0, TILE)
    column = part * CHUNK + local
    if (tile + 1) * TILE <= CERTAIN and (tile + 1) * TILE <= CHUNK:
        tl.store(vector + column, values, eviction_policy=POLICY)
    else:
        mask = (local < CHUNK) & (column < main)
        tl.store(vector + column, values, mask=mask, eviction_policy=POLICY)


@triton.jit(do_not_specialize=["rows", "tiles"])
def tiled(
    x,
    residual,
    weight,
    bias,
    y,
    total,
    mean,
    rstd,
    words,
    rows,
    tiles,
    eps,
    COLUMNS: tl.constexpr,
    STRIDE: tl.constexpr,
    WIDTH: tl.constexpr,
    CHUNK: tl.constexpr,
    PARTS: tl.constexpr,
    PADDED: tl.constexpr,
    APART: tl.constexpr,
    TILE: tl.constexpr,
    TILES: tl.constexpr,
    ROWS: tl.constexpr,
    SPACING: tl.constexpr,
    VECTOR: tl.constexpr,
    PEEL: tl.constexpr,
    RESIDUAL: tl.constexpr,
    MEAN: tl.constexpr,
    OPAQUE: tl.constexpr,
    EARLY: tl.constexpr,
    POLLS: tl.constexpr,
    OVERLAP: tl.constexpr,
    READ: tl.constexpr,
    WRITE: tl.constexpr,
):
    """Compute ``ROWS`` rows at a time, one or two, with ``PARTS`` programs, every one with
    ``CHUNK`` columns of them in ``TILES`` tiles, read once.

    ``PEEL``: rows start at any element. What lies between multiples of ``VECTOR`` elements is
    read and written 16 bytes wide, the fewer than ``2 × VECTOR`` others one by one by the first
    program; weights come from ``shift_weights``, ``WIDTH`` elements from copy to copy. A program's
    rows are ``SPACING`` apart, so that they lie alike and take the same weights.
    Rows' words are ``APART`` words from each other, so that no line of the cache has those of two.
    ``EARLY``: weights are loaded before the reduction; else, as all biases, a tile before they are
    needed: a compiler moves no load over a store, behind which each would be waited for alone.
    ``MEAN``: layer norm. ``tiles`` is ``TILES``, as a number that the compiler does not know: it
    keeps a loop that hardly ever runs from being unrolled.
    """
    item = tl.program_id(0) // PARTS
    part = tl.program_id(0) % PARTS
    SURE: tl.constexpr = COLUMNS - 2 * (VECTOR - 1) if PEEL else COLUMNS
    CERTAIN: tl.constexpr = SURE // VECTOR * VECTOR - (PARTS - 1) * CHUNK
    row_0 = item
    if ROWS > 1:
        row_0 = item // SPACING * (ROWS * SPACING) + item % SPACING
    row = (row_0,)
    for r in tl.static_range(1, ROWS):  # the first one again in place of those not there
        another = row_0 + r * SPACING
        row = row + (tl.where(another < rows, another, row_0),)
    first = ()
    out_first = ()
    for r in tl.static_range(ROWS):
        if PEEL:
            aligned, _, _ = _aligned_part(row[r], STRIDE, COLUMNS, VECTOR)
            out_aligned, _, _ = _aligned_part(row[r], COLUMNS, COLUMNS, VECTOR)
            first = first + (aligned,)
            out_first = out_first + (out_aligned,)
        else:
            first = first + (tl.cast(row[r], tl.int64) * STRIDE,)
            out_first = out_first + (tl.cast(row[r], tl.int64) * COLUMNS,)
    if PEEL:
        _, head, main = _aligned_part(row_0, STRIDE, COLUMNS, VECTOR)
        w_first = head * WIDTH
        edge, is_edge = _edge_columns(head, main, COLUMNS, VECTOR)
    else:
        main = COLUMNS
        w_first = 0
        is_edge = False
    if EARLY and PEEL:
        await_previous(OVERLAP)
    cached = ()
    weights = ()
    more = ()
    for r in tl.static_range(ROWS):
        for tile in tl.static_range(TILES):
            values = _load_tile(x + first[r], part, main, tile, CERTAIN, CHUNK, TILE, READ)
            cached = cached + (values,)
            if RESIDUAL:
                values = _load_tile(
                    residual + first[r], part, main, tile, CERTAIN, CHUNK, TILE, READ
                )
                more = more + (values,)
            if EARLY and r == 0:
                values = _load_tile(weight + w_first, part, main, tile, CERTAIN, CHUNK, TILE, "")
                weights = weights + (values,)
    edge_x = ()
    edge_wide = ()
    for r in tl.static_range(ROWS):
        wide = 0.0
        if PEEL:
            values = tl.load(x + first[r] - head + edge, mask=is_edge, other=0.0)
            if RESIDUAL:
                others = tl.load(residual + first[r] - head + edge, mask=is_edge, other=0.0)
                values = add_residual(values, others)
            edge_x = edge_x + (values,)
            wide = values.to(tl.float32)
        edge_wide = edge_wide + (wide,)
    if RESIDUAL:  # behind all loads, none of which a compiler moves over a store
        sums = ()
        for r in tl.static_range(ROWS):
            to = total + out_first[r]
            for tile in tl.static_range(TILES):
                values = add_residual(cached[r * TILES + tile], more[r * TILES + tile])
                values = _again(values, OPAQUE)
                _store_tile(to, values, part, main, tile, CERTAIN, CHUNK, TILE, WRITE)
                sums = sums + (values,)
            if PEEL:
                tl.store(to - head + edge, edge_x[r], mask=is_edge & (part == 0))
        cached = sums
    sum_of_values = ()
    middle = ()
    if MEAN:
        found = ()
        for r in tl.static_range(ROWS):
            values_sum = tl.zeros([TILE], tl.float32)
            for tile in tl.static_range(TILES):
                values_sum += _again(cached[r * TILES + tile], OPAQUE).to(tl.float32)
            found = found + (values_sum,)
        found = _sum_each(found, ROWS)
        count = _columns_of_part(part, main, COLUMNS, CHUNK)
        for r in tl.static_range(ROWS):
            one = found[r]
            if PEEL:
                one += tl.sum(tl.where(is_edge & (part == 0), edge_wide[r], 0.0), axis=0)
            sum_of_values = sum_of_values + (one,)
            middle = middle + (one / tl.maximum(count, 1),)
    found = ()
    for r in tl.static_range(ROWS):
        squares = tl.zeros([TILE], tl.float32)
        for tile in tl.static_range(TILES):
            wide = cached[r * TILES + tile].to(tl.float32)
            if MEAN:
                wide = _again(cached[r * TILES + tile], OPAQUE).to(tl.float32) - middle[r]
                local = tile * TILE + tl.arange(0, TILE)
                if (tile + 1) * TILE > CERTAIN or (tile + 1) * TILE > CHUNK:
                    wide = tl.where((local < CHUNK) & (part * CHUNK + local < main), wide, 0.0)
            squares += wide * wide
        found = found + (squares,)
    found = _sum_each(found, ROWS)
    sum_of_squares = ()
    for r in tl.static_range(ROWS):
        one = found[r]
        if PEEL:
            off = edge_wide[r] - middle[r] if MEAN else edge_wide[r]
            off = tl.where(is_edge & (part == 0), off, 0.0)
            one += tl.sum(off * off, axis=0)
        sum_of_squares = sum_of_squares + (one,)
    if PEEL or PARTS > 1:
        await_previous(OVERLAP)
    if PARTS > 1:
        told = ()
        for r in tl.static_range(ROWS):
            mine = pack(sum_of_values[r] if MEAN else sum_of_squares[r], sum_of_squares[r])
            tl.atomic_xchg(words + row[r] * APART + part, mine, sem="relaxed")
            told = told + (mine,)
        middle = ()
        sum_of_squares = ()
        for r in tl.static_range(ROWS):
            one, two = _told_by_all(
                told[r], words + row[r] * APART, x, residual,
                part, first[r], main, edge_wide[r], is_edge, tiles,
                COLUMNS, CHUNK, PARTS, PADDED, TILE, RESIDUAL, MEAN, PEEL, POLLS,
            )  # fmt: skip
            middle = middle + (one,)
            sum_of_squares = sum_of_squares + (two,)
    elif not MEAN:
        middle = (0.0,) * ROWS
    KEPT: tl.constexpr = "evict_last"
    biases = ()
    if not EARLY:
        weights = (_load_tile(weight + w_first, part, main, 0, CERTAIN, CHUNK, TILE, KEPT),)
    if MEAN:
        biases = (_load_tile(bias + w_first, part, main, 0, CERTAIN, CHUNK, TILE, KEPT),)
    if PEEL:
        edge_w = tl.load(weight + edge, mask=is_edge, other=0.0)
        edge_b = edge_w
        if MEAN:
            edge_b = tl.load(bias + edge, mask=is_edge, other=0.0)
    scale = ()
    for r in tl.static_range(ROWS):
        one = tl.rsqrt(sum_of_squares[r] / COLUMNS + eps)
        scale = scale + (one,)
        if MEAN:
            tl.store(mean + row[r], middle[r], mask=part == 0)
            tl.store(rstd + row[r], one, mask=part == 0)
    for tile in tl.static_range(TILES):
        if tile + 1 < TILES:  # before this tile is stored
            if not EARLY:
                w = _load_tile(weight + w_first, part, main, tile + 1, CERTAIN, CHUNK, TILE, KEPT)
                weights = weights + (w,)
            if MEAN:
                b = _load_tile(bias + w_first, part, main, tile + 1, CERTAIN, CHUNK, TILE, KEPT)
                biases = biases + (b,)
        shift = biases[tile] if MEAN else weights[tile]
        for r in tl.static_range(ROWS):
            values = _again(cached[r * TILES + tile], OPAQUE)
            out = normalise(values, middle[r], scale[r], weights[tile], shift, MEAN, values.dtype)
            _store_tile(y + out_first[r], out, part, main, tile, CERTAIN, CHUNK, TILE, WRITE)
    if PEEL:
        for r in tl.static_range(ROWS):
            values = edge_x[r]
            out = normalise(values, middle[r], scale[r], edge_w, edge_b, MEAN, values.dtype)
            tl.store(y + out_first[r] - head + edge, out, mask=is_edge & (part == 0))
