# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
# mypy: disable-error-code="assignment, attr-defined"
# ruff: noqa: ANN001, RET505, RUF005 (arguments have no Python types; branches are constant)
"""Reads and writes rows tile by tile, 16 bytes at a time wherever rows start.

A persistent program has lanes ``part × CHUNK`` to ``(part + 1) × CHUNK`` of every row that it
takes, in ``TILES`` tiles. With ``PEEL`` rows start at any element: lanes count from the multiple of
``VECTOR`` elements at or before the row's start, ``lead`` elements before it, so that all but the
row's ends is read and written whole. ``SPACING`` rows later a row lies the same way: a program
takes only rows that are as many apart, and its lanes are the same columns in all of them. ``SURE``
lanes of the last program have columns wherever the row starts.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def rows_of(item, rows, ROWS: tl.constexpr, SPACING: tl.constexpr):
    """Return the first row of an item, all of its rows, and which of them there are."""
    first = item // SPACING * (SPACING * ROWS) + item % SPACING
    row = first + tl.arange(0, ROWS)[:, None] * SPACING
    return first, row, row < rows


@triton.jit
def lead_of(
    group, COLUMNS, STRIDE, SPACING: tl.constexpr, VECTOR: tl.constexpr, PEEL: tl.constexpr
):  # fmt: skip
    """Return the lane of the rows' first column, and the lane where reading ends."""
    if PEEL:
        lead = (group % SPACING * STRIDE) % VECTOR
        return lead, (lead + COLUMNS + VECTOR - 1) // VECTOR * VECTOR
    else:
        return 0, COLUMNS


@triton.jit
def lanes_at(
    first_row, part, STRIDE: tl.constexpr, CHUNK: tl.constexpr, TILE: tl.constexpr,
    ROWS: tl.constexpr, SPACING: tl.constexpr, VECTOR: tl.constexpr, PEEL: tl.constexpr,
):  # fmt: skip
    """Return the elements of a program's first tile: one address for all tiles, which lie at
    constant distances from it. That rows start at multiples of ``VECTOR`` is visible."""
    start = tl.cast(first_row, tl.int64) * STRIDE
    if PEEL:
        start = start // VECTOR * VECTOR
    rows = tl.arange(0, ROWS)[:, None] * (SPACING * STRIDE)
    return start + rows + (part * CHUNK + tl.arange(0, TILE)[None, :])


@triton.jit
def load_tiles(
    at, present, part, end, CHUNK: tl.constexpr, TILE: tl.constexpr, TILES: tl.constexpr,
    SURE: tl.constexpr, READ: tl.constexpr,
):  # fmt: skip
    """Return the tiles of a program, with neighbours of the row that come along with its ends."""
    found = ()
    for tile in tl.static_range(TILES):
        local = tile * TILE + tl.arange(0, TILE)[None, :]
        inside = present
        if (tile + 1) * TILE > CHUNK:
            inside = inside & (local < CHUNK)
        if (tile + 1) * TILE > SURE:
            inside = inside & (part * CHUNK + local < end)
        values = tl.load(at + tile * TILE, mask=inside, other=0.0, eviction_policy=READ)
        found = found + (values,)
    return found


@triton.jit
def own(
    values, part, lead, tile: tl.constexpr, COLUMNS: tl.constexpr, CHUNK: tl.constexpr,
    TILE: tl.constexpr, SURE: tl.constexpr, PEEL: tl.constexpr,
):  # fmt: skip
    """Return a tile with zeros where it has no column of the row."""
    lane = part * CHUNK + tile * TILE + tl.arange(0, TILE)[None, :]
    if PEEL and tile == 0:
        values = tl.where(lane >= lead, values, 0.0)
    if PEEL and (tile + 1) * TILE > SURE:
        values = tl.where(lane < lead + COLUMNS, values, 0.0)
    return values


@triton.jit
def has_column(
    part, lead, tile: tl.constexpr, COLUMNS: tl.constexpr, CHUNK: tl.constexpr, TILE: tl.constexpr
):  # fmt: skip
    """Return which lanes of a tile are columns of the row."""
    local = tile * TILE + tl.arange(0, TILE)[None, :]
    lane = part * CHUNK + local
    return (local < CHUNK) & (lane >= lead) & (lane < lead + COLUMNS)


@triton.jit
def store_tile(
    to, values, present, part, lead, tile: tl.constexpr, COLUMNS: tl.constexpr,
    CHUNK: tl.constexpr, TILE: tl.constexpr, SURE: tl.constexpr, VECTOR: tl.constexpr,
    PEEL: tl.constexpr, WRITE: tl.constexpr,
):  # fmt: skip
    """Write the row's columns of a tile: whole words of 16 bytes, then the few elements at the
    row's ends, whose words are its neighbours' as well."""
    local = tile * TILE + tl.arange(0, TILE)[None, :]
    lane = part * CHUNK + local
    inside = present
    if (tile + 1) * TILE > CHUNK:
        inside = inside & (local < CHUNK)
    if PEEL:
        begin = (lead + VECTOR - 1) // VECTOR * VECTOR
        stop = (lead + COLUMNS) // VECTOR * VECTOR
        whole = inside
        if tile == 0:
            whole = whole & (lane >= begin)
        if (tile + 1) * TILE > SURE:
            whole = whole & (lane < stop)
        tl.store(to + tile * TILE, values, mask=whole, eviction_policy=WRITE)
        if tile == 0 or (tile + 1) * TILE > SURE:
            ends = inside & (lane >= lead) & (lane < lead + COLUMNS)
            ends = ends & ((lane < begin) | (lane >= stop))
            tl.store(to + tile * TILE, values, mask=ends)
    else:
        if (tile + 1) * TILE > SURE:
            inside = inside & (lane < COLUMNS)
        tl.store(to + tile * TILE, values, mask=inside, eviction_policy=WRITE)
