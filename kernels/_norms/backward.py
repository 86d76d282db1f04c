# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
# mypy: disable-error-code="assignment, var-annotated, attr-defined"
# ruff: noqa: ANN001, RET505, RUF005 (arguments have no Python types; branches are constant)
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
from .._words import add_pairs, opaque, pack, unpack
from .lanes import (
    element_of,
    has_column,
    lead_of,
    load_tiles,
    load_weights,
    own,
    rows_at,
    rows_of,
    side_by_side,
    store_tile,
)


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
def _finish_rows(
    xs, dys, more, weights, sums, biases, dx, row, present, lead, mean, scale, shift, slope,
    COLUMNS: tl.constexpr, TILE: tl.constexpr, TILES: tl.constexpr, ROWS: tl.constexpr,
    SPACING: tl.constexpr, VECTOR: tl.constexpr, ALIGN: tl.constexpr, PEEL: tl.constexpr,
    RESIDUAL: tl.constexpr, MEAN: tl.constexpr, HALVES: tl.constexpr, OPAQUE: tl.constexpr,
    WRITE: tl.constexpr,
):  # fmt: skip
    """Write dx of rows whose sums are known, and return the columns' sums with them. ``OPAQUE``:
    tiles are widened again, not kept as they were widened for the sums, nor weights from row to
    row."""
    KIND: tl.constexpr = dx.dtype.element_ty
    to = rows_at(dx, row, COLUMNS, ROWS, SPACING, ALIGN, PEEL, HALVES)
    ends = rows_at(dx, row, COLUMNS, ROWS, SPACING, ALIGN, PEEL, 1)
    new_sums = ()
    new_biases = ()
    for tile in tl.static_range(TILES):
        x = xs[tile]
        dy = dys[tile]
        w = weights[tile]
        if OPAQUE:
            x = opaque(x)
            dy = opaque(dy)
            w = opaque(w)
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
            to, ends, out, present, lead, tile,
            COLUMNS, TILE, ROWS, VECTOR, PEEL, HALVES, KIND, OPAQUE, WRITE,
        )  # fmt: skip
    return new_sums, new_biases


@triton.jit
def _store_partial(
    partial, sums, lead, COLUMNS: tl.constexpr, TILE: tl.constexpr, TILES: tl.constexpr,
    ROWS: tl.constexpr, HALVES: tl.constexpr,
):  # fmt: skip
    """Write a program's sums of its columns."""
    for tile in tl.static_range(TILES):
        found = sums[tile * HALVES]
        if HALVES == 2:
            found = side_by_side(sums[tile * 2], sums[tile * 2 + 1], ROWS, TILE)
        lane = tile * TILE + tl.arange(0, TILE)
        inside = has_column(lead, lane, COLUMNS)
        tl.store(partial + (lane - lead), tl.sum(found, axis=0), mask=inside)


@triton.jit(do_not_specialize=["rows"])
def gradient_rows(
    x,
    dy,
    dsum,
    weight,
    mean,
    rstd,
    dx,
    partial,
    rows,
    eps,
    COLUMNS: tl.constexpr,
    STRIDE: tl.constexpr,
    GROUPS: tl.constexpr,
    TILE: tl.constexpr,
    TILES: tl.constexpr,
    ROWS: tl.constexpr,
    SPACING: tl.constexpr,
    VECTOR: tl.constexpr,
    ALIGN: tl.constexpr,
    PEEL: tl.constexpr,
    HALVES: tl.constexpr,
    STAGES: tl.constexpr,
    RESIDUAL: tl.constexpr,
    MEAN: tl.constexpr,
    OPAQUE: tl.constexpr,
    OVERLAP: tl.constexpr,
    READ: tl.constexpr,
    WRITE: tl.constexpr,
):
    """Compute all gradients in one pass: ``GROUPS`` persistent programs take ``ROWS`` whole rows at
    a time, in ``TILES`` tiles (see ``lanes``), add up the weight's gradient over all of their rows
    and write one partial sum each."""
    KIND: tl.constexpr = x.dtype.element_ty
    WIDE: tl.constexpr = TILE // HALVES
    group = tl.program_id(0)
    lead, end = lead_of(group, COLUMNS, STRIDE, SPACING, VECTOR, ALIGN, PEEL)
    weights = ()
    sums = ()
    for tile in tl.static_range(TILES):
        weights = weights + (load_weights(weight, lead, tile, COLUMNS, TILE, PEEL, HALVES),)
        for half in tl.static_range(HALVES):  # noqa: B007
            sums = sums + (tl.zeros([ROWS, WIDE], tl.float32),)
    biases = sums if MEAN else ()
    items = SPACING * tl.cdiv(tl.cdiv(rows, SPACING), ROWS)
    for item in tl.range(group, items, GROUPS, num_stages=STAGES):
        first_row, row, present = rows_of(item, rows, ROWS, SPACING)
        mu, sigma = _statistics(mean, rstd, row, present, MEAN)
        at = rows_at(x, first_row, STRIDE, ROWS, SPACING, ALIGN, PEEL, HALVES)
        xs = load_tiles(at, present, end, COLUMNS, TILE, TILES, HALVES, READ)
        at = rows_at(dy, first_row, STRIDE, ROWS, SPACING, ALIGN, PEEL, HALVES)
        dys = load_tiles(at, present, end, COLUMNS, TILE, TILES, HALVES, READ)
        more = ()
        if RESIDUAL:
            at = rows_at(dsum, first_row, STRIDE, ROWS, SPACING, ALIGN, PEEL, HALVES)
            more = load_tiles(at, present, end, COLUMNS, TILE, TILES, HALVES, READ)
        one = tl.zeros([ROWS, WIDE], tl.float32)
        two = tl.zeros([ROWS, WIDE], tl.float32)
        kept_x = ()
        kept_dy = ()
        for tile in tl.static_range(TILES):
            x_tile = own(xs[tile], lead, tile, COLUMNS, TILE, PEEL, HALVES)
            dy_tile = own(dys[tile], lead, tile, COLUMNS, TILE, PEEL, HALVES)
            w = opaque(weights[tile]) if OPAQUE else weights[tile]  # not widened once for all rows
            one, two = _add_tile(one, two, x_tile, dy_tile, w, mu, MEAN, KIND, HALVES)
            kept_x = kept_x + (x_tile,)
            kept_dy = kept_dy + (dy_tile,)
        one, two = tl.reduce((one, two), 1, add_pairs)
        scale, shift, slope = _terms(one[:, None], two[:, None], sigma, eps, present, COLUMNS, MEAN)
        sums, biases = _finish_rows(
            kept_x, kept_dy, more, weights, sums, biases, dx, first_row, present, lead,
            mu, scale, shift, slope, COLUMNS, TILE, TILES, ROWS, SPACING,
            VECTOR, ALIGN, PEEL, RESIDUAL, MEAN, HALVES, OPAQUE, WRITE,
        )  # fmt: skip
    start_next(OVERLAP)
    to = partial + tl.cast(group, tl.int64) * COLUMNS
    _store_partial(to, sums, lead, COLUMNS, TILE, TILES, ROWS, HALVES)
    if MEAN:
        to += tl.cast(GROUPS, tl.int64) * COLUMNS
        _store_partial(to, biases, lead, COLUMNS, TILE, TILES, ROWS, HALVES)


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
    PITCH: tl.constexpr,
    HEAD: tl.constexpr,
    SHIFTED: tl.constexpr,
    BLOCK: tl.constexpr,
    ROWS: tl.constexpr,
    MEAN: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    """Add ``count`` partial sums of the weight's gradient in a fixed order; of the bias's, which
    lie behind them, in the grid's second row. They are ``PITCH`` floats apart; where they are
    ``SHIFTED``, the first one says how far its columns lie behind its head."""
    of_bias = tl.program_id(1)
    row = tl.arange(0, ROWS)[:, None]
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[None, :]
    source = partial + tl.cast(of_bias, tl.int64) * count * PITCH
    sums = tl.zeros([ROWS, BLOCK], tl.float32)
    await_previous(OVERLAP)
    for first in tl.range(0, count, ROWS):
        inside = (first + row < count) & (column < COLUMNS)
        begin = source + tl.cast(first + row, tl.int64) * PITCH
        at = column + HEAD
        if SHIFTED:
            at += tl.load(begin, mask=first + row < count, other=0.0).to(tl.int32)
        sums += tl.load(begin + at, mask=inside, other=0.0)
    kept = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    out = tl.sum(sums, axis=0).to(dw.dtype.element_ty)
    if MEAN:
        tl.store(db + kept, out, mask=(kept < COLUMNS) & (of_bias == 1))
    tl.store(dw + kept, out, mask=(kept < COLUMNS) & (of_bias == 0))
