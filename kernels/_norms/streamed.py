# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
# mypy: disable-error-code="assignment, var-annotated, attr-defined"
# ruff: noqa: ANN001, C901, RUF005 (arguments have no Python types; branches are constant)
"""Normalises rows by persistent programs, which fetch the next rows while they normalise these, and
keep the weights in registers."""

from __future__ import annotations

import triton
import triton.language as tl

from .._words import pack, unpack
from .exchange import await_words
from .lanes import has_column, lanes_at, lead_of, load_tiles, own, rows_of, store_tile
from .rows import add_residual, normalise, opaque


@triton.jit
def _columns_of_part(part, lead, COLUMNS: tl.constexpr, CHUNK: tl.constexpr):
    """Return how many columns a program has of each row."""
    stop = tl.minimum((part + 1) * CHUNK, lead + COLUMNS)
    return tl.maximum(stop - tl.maximum(part * CHUNK, lead), 0)


@triton.jit
def _statistics_of_tiles(
    values, part, lead, count, COLUMNS: tl.constexpr, CHUNK: tl.constexpr, ROWS: tl.constexpr,
    TILE: tl.constexpr, TILES: tl.constexpr, SURE: tl.constexpr, PEEL: tl.constexpr,
    MEAN: tl.constexpr,
):  # fmt: skip
    """Return, per row, the sum of ``count`` values and that of their squares about their mean, or
    of the squares alone."""
    total = tl.zeros([ROWS, 1], tl.float32)
    middle = total
    if MEAN:
        sums = tl.zeros([ROWS, TILE], tl.float32)
        for tile in tl.static_range(TILES):
            sums += values[tile].to(tl.float32)
        total = tl.sum(sums, axis=1)[:, None]
        middle = total / count
    squares = tl.zeros([ROWS, TILE], tl.float32)
    for tile in tl.static_range(TILES):
        wide = values[tile].to(tl.float32)
        if MEAN:
            wide -= middle
            if (PEEL and tile == 0) or (tile + 1) * TILE > SURE or (tile + 1) * TILE > CHUNK:
                valid = has_column(part, lead, tile, COLUMNS, CHUNK, TILE)
                wide = tl.where(valid, wide, 0.0)
        squares += wide * wide
    return total, tl.sum(squares, axis=1)[:, None]


@triton.jit
def _word_of_part(
    x, residual, source, part, lead, tiles, COLUMNS: tl.constexpr, CHUNK: tl.constexpr,
    TILE: tl.constexpr, RESIDUAL: tl.constexpr, MEAN: tl.constexpr,
):  # fmt: skip
    """Return the word that the program of this part would have told, added in the same order."""
    total = 0.0
    middle = 0.0
    squares = 0.0
    for sweep in tl.static_range(2 if MEAN else 1):
        sums = tl.zeros([1, TILE], tl.float32)
        for tile in tl.range(tiles):
            local = tile * TILE + tl.arange(0, TILE)[None, :]
            lane = part * CHUNK + local
            valid = (local < CHUNK) & (lane >= lead) & (lane < lead + COLUMNS)
            values = tl.load(x + source + lane, mask=valid, other=0.0)
            if RESIDUAL:
                more = tl.load(residual + source + lane, mask=valid, other=0.0)
                values = add_residual(values, more)
            wide = values.to(tl.float32)
            if not MEAN:
                sums += wide * wide
            elif sweep == 0:
                sums += wide
            else:
                wide = tl.where(valid, wide - middle, 0.0)
                sums += wide * wide
        squares = tl.sum(tl.sum(sums, axis=1), axis=0)
        if MEAN and sweep == 0:
            total = squares
            middle = total / tl.maximum(_columns_of_part(part, lead, COLUMNS, CHUNK), 1)
    if not MEAN:
        total = squares
    return pack(total, squares)


@triton.jit
def _told_by_all(
    mine, x, residual, words, first_row, source, lead, tiles, parts, COLUMNS: tl.constexpr,
    CHUNK: tl.constexpr, PARTS: tl.constexpr, PADDED: tl.constexpr, TILE: tl.constexpr,
    RESIDUAL: tl.constexpr, MEAN: tl.constexpr, POLLS: tl.constexpr,
):  # fmt: skip
    """Return a row's mean and its squares' sum, from the words of all its programs."""
    other = tl.arange(0, PADDED)
    told = words + tl.cast(first_row, tl.int64) * PARTS
    seen, missing = await_words(told, parts, mine, PADDED, POLLS)
    # Every warp polls for itself; a maximum over the block makes them agree.
    everywhere = tl.arange(0, TILE) + PARTS > 0
    if tl.max(tl.where(everywhere, missing, 0), axis=0) > 0:
        seen = tl.zeros([PADDED], tl.int64)
        for which in tl.range(PARTS):
            word = _word_of_part(
                x, residual, source, which, lead, tiles, COLUMNS, CHUNK, TILE, RESIDUAL, MEAN
            )
            seen = tl.where(other == which, word, seen)
    totals, parts_squares = unpack(seen)
    mean = 0.0
    if MEAN:  # parts' squares are about their own means
        mean = tl.sum(totals, axis=0) / COLUMNS
        counts = _columns_of_part(other, lead, COLUMNS, CHUNK)
        off = totals / tl.maximum(counts, 1) - mean
        parts_squares += tl.where(counts > 0, counts * off * off, 0.0)
    return mean, tl.sum(parts_squares, axis=0)


@triton.jit(do_not_specialize=["rows", "tiles"])
def normal_rows(
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
    CHUNK: tl.constexpr,
    GROUPS: tl.constexpr,
    FIRST: tl.constexpr,
    PARTS: tl.constexpr,
    PADDED: tl.constexpr,
    TILE: tl.constexpr,
    TILES: tl.constexpr,
    ROWS: tl.constexpr,
    SPACING: tl.constexpr,
    VECTOR: tl.constexpr,
    PEEL: tl.constexpr,
    STAGES: tl.constexpr,
    RESIDUAL: tl.constexpr,
    MEAN: tl.constexpr,
    OPAQUE: tl.constexpr,
    POLLS: tl.constexpr,
    READ: tl.constexpr,
    WRITE: tl.constexpr,
):
    """Compute rows as ``gradient_rows`` does: ``PARTS`` programs each, with ``CHUNK`` lanes in
    ``TILES`` tiles of ``ROWS`` rows, which finish a row behind where there are several."""
    group = FIRST + tl.program_id(0) // PARTS
    part = tl.program_id(0) % PARTS
    lead, end = lead_of(group, COLUMNS, STRIDE, SPACING, VECTOR, PEEL)
    SURE: tl.constexpr = COLUMNS - (PARTS - 1) * CHUNK
    count = tl.maximum(_columns_of_part(part, lead, COLUMNS, CHUNK), 1)
    if PARTS == 1:
        count = COLUMNS
    weights = ()
    biases = ()
    last = ()
    for tile in tl.static_range(TILES):
        lane = part * CHUNK + tile * TILE + tl.arange(0, TILE)[None, :]
        valid = has_column(part, lead, tile, COLUMNS, CHUNK, TILE)
        weights = weights + (tl.load(weight + lane - lead, mask=valid, other=0.0),)
        if MEAN:
            biases = biases + (tl.load(bias + lane - lead, mask=valid, other=0.0),)
        if PARTS > 1:
            last = last + (tl.zeros([ROWS, TILE], x.dtype.element_ty),)
    items = SPACING * tl.cdiv(tl.cdiv(rows, SPACING), ROWS)
    drained = items + GROUPS if PARTS > 1 else items
    for item in tl.range(group, drained, GROUPS, num_stages=STAGES):
        first_row, row, present = rows_of(item, rows, ROWS, SPACING)
        at = lanes_at(first_row, part, STRIDE, CHUNK, TILE, ROWS, SPACING, VECTOR, PEEL)
        to = lanes_at(first_row, part, COLUMNS, CHUNK, TILE, ROWS, SPACING, VECTOR, PEEL)
        values = load_tiles(x + at, present, part, end, CHUNK, TILE, TILES, SURE, READ)
        if RESIDUAL:
            more = load_tiles(residual + at, present, part, end, CHUNK, TILE, TILES, SURE, READ)
            added = ()
            for tile in tl.static_range(TILES):
                value = add_residual(values[tile], more[tile])
                added = added + (value,)
                store_tile(
                    total + to, value, present, part, lead, tile,
                    COLUMNS, CHUNK, TILE, SURE, VECTOR, PEEL, WRITE,
                )  # fmt: skip
            values = added
        kept = ()
        for tile in tl.static_range(TILES):
            value = own(values[tile], part, lead, tile, COLUMNS, CHUNK, TILE, SURE, PEEL)
            kept = kept + (value,)
        first, squares = _statistics_of_tiles(
            kept, part, lead, count, COLUMNS, CHUNK, ROWS, TILE, TILES, SURE, PEEL, MEAN
        )
        middle = first / COLUMNS
        done = present
        if PARTS > 1:
            mine_first = tl.sum(tl.sum(first if MEAN else squares, axis=1), axis=0)
            mine = pack(mine_first, tl.sum(tl.sum(squares, axis=1), axis=0))
            told = words + tl.cast(first_row, tl.int64) * PARTS + part
            tl.atomic_xchg(told, mine, mask=first_row < rows, sem="relaxed")
            done_row, row, done = rows_of(tl.maximum(item - GROUPS, 0), rows, ROWS, SPACING)
            done = done & (item >= GROUPS)
            there = (item >= GROUPS) & (done_row < rows)
            source = tl.cast(done_row, tl.int64) * STRIDE
            if PEEL:
                source = source // VECTOR * VECTOR
            middle, squares = _told_by_all(
                mine, x, residual, words, done_row, source, lead, tiles,
                tl.where(there, PARTS, 0), COLUMNS, CHUNK, PARTS, PADDED, TILE, RESIDUAL, MEAN,
                POLLS,
            )  # fmt: skip
            to = lanes_at(done_row, part, COLUMNS, CHUNK, TILE, ROWS, SPACING, VECTOR, PEEL)
            ready = last
            last = kept
        else:
            ready = kept
        scale = tl.rsqrt(squares / COLUMNS + eps)
        if MEAN:
            first_part = done & (part == 0)
            tl.store(mean + row, middle, mask=first_part)
            tl.store(rstd + row, scale, mask=first_part)
        for tile in tl.static_range(TILES):
            value = ready[tile]
            if PARTS > 1:
                value = opaque(value, OPAQUE)
            w = opaque(weights[tile], OPAQUE)  # not widened once for all rows
            b = opaque(biases[tile], OPAQUE) if MEAN else w
            out = normalise(value, middle, scale, w, b, MEAN, x.dtype.element_ty)
            store_tile(
                y + to, out, done, part, lead, tile,
                COLUMNS, CHUNK, TILE, SURE, VECTOR, PEEL, WRITE,
            )  # fmt: skip
