# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
# mypy: disable-error-code="assignment, var-annotated, attr-defined"
# ruff: noqa: ANN001, C901, RET505, RUF005 (arguments have no Python types; branches are constant)
"""Computes the gradients of norms: in one pass by persistent programs, or in two launches.

With n the normalised input and g = dy · w, all need two sums of each row. RMS norm, of which
nothing is saved: Σ x² and Σ g · x. Layer norm, whose mean and 1 / deviation come from the forward
pass: Σ g and Σ g · n. Then dx = (g − offset − n · slope) · scale, dw = Σ_rows dy · n and, for layer
norm, db = Σ_rows dy.
"""

from __future__ import annotations

import triton
import triton.language as tl

from .._words import pack, unpack
from .exchange import await_words
from .lanes import has_column, lanes_at, lead_of, load_tiles, own, rows_of, store_tile
from .rows import opaque


@triton.jit
def _normal(x, mean, scale, MEAN: tl.constexpr):
    wide = x.to(tl.float32)
    if MEAN:
        return (wide - mean) * scale
    else:
        return wide * scale


@triton.jit
def _pair(x, dy, weight, mean, rstd, MEAN: tl.constexpr):
    """Return what an element adds to its row's two sums."""
    wide = x.to(tl.float32)
    g = dy.to(tl.float32) * weight.to(tl.float32)
    if MEAN:
        return g, g * ((wide - mean) * rstd)
    else:
        return wide * wide, g * wide


@triton.jit
def _terms(first, second, rstd, eps, COLUMNS: tl.constexpr, MEAN: tl.constexpr):
    """Return scale, offset and slope of rows whose sums are known. No power of the scale is formed,
    which would leave fp32's range before the result does."""
    if MEAN:
        return rstd, first / COLUMNS, second / COLUMNS
    else:
        scale = tl.rsqrt(first / COLUMNS + eps)
        return scale, 0.0, second * scale / COLUMNS


@triton.jit
def _statistics(mean, rstd, row, present, MEAN: tl.constexpr):
    """Return what the forward pass saved of these rows."""
    if MEAN:
        return tl.load(mean + row, mask=present, other=0.0), tl.load(
            rstd + row, mask=present, other=0.0
        )
    else:
        return 0.0, 0.0


@triton.jit
def _pair_of_part(
    x, dy, weight, source, mean, rstd, part, lead, end, tiles,
    COLUMNS: tl.constexpr, CHUNK: tl.constexpr, TILE: tl.constexpr, MEAN: tl.constexpr,
):  # fmt: skip
    """Return the pair that the program of this part would have told, added in the same order."""
    one = tl.zeros([1, TILE], tl.float32)
    two = tl.zeros([1, TILE], tl.float32)
    for tile in tl.range(tiles):
        local = tile * TILE + tl.arange(0, TILE)[None, :]
        lane = part * CHUNK + local
        valid = (local < CHUNK) & (lane >= lead) & (lane < lead + COLUMNS)
        first, second = _pair(
            tl.load(x + source + lane, mask=valid, other=0.0),
            tl.load(dy + source + lane, mask=valid, other=0.0),
            tl.load(weight + lane - lead, mask=valid, other=0.0),
            mean, rstd, MEAN,
        )  # fmt: skip
        one += first
        two += second
    return tl.sum(tl.sum(one, axis=1), axis=0), tl.sum(tl.sum(two, axis=1), axis=0)


@triton.jit
def _told_by_all(
    mine, x, dy, weight, words, first_row, source, mean, rstd, lead, end, tiles, parts,
    COLUMNS: tl.constexpr, CHUNK: tl.constexpr, PARTS: tl.constexpr, PADDED: tl.constexpr,
    TILE: tl.constexpr, MEAN: tl.constexpr, POLLS: tl.constexpr,
):  # fmt: skip
    """Return a row's two sums, from the words of all its programs."""
    told = words + tl.cast(first_row, tl.int64) * PARTS
    seen, missing = await_words(told, parts, mine, PADDED, POLLS)
    # Every warp polls for itself; a maximum over the block makes them agree.
    everywhere = tl.arange(0, TILE) + PARTS > 0
    if tl.max(tl.where(everywhere, missing, 0), axis=0) > 0:
        other = tl.arange(0, PADDED)
        seen = tl.zeros([PADDED], tl.int64)
        for which in tl.range(PARTS):
            a, b = _pair_of_part(
                x, dy, weight, source, mean, rstd, which, lead, end, tiles,
                COLUMNS, CHUNK, TILE, MEAN,
            )  # fmt: skip
            seen = tl.where(other == which, pack(a, b), seen)
    firsts, seconds = unpack(seen)
    return tl.sum(firsts, axis=0), tl.sum(seconds, axis=0)


@triton.jit
def _finish_rows(
    xs, dys, more, weights, sums, biases, to, present, part, lead, mean, scale, shift, slope,
    COLUMNS: tl.constexpr, CHUNK: tl.constexpr, TILE: tl.constexpr, TILES: tl.constexpr,
    SURE: tl.constexpr, VECTOR: tl.constexpr, PEEL: tl.constexpr, RESIDUAL: tl.constexpr,
    MEAN: tl.constexpr, OPAQUE: tl.constexpr, WRITE: tl.constexpr,
):  # fmt: skip
    """Write dx of rows whose sums are known, and return the columns' sums with them."""
    new_sums = ()
    new_biases = ()
    for tile in tl.static_range(TILES):
        x_tile = opaque(xs[tile], OPAQUE)
        gradient = opaque(dys[tile], OPAQUE).to(tl.float32)
        normal = _normal(x_tile, mean, scale, MEAN)
        new_sums = new_sums + (sums[tile] + tl.where(present, gradient * normal, 0.0),)
        if MEAN:
            new_biases = new_biases + (biases[tile] + gradient,)
        w = opaque(weights[tile], OPAQUE).to(tl.float32)
        out = (gradient * w - shift - normal * slope) * scale
        if RESIDUAL:
            out += more[tile].to(tl.float32)
        store_tile(
            to, out.to(x_tile.dtype), present, part, lead, tile,
            COLUMNS, CHUNK, TILE, SURE, VECTOR, PEEL, WRITE,
        )  # fmt: skip
    return new_sums, new_biases


@triton.jit(do_not_specialize=["rows", "tiles"])
def gradient_rows(
    x,
    dy,
    dsum,
    weight,
    mean,
    rstd,
    dx,
    partial,
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
    """Compute all gradients in one pass: ``PARTS`` persistent programs per row, each with ``CHUNK``
    lanes in ``TILES`` tiles of ``ROWS`` rows (see ``lanes``), add up the weight's gradient over all
    of their rows and write one partial sum.

    Several programs of a row are a row behind: each tells its sums of a row, then finishes the row
    before, whose sums the others told while it read this one. ``tiles`` is ``TILES``, as a number
    that the compiler does not know.
    """
    group = FIRST + tl.program_id(0) // PARTS
    part = tl.program_id(0) % PARTS
    lead, end = lead_of(group, COLUMNS, STRIDE, SPACING, VECTOR, PEEL)
    SURE: tl.constexpr = COLUMNS - (PARTS - 1) * CHUNK
    weights = ()
    sums = ()
    last_x = ()
    last_dy = ()
    for tile in tl.static_range(TILES):
        lane = part * CHUNK + tile * TILE + tl.arange(0, TILE)[None, :]
        valid = has_column(part, lead, tile, COLUMNS, CHUNK, TILE)
        weights = weights + (tl.load(weight + lane - lead, mask=valid, other=0.0),)
        sums = sums + (tl.zeros([ROWS, TILE], tl.float32),)
        if PARTS > 1:
            last_x = last_x + (tl.zeros([ROWS, TILE], x.dtype.element_ty),)
            last_dy = last_dy + (tl.zeros([ROWS, TILE], x.dtype.element_ty),)
    biases = sums if MEAN else ()
    last_mu = tl.zeros([ROWS, 1], tl.float32)
    last_sigma = tl.zeros([ROWS, 1], tl.float32)
    items = SPACING * tl.cdiv(tl.cdiv(rows, SPACING), ROWS)
    drained = items + GROUPS if PARTS > 1 else items
    for item in tl.range(group, drained, GROUPS, num_stages=STAGES):
        first_row, row, present = rows_of(item, rows, ROWS, SPACING)
        at = lanes_at(first_row, part, STRIDE, CHUNK, TILE, ROWS, SPACING, VECTOR, PEEL)
        mu, sigma = _statistics(mean, rstd, row, present, MEAN)
        xs = load_tiles(x + at, present, part, end, CHUNK, TILE, TILES, SURE, READ)
        dys = load_tiles(dy + at, present, part, end, CHUNK, TILE, TILES, SURE, READ)
        done_row = first_row
        done = present
        if PARTS > 1:
            done_row, _, done = rows_of(tl.maximum(item - GROUPS, 0), rows, ROWS, SPACING)
            done = done & (item >= GROUPS)
        to = lanes_at(done_row, part, COLUMNS, CHUNK, TILE, ROWS, SPACING, VECTOR, PEEL)
        more = ()
        if RESIDUAL:
            at = lanes_at(done_row, part, STRIDE, CHUNK, TILE, ROWS, SPACING, VECTOR, PEEL)
            more = load_tiles(dsum + at, done, part, end, CHUNK, TILE, TILES, SURE, READ)
        one = tl.zeros([ROWS, TILE], tl.float32)
        two = tl.zeros([ROWS, TILE], tl.float32)
        kept_x = ()
        kept_dy = ()
        for tile in tl.static_range(TILES):
            x_tile = own(xs[tile], part, lead, tile, COLUMNS, CHUNK, TILE, SURE, PEEL)
            dy_tile = own(dys[tile], part, lead, tile, COLUMNS, CHUNK, TILE, SURE, PEEL)
            w = opaque(weights[tile], OPAQUE)  # not widened once for all rows
            first, second = _pair(x_tile, dy_tile, w, mu, sigma, MEAN)
            one += first
            two += second
            kept_x = kept_x + (x_tile,)
            kept_dy = kept_dy + (dy_tile,)
        if PARTS > 1:
            mine = pack(tl.sum(tl.sum(one, axis=1), axis=0), tl.sum(tl.sum(two, axis=1), axis=0))
            told = words + tl.cast(first_row, tl.int64) * PARTS + part
            tl.atomic_xchg(told, mine, mask=first_row < rows, sem="relaxed")
            there = (item >= GROUPS) & (done_row < rows)
            source = tl.cast(done_row, tl.int64) * STRIDE
            if PEEL:
                source = source // VECTOR * VECTOR
            first_sum, second_sum = _told_by_all(
                mine, x, dy, weight, words, done_row, source, last_mu, last_sigma, lead, end,
                tiles, tl.where(there, PARTS, 0), COLUMNS, CHUNK, PARTS, PADDED, TILE, MEAN, POLLS,
            )  # fmt: skip
            scale, shift, slope = _terms(first_sum, second_sum, last_sigma, eps, COLUMNS, MEAN)
            sums, biases = _finish_rows(
                last_x, last_dy, more, weights, sums, biases, dx + to, done, part, lead, last_mu,
                scale, shift, slope, COLUMNS, CHUNK, TILE, TILES, SURE, VECTOR, PEEL, RESIDUAL,
                MEAN, OPAQUE, WRITE,
            )  # fmt: skip
            last_x = kept_x
            last_dy = kept_dy
            if MEAN:
                last_mu = mu
                last_sigma = sigma
        else:
            first_sum = tl.sum(one, axis=1)[:, None]
            second_sum = tl.sum(two, axis=1)[:, None]
            scale, shift, slope = _terms(first_sum, second_sum, sigma, eps, COLUMNS, MEAN)
            sums, biases = _finish_rows(
                kept_x, kept_dy, more, weights, sums, biases, dx + to, present, part, lead, mu,
                scale, shift, slope, COLUMNS, CHUNK, TILE, TILES, SURE, VECTOR, PEEL, RESIDUAL,
                MEAN, OPAQUE, WRITE,
            )  # fmt: skip
    for tile in tl.static_range(TILES):
        local = tile * TILE + tl.arange(0, TILE)
        lane = part * CHUNK + local
        valid = (local < CHUNK) & (lane >= lead) & (lane < lead + COLUMNS)
        to = partial + tl.cast(group, tl.int64) * COLUMNS + lane - lead
        tl.store(to, tl.sum(sums[tile], axis=0), mask=valid)
        if MEAN:
            to += tl.cast(GROUPS, tl.int64) * COLUMNS
            tl.store(to, tl.sum(biases[tile], axis=0), mask=valid)


@triton.jit(do_not_specialize=["rows"])
def gradient_sums(
    x,
    dy,
    weight,
    mean,
    rstd,
    words,
    rows,
    COLUMNS: tl.constexpr,
    STRIDE: tl.constexpr,
    CHUNK: tl.constexpr,
    PARTS: tl.constexpr,
    TILE: tl.constexpr,
    MEAN: tl.constexpr,
):
    """Write the two sums of ``CHUNK`` columns of a row, as one word."""
    row = tl.program_id(0) // PARTS
    part = tl.program_id(0) % PARTS
    source = tl.cast(row, tl.int64) * STRIDE
    mu, sigma = _statistics(mean, rstd, row, row < rows, MEAN)
    one = tl.zeros([TILE], tl.float32)
    two = tl.zeros([TILE], tl.float32)
    for start in tl.range(0, CHUNK, TILE):
        local = start + tl.arange(0, TILE)
        column = part * CHUNK + local
        mask = (local < CHUNK) & (column < COLUMNS)
        first, second = _pair(
            tl.load(x + source + column, mask=mask, other=0.0, eviction_policy="evict_last"),
            tl.load(dy + source + column, mask=mask, other=0.0, eviction_policy="evict_last"),
            tl.load(weight + column, mask=mask, other=0.0, eviction_policy="evict_last"),
            mu, sigma, MEAN,
        )  # fmt: skip
        one += first
        two += second
    word = pack(tl.sum(one, axis=0), tl.sum(two, axis=0))
    tl.store(words + tl.cast(row, tl.int64) * PARTS + part, word)


@triton.jit(do_not_specialize=["rows"])
def gradient_columns(
    x,
    dy,
    dsum,
    weight,
    mean,
    rstd,
    dx,
    dw,
    db,
    partial,
    words,
    rows,
    eps,
    COLUMNS: tl.constexpr,
    STRIDE: tl.constexpr,
    PARTS: tl.constexpr,
    PADDED: tl.constexpr,
    TILE: tl.constexpr,
    ROWS: tl.constexpr,
    STAGES: tl.constexpr,
    RESIDUAL: tl.constexpr,
    MEAN: tl.constexpr,
    FINAL: tl.constexpr,
):
    """Compute ``TILE`` columns of all gradients from the words of ``gradient_sums``: of all rows
    with ``FINAL``, else of one split of them, in tiles of ``ROWS``."""
    split, splits = tl.program_id(1), tl.num_programs(1)
    column = tl.program_id(0) * TILE + tl.arange(0, TILE)[None, :]
    which = tl.arange(0, PADDED)[None, :]
    w = tl.load(weight + column, mask=column < COLUMNS, other=0.0)
    dws = tl.zeros([ROWS, TILE], tl.float32)
    dbs = tl.zeros([ROWS, TILE], tl.float32)
    for tile in tl.range(split, tl.cdiv(rows, ROWS), splits, num_stages=STAGES):
        row = tl.cast(tile, tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
        present = row < rows
        inside = present & (column < COLUMNS)
        x_tile = tl.load(x + row * STRIDE + column, mask=inside, other=0.0)
        dy_tile = tl.load(dy + row * STRIDE + column, mask=inside, other=0.0)
        mu, sigma = _statistics(mean, rstd, row, present, MEAN)
        told = tl.load(words + row * PARTS + which, mask=present & (which < PARTS), other=0)
        firsts, seconds = unpack(told)
        scale, shift, slope = _terms(
            tl.sum(firsts, axis=1)[:, None], tl.sum(seconds, axis=1)[:, None], sigma, eps,
            COLUMNS, MEAN,
        )  # fmt: skip
        gradient = dy_tile.to(tl.float32)
        normal = _normal(x_tile, mu, scale, MEAN)
        dws += tl.where(present, gradient * normal, 0.0)
        if MEAN:
            dbs += gradient
        out = (gradient * w.to(tl.float32) - shift - normal * slope) * scale
        if RESIDUAL:
            out += tl.load(dsum + row * STRIDE + column, mask=inside, other=0.0).to(tl.float32)
        tl.store(dx + row * COLUMNS + column, out.to(x_tile.dtype), mask=inside)
    kept = tl.program_id(0) * TILE + tl.arange(0, TILE)
    if FINAL:
        tl.store(dw + kept, tl.sum(dws, axis=0).to(dw.dtype.element_ty), mask=kept < COLUMNS)
        if MEAN:
            tl.store(db + kept, tl.sum(dbs, axis=0).to(db.dtype.element_ty), mask=kept < COLUMNS)
    else:
        to = partial + tl.cast(split, tl.int64) * COLUMNS + kept
        tl.store(to, tl.sum(dws, axis=0), mask=kept < COLUMNS)
        if MEAN:
            to += tl.cast(splits, tl.int64) * COLUMNS
            tl.store(to, tl.sum(dbs, axis=0), mask=kept < COLUMNS)


@triton.jit(do_not_specialize=["count"])
def sum_partials(
    partial,
    dw,
    db,
    count,
    COLUMNS: tl.constexpr,
    BLOCK: tl.constexpr,
    ROWS: tl.constexpr,
    MEAN: tl.constexpr,
):
    """Add ``count`` partial sums of the weight's gradient in a fixed order; of the bias's, which
    lie behind them, in the grid's second row."""
    of_bias = tl.program_id(1)
    row = tl.arange(0, ROWS)[:, None]
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[None, :]
    source = partial + tl.cast(of_bias, tl.int64) * count * COLUMNS
    sums = tl.zeros([ROWS, BLOCK], tl.float32)
    for first in tl.range(0, count, ROWS):
        inside = (first + row < count) & (column < COLUMNS)
        at = tl.cast(first + row, tl.int64) * COLUMNS + column
        sums += tl.load(source + at, mask=inside, other=0.0)
    kept = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    out = tl.sum(sums, axis=0).to(dw.dtype.element_ty)
    if MEAN:
        tl.store(db + kept, out, mask=(kept < COLUMNS) & (of_bias == 1))
    tl.store(dw + kept, out, mask=(kept < COLUMNS) & (of_bias == 0))
