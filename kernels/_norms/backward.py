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

from .._overlap import await_previous, start_next
from .._words import opaque, pack, unpack
from .exchange import MISSING, await_words
from .lanes import (
    element_of,
    has_column,
    lead_of,
    load_tile,
    load_tiles,
    load_weights,
    own,
    rows_at,
    rows_of,
    side_by_side,
    store_tile,
)


@triton.jit
def _add_pairs(a, b, c, d):
    return a + c, b + d


@triton.jit
def _add_told(a, b, missing, c, d, others_missing):
    return a + c, b + d, missing + others_missing


@triton.jit
def _pair(x, g, mean, MEAN: tl.constexpr):
    """Return what an element adds to its row's two sums."""
    if MEAN:
        return g, g * (x - mean)
    else:
        return x * x, g * x


@triton.jit
def _terms(first, second, rstd, eps, present, COLUMNS: tl.constexpr, MEAN: tl.constexpr):
    """Return scale, shift and slope of rows whose sums are known: dx is g · scale + n · slope +
    shift. No power of the scale is formed, which would leave fp32's range before the result does.
    The scale of rows that are not there is 0, as their zeros have no sums."""
    if MEAN:
        return rstd, -(first / COLUMNS) * rstd, -(second * rstd / COLUMNS) * rstd
    else:
        scale = tl.where(present, tl.rsqrt(first / COLUMNS + eps), 0.0)
        return scale, 0.0, -(second * scale / COLUMNS) * scale


@triton.jit
def _normal(x, mean, scale, MEAN: tl.constexpr, HALVES: tl.constexpr):
    """Return the normalised input, in one instruction where the input itself is rounded more than
    the product of mean and scale."""
    if MEAN and HALVES == 2:
        return tl.fma(x, scale, -mean * scale)
    elif MEAN:
        return (x - mean) * scale
    else:
        return x * scale


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
def _add_tile(
    one, two, x, dy, w, mean, MEAN: tl.constexpr, KIND: tl.constexpr, HALVES: tl.constexpr
):  # fmt: skip
    """Add a tile's elements to its row's two sums."""
    for half in tl.static_range(HALVES):
        g = element_of(dy, half, KIND, HALVES) * element_of(w, half, KIND, HALVES)
        first, second = _pair(element_of(x, half, KIND, HALVES), g, mean, MEAN)
        one += first
        two += second
    return one, two


@triton.jit
def _sum_pairs(one, two):
    one, two = tl.reduce((one, two), 1, _add_pairs)
    return tl.sum(one, axis=0), tl.sum(two, axis=0)


@triton.jit
def _sums_of_part(
    x, dy, weight, row, part, mean, lead, end, tiles,
    COLUMNS: tl.constexpr, STRIDE: tl.constexpr, CHUNK: tl.constexpr, TILE: tl.constexpr,
    SPACING: tl.constexpr, VECTOR: tl.constexpr, PEEL: tl.constexpr, MEAN: tl.constexpr,
    HALVES: tl.constexpr,
):  # fmt: skip
    """Return the pair that the program of this part would have told, added in the same order."""
    KIND: tl.constexpr = x.dtype.element_ty
    x_at = rows_at(x, row, STRIDE, 1, SPACING, VECTOR, PEEL, HALVES)
    dy_at = rows_at(dy, row, STRIDE, 1, SPACING, VECTOR, PEEL, HALVES)
    one = tl.zeros([1, TILE // HALVES], tl.float32)
    two = tl.zeros([1, TILE // HALVES], tl.float32)
    for tile in tl.range(tiles):
        x_tile = load_tile(x_at, True, part, end, tile, CHUNK, TILE, HALVES, "", True)
        dy_tile = load_tile(dy_at, True, part, end, tile, CHUNK, TILE, HALVES, "", True)
        one, two = _add_tile(
            one, two,
            own(x_tile, part, lead, tile, COLUMNS, CHUNK, TILE, PEEL, HALVES, True),
            own(dy_tile, part, lead, tile, COLUMNS, CHUNK, TILE, PEEL, HALVES, True),
            load_weights(weight, part, lead, tile, COLUMNS, CHUNK, TILE, PEEL, HALVES),
            mean, MEAN, KIND, HALVES,
        )  # fmt: skip
    return _sum_pairs(one, two)


@triton.jit
def _told_by_all(
    seen, mine, x, dy, weight, words, row, mean, lead, end, tiles, parts,
    COLUMNS: tl.constexpr, STRIDE: tl.constexpr, CHUNK: tl.constexpr, PARTS: tl.constexpr,
    SPAN: tl.constexpr, TILE: tl.constexpr, SPACING: tl.constexpr, VECTOR: tl.constexpr,
    PEEL: tl.constexpr, MEAN: tl.constexpr, HALVES: tl.constexpr, POLLS: tl.constexpr,
):  # fmt: skip
    """Return a row's two sums, from the words of all its programs, as they were ``seen`` before.
    Those that are missing are counted with the sums, so that all warps agree on what follows."""
    firsts, seconds = unpack(seen)
    first, second, missing = tl.reduce(
        (firsts, seconds, (seen == MISSING).to(tl.int32)), 0, _add_told
    )
    if missing > 0:
        told = words + tl.cast(row, tl.int64) * PARTS
        seen, _ = await_words(told, parts, mine, SPAN, POLLS)
        firsts, seconds = unpack(seen)
        first, second, missing = tl.reduce(
            (firsts, seconds, (seen == MISSING).to(tl.int32)), 0, _add_told
        )
        if missing > 0:
            other = tl.arange(0, SPAN)
            seen = tl.zeros([SPAN], tl.int64)
            middle = tl.sum(tl.sum(mean, axis=1), axis=0)
            for which in tl.range(PARTS):
                one, two = _sums_of_part(
                    x, dy, weight, row, which, middle, lead, end, tiles,
                    COLUMNS, STRIDE, CHUNK, TILE, SPACING, VECTOR, PEEL, MEAN, HALVES,
                )  # fmt: skip
                seen = tl.where(other == which, pack(one, two), seen)
            firsts, seconds = unpack(seen)
            first, second = tl.reduce((firsts, seconds), 0, _add_pairs)
    return first, second


@triton.jit
def _finish_rows(
    xs, dys, more, weights, sums, biases, dx, row, present, part, lead, mean, scale, shift, slope,
    COLUMNS: tl.constexpr, CHUNK: tl.constexpr, TILE: tl.constexpr, TILES: tl.constexpr,
    SURE: tl.constexpr, ROWS: tl.constexpr, SPACING: tl.constexpr, VECTOR: tl.constexpr,
    PEEL: tl.constexpr, RESIDUAL: tl.constexpr, MEAN: tl.constexpr, HALVES: tl.constexpr,
    OPAQUE: tl.constexpr, HIDDEN: tl.constexpr, WRITE: tl.constexpr,
):  # fmt: skip
    """Write dx of rows whose sums are known, and return the columns' sums with them. ``HIDDEN``:
    tiles are widened again, not kept as they were widened for the sums, nor weights from row to
    row."""
    KIND: tl.constexpr = dx.dtype.element_ty
    to = rows_at(dx, row, COLUMNS, ROWS, SPACING, VECTOR, PEEL, HALVES)
    ends = rows_at(dx, row, COLUMNS, ROWS, SPACING, VECTOR, PEEL, 1)
    new_sums = ()
    new_biases = ()
    for tile in tl.static_range(TILES):
        x = xs[tile]
        dy = dys[tile]
        if HIDDEN:
            x = opaque(x)
            dy = opaque(dy)
        w = opaque(weights[tile]) if HIDDEN or (OPAQUE and PEEL) else weights[tile]
        out = ()
        for half in tl.static_range(HALVES):
            gradient = element_of(dy, half, KIND, HALVES)
            normal = _normal(element_of(x, half, KIND, HALVES), mean, scale, MEAN, HALVES)
            new_sums = new_sums + (tl.fma(gradient, normal, sums[tile * HALVES + half]),)
            if MEAN:
                new_biases = new_biases + (biases[tile * HALVES + half] + gradient,)
            g = gradient * element_of(w, half, KIND, HALVES)
            found = tl.fma(normal, slope, tl.fma(g, scale, shift) if MEAN else g * scale)
            if RESIDUAL:
                found += element_of(more[tile], half, KIND, HALVES)
            out = out + (found,)
        store_tile(
            to, ends, out, present, part, lead, tile,
            COLUMNS, CHUNK, TILE, SURE, ROWS, VECTOR, PEEL, HALVES, KIND, OPAQUE, WRITE,
        )  # fmt: skip
    return new_sums, new_biases


@triton.jit
def _store_partial(
    partial, sums, part, lead, COLUMNS: tl.constexpr, CHUNK: tl.constexpr, TILE: tl.constexpr,
    TILES: tl.constexpr, ROWS: tl.constexpr, HALVES: tl.constexpr,
):  # fmt: skip
    """Write a program's sums of its columns."""
    for tile in tl.static_range(TILES):
        found = sums[tile * HALVES]
        if HALVES == 2:
            found = side_by_side(sums[tile * 2], sums[tile * 2 + 1], ROWS, TILE)
        local = tile * TILE + tl.arange(0, TILE)
        inside = has_column(part, lead, local, COLUMNS, CHUNK)
        tl.store(partial + (part * CHUNK + local - lead), tl.sum(found, axis=0), mask=inside)


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
    SPAN: tl.constexpr,
    TILE: tl.constexpr,
    TILES: tl.constexpr,
    ROWS: tl.constexpr,
    SPACING: tl.constexpr,
    VECTOR: tl.constexpr,
    PEEL: tl.constexpr,
    HALVES: tl.constexpr,
    STAGES: tl.constexpr,
    RESIDUAL: tl.constexpr,
    MEAN: tl.constexpr,
    OPAQUE: tl.constexpr,
    POLLS: tl.constexpr,
    OVERLAP: tl.constexpr,
    READ: tl.constexpr,
    WRITE: tl.constexpr,
):
    """Compute all gradients in one pass: ``PARTS`` persistent programs per row, each with ``CHUNK``
    lanes in ``TILES`` tiles of ``ROWS`` rows (see ``lanes``), add up the weight's gradient over all
    of their rows and write one partial sum.

    Several programs of a row are a row behind: each tells its sums of a row, then finishes the row
    before, whose sums the others told while it read this one. ``SPAN`` words, more than there are
    programs of a row, are loaded before it adds up its own, and only those that are missing then
    are waited for. ``tiles`` is ``TILES``, as a number that the compiler does not know.
    """
    KIND: tl.constexpr = x.dtype.element_ty
    WIDE: tl.constexpr = TILE // HALVES
    SURE: tl.constexpr = COLUMNS - (PARTS - 1) * CHUNK
    group = FIRST + tl.program_id(0) // PARTS
    part = tl.program_id(0) % PARTS
    lead, end = lead_of(group, COLUMNS, STRIDE, SPACING, VECTOR, PEEL)
    weights = ()
    sums = ()
    last_x = ()
    last_dy = ()
    for tile in tl.static_range(TILES):
        weights = weights + (
            load_weights(weight, part, lead, tile, COLUMNS, CHUNK, TILE, PEEL, HALVES),
        )
        for half in tl.static_range(HALVES):  # noqa: B007
            sums = sums + (tl.zeros([ROWS, WIDE], tl.float32),)
        if PARTS > 1:
            nothing = tl.zeros([ROWS, WIDE], tl.int32 if HALVES == 2 else KIND)
            last_x = last_x + (nothing,)
            last_dy = last_dy + (nothing,)
    biases = sums if MEAN else ()
    last_mu = tl.zeros([ROWS, 1], tl.float32)
    last_sigma = tl.zeros([ROWS, 1], tl.float32)
    items = SPACING * tl.cdiv(tl.cdiv(rows, SPACING), ROWS)
    drained = items + GROUPS if PARTS > 1 else items
    if PARTS > 1:
        await_previous(OVERLAP)
    for item in tl.range(group, drained, GROUPS, num_stages=STAGES):
        first_row, row, present = rows_of(item, rows, ROWS, SPACING)
        mu, sigma = _statistics(mean, rstd, row, present, MEAN)
        at = rows_at(x, first_row, STRIDE, ROWS, SPACING, VECTOR, PEEL, HALVES)
        xs = load_tiles(at, present, part, end, CHUNK, TILE, TILES, SURE, HALVES, READ)
        at = rows_at(dy, first_row, STRIDE, ROWS, SPACING, VECTOR, PEEL, HALVES)
        dys = load_tiles(at, present, part, end, CHUNK, TILE, TILES, SURE, HALVES, READ)
        done_row = first_row
        done = present
        seen = tl.zeros([SPAN], tl.int64)
        if PARTS > 1:
            done_row, _, done = rows_of(tl.maximum(item - GROUPS, 0), rows, ROWS, SPACING)
            done = done & (item >= GROUPS)
            there = (item >= GROUPS) & (done_row < rows)
            if there:  # below a condition, as Triton's pipeliner takes all loads that are not
                told = words + tl.cast(done_row, tl.int64) * PARTS
                other = tl.arange(0, SPAN)
                seen = tl.load(told + other, mask=other < PARTS, other=0, volatile=True)
        more = ()
        if RESIDUAL:
            at = rows_at(dsum, done_row, STRIDE, ROWS, SPACING, VECTOR, PEEL, HALVES)
            more = load_tiles(at, done, part, end, CHUNK, TILE, TILES, SURE, HALVES, READ)
        one = tl.zeros([ROWS, WIDE], tl.float32)
        two = tl.zeros([ROWS, WIDE], tl.float32)
        kept_x = ()
        kept_dy = ()
        for tile in tl.static_range(TILES):
            x_tile = own(
                xs[tile], part, lead, tile, COLUMNS, CHUNK, TILE, PEEL, HALVES,
                tile == 0 or (tile + 1) * TILE > SURE,
            )  # fmt: skip
            dy_tile = own(
                dys[tile], part, lead, tile, COLUMNS, CHUNK, TILE, PEEL, HALVES,
                tile == 0 or (tile + 1) * TILE > SURE,
            )  # fmt: skip
            w = opaque(weights[tile]) if OPAQUE else weights[tile]  # not widened once for all rows
            one, two = _add_tile(one, two, x_tile, dy_tile, w, mu, MEAN, KIND, HALVES)
            kept_x = kept_x + (x_tile,)
            kept_dy = kept_dy + (dy_tile,)
        if PARTS > 1:
            first, second = _sum_pairs(one, two)
            mine = pack(first, second)
            told = words + tl.cast(first_row, tl.int64) * PARTS + part
            tl.atomic_xchg(told, mine, mask=first_row < rows, sem="relaxed")
            first, second = _told_by_all(
                seen, mine, x, dy, weight, words, done_row, last_mu, lead, end, tiles,
                tl.where(there, PARTS, 0), COLUMNS, STRIDE, CHUNK, PARTS, SPAN, TILE, SPACING,
                VECTOR, PEEL, MEAN, HALVES, POLLS,
            )  # fmt: skip
            scale, shift, slope = _terms(first, second, last_sigma, eps, done, COLUMNS, MEAN)
            sums, biases = _finish_rows(
                last_x, last_dy, more, weights, sums, biases, dx, done_row, done, part, lead,
                last_mu, scale, shift, slope, COLUMNS, CHUNK, TILE, TILES, SURE, ROWS, SPACING,
                VECTOR, PEEL, RESIDUAL, MEAN, HALVES, OPAQUE, False, WRITE,
            )  # fmt: skip
            last_x = kept_x
            last_dy = kept_dy
            if MEAN:
                last_mu = mu
                last_sigma = sigma
        else:
            one, two = tl.reduce((one, two), 1, _add_pairs)
            scale, shift, slope = _terms(
                one[:, None], two[:, None], sigma, eps, present, COLUMNS, MEAN
            )
            sums, biases = _finish_rows(
                kept_x, kept_dy, more, weights, sums, biases, dx, first_row, present, part, lead,
                mu, scale, shift, slope, COLUMNS, CHUNK, TILE, TILES, SURE, ROWS, SPACING,
                VECTOR, PEEL, RESIDUAL, MEAN, HALVES, OPAQUE, OPAQUE, WRITE,
            )  # fmt: skip
    start_next(OVERLAP)
    to = partial + tl.cast(group, tl.int64) * COLUMNS
    _store_partial(to, sums, part, lead, COLUMNS, CHUNK, TILE, TILES, ROWS, HALVES)
    if MEAN:
        to += tl.cast(GROUPS, tl.int64) * COLUMNS
        _store_partial(to, biases, part, lead, COLUMNS, CHUNK, TILE, TILES, ROWS, HALVES)


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
    OVERLAP: tl.constexpr,
):
    """Write the two sums of ``CHUNK`` columns of a row, as one word."""
    start_next(OVERLAP)
    row = tl.program_id(0) // PARTS
    part = tl.program_id(0) % PARTS
    source = tl.cast(row, tl.int64) * STRIDE
    mu, _ = _statistics(mean, rstd, row, row < rows, MEAN)
    one = tl.zeros([TILE], tl.float32)
    two = tl.zeros([TILE], tl.float32)
    for start in tl.range(0, CHUNK, TILE):
        local = start + tl.arange(0, TILE)
        column = part * CHUNK + local
        mask = (local < CHUNK) & (column < COLUMNS)
        one, two = _add_tile(
            one, two,
            tl.load(x + source + column, mask=mask, other=0.0, eviction_policy="evict_last"),
            tl.load(dy + source + column, mask=mask, other=0.0, eviction_policy="evict_last"),
            tl.load(weight + column, mask=mask, other=0.0, eviction_policy="evict_last"),
            mu, MEAN, x.dtype.element_ty, 1,
        )  # fmt: skip
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
    OVERLAP: tl.constexpr,
):
    """Compute ``TILE`` columns of all gradients from the words of ``gradient_sums``: of all rows
    with ``FINAL``, else of one split of them, in tiles of ``ROWS``."""
    split, splits = tl.program_id(1), tl.num_programs(1)
    column = tl.program_id(0) * TILE + tl.arange(0, TILE)[None, :]
    which = tl.arange(0, PADDED)[None, :]
    w = tl.load(weight + column, mask=column < COLUMNS, other=0.0)
    dws = tl.zeros([ROWS, TILE], tl.float32)
    dbs = tl.zeros([ROWS, TILE], tl.float32)
    await_previous(OVERLAP)
    start_next(OVERLAP)
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
            present, COLUMNS, MEAN,
        )  # fmt: skip
        gradient = dy_tile.to(tl.float32)
        normal = _normal(x_tile.to(tl.float32), mu, scale, MEAN, 1)
        dws += gradient * normal
        if MEAN:
            dbs += gradient
        out = gradient * w.to(tl.float32) * scale + normal * slope + shift
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
    OVERLAP: tl.constexpr,
):
    """Add ``count`` partial sums of the weight's gradient in a fixed order; of the bias's, which
    lie behind them, in the grid's second row."""
    of_bias = tl.program_id(1)
    row = tl.arange(0, ROWS)[:, None]
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[None, :]
    source = partial + tl.cast(of_bias, tl.int64) * count * COLUMNS
    sums = tl.zeros([ROWS, BLOCK], tl.float32)
    await_previous(OVERLAP)
    for first in tl.range(0, count, ROWS):
        inside = (first + row < count) & (column < COLUMNS)
        at = tl.cast(first + row, tl.int64) * COLUMNS + column
        sums += tl.load(source + at, mask=inside, other=0.0)
    kept = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    out = tl.sum(sums, axis=0).to(dw.dtype.element_ty)
    if MEAN:
        tl.store(db + kept, out, mask=(kept < COLUMNS) & (of_bias == 1))
    tl.store(dw + kept, out, mask=(kept < COLUMNS) & (of_bias == 0))
