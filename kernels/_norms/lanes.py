# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
# mypy: disable-error-code="assignment, attr-defined"
# ruff: noqa: ANN001, RET505, RUF005, SIM108 (arguments have no Python types; branches are constant)
"""Reads and writes rows tile by tile, 16 bytes at a time wherever rows start.

A persistent program has lanes ``part × CHUNK`` to ``(part + 1) × CHUNK`` of every row that it
takes, in ``TILES`` tiles. With ``PEEL`` rows start at any element: lanes count from the multiple of
``VECTOR`` elements at or before the row's start, ``lead`` elements before it, so that all but the
row's ends is read and written whole. ``SPACING`` rows later a row lies the same way: a program
takes only rows that are as many apart, and its lanes are the same columns in all of them. ``SURE``
lanes of the last program have columns wherever the row starts.

Tiles are held in words of ``HALVES`` elements: two of half precision where rows are read 16 bytes
wide, as a compiler that sees halves keeps each of them in a register of 32 bits from one row to the
next; else one.
"""

from __future__ import annotations

import triton
import triton.language as tl

from .._words import high_half, join_halves, low_half


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
def rows_at(
    tensor, first_row, STRIDE: tl.constexpr, ROWS: tl.constexpr, SPACING: tl.constexpr,
    VECTOR: tl.constexpr, PEEL: tl.constexpr, HALVES: tl.constexpr,
):  # fmt: skip
    """Return the words of the rows' lane 0, as a column. That rows start at multiples of
    ``VECTOR`` is visible."""
    start = tl.cast(first_row, tl.int64) * STRIDE
    if PEEL or HALVES == 2:
        start = start // VECTOR * (VECTOR // HALVES)
    if HALVES == 2:
        tensor = tensor.to(tl.pointer_type(tl.int32))
    return tensor + (start + tl.arange(0, ROWS)[:, None] * (SPACING * STRIDE // HALVES))


@triton.jit
def words_of(tile, TILE: tl.constexpr, HALVES: tl.constexpr):
    """Return the words of a tile, counted from the program's first one."""
    return tile * (TILE // HALVES) + tl.arange(0, TILE // HALVES)[None, :]


@triton.jit
def load_tile(
    at, present, part, end, tile, CHUNK: tl.constexpr, TILE: tl.constexpr, HALVES: tl.constexpr,
    READ: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    """Return a tile, with neighbours of the row that come along with its ends."""
    word = words_of(tile, TILE, HALVES)
    place = part * (CHUNK // HALVES) + word
    inside = present
    if MASKED:
        inside = inside & (word < CHUNK // HALVES) & (place < end // HALVES)
    return tl.load(at + place, mask=inside, other=0, eviction_policy=READ)


@triton.jit
def load_tiles(
    at, present, part, end, CHUNK: tl.constexpr, TILE: tl.constexpr, TILES: tl.constexpr,
    SURE: tl.constexpr, HALVES: tl.constexpr, READ: tl.constexpr,
):  # fmt: skip
    found = ()
    for tile in tl.static_range(TILES):
        found = found + (
            load_tile(
                at, present, part, end, tile, CHUNK, TILE, HALVES, READ,
                (tile + 1) * TILE > CHUNK or (tile + 1) * TILE > SURE,
            ),
        )  # fmt: skip
    return found


@triton.jit
def has_column(part, lead, local, COLUMNS: tl.constexpr, CHUNK: tl.constexpr):
    """Return which of a program's lanes are columns of the row."""
    lane = part * CHUNK + local
    return (local < CHUNK) & (lane >= lead) & (lane < lead + COLUMNS)


@triton.jit
def own(
    words, part, lead, tile, COLUMNS: tl.constexpr, CHUNK: tl.constexpr, TILE: tl.constexpr,
    PEEL: tl.constexpr, HALVES: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    """Return a tile with zeros where it has no column of the row."""
    if PEEL and MASKED:
        local = words_of(tile, TILE, HALVES) * HALVES
        first = has_column(part, lead, local, COLUMNS, CHUNK)
        if HALVES == 2:
            second = has_column(part, lead, local + 1, COLUMNS, CHUNK)
            words = words & (tl.where(first, 0xFFFF, 0) | tl.where(second, -0x1_0000, 0))
        else:
            words = tl.where(first, words, 0.0)
    return words


@triton.jit
def element_of(words, half: tl.constexpr, KIND: tl.constexpr, HALVES: tl.constexpr):
    """Return the first or second element of words, as float32."""
    if HALVES == 1:
        return words.to(tl.float32)
    elif half == 0:
        return low_half(words, KIND)
    else:
        return high_half(words, KIND)


@triton.jit
def load_weights(
    weight, part, lead, tile, COLUMNS: tl.constexpr, CHUNK: tl.constexpr, TILE: tl.constexpr,
    PEEL: tl.constexpr, HALVES: tl.constexpr,
):  # fmt: skip
    """Return a tile's weights: where rows start anywhere, element by element."""
    if HALVES == 2 and not PEEL:
        words = words_of(tile, TILE, HALVES)
        place = part * (CHUNK // HALVES) + words
        inside = (words < CHUNK // HALVES) & (place < COLUMNS // HALVES)
        return tl.load(weight.to(tl.pointer_type(tl.int32)) + place, mask=inside, other=0)
    else:
        local = tile * TILE + tl.arange(0, TILE)[None, :]
        inside = has_column(part, lead, local, COLUMNS, CHUNK)
        found = tl.load(weight + (part * CHUNK + local - lead), mask=inside, other=0.0)
        if HALVES == 2:
            bits = found.to(tl.int16, bitcast=True).to(tl.int32) & 0xFFFF
            first, second = tl.split(tl.reshape(bits, [1, TILE // 2, 2]))
            found = first | (second << 16)
        return found


@triton.jit
def side_by_side(first, second, ROWS: tl.constexpr, TILE: tl.constexpr):
    """Return first and second elements of words in the order of their lanes."""
    return tl.reshape(tl.join(first, second), [ROWS, TILE])


@triton.jit
def _store_ends(
    tensor_row, out, present, part, lead, tile: tl.constexpr, begin, stop, COLUMNS: tl.constexpr,
    CHUNK: tl.constexpr, TILE: tl.constexpr, ROWS: tl.constexpr, HALVES: tl.constexpr,
    KIND: tl.constexpr,
):  # fmt: skip
    """Write the columns of a tile that lie before or behind the row's whole vectors."""
    local = tile * TILE + tl.arange(0, TILE)[None, :]
    lane = part * CHUNK + local
    ends = present & has_column(part, lead, local, COLUMNS, CHUNK)
    ends = ends & ((lane < begin) | (lane >= stop))
    values = out[0]
    if HALVES == 2:
        values = side_by_side(out[0], out[1], ROWS, TILE)
    tl.store(tensor_row + lane, values.to(KIND), mask=ends)


@triton.jit
def store_tile(
    to, tensor_row, out, present, part, lead, tile: tl.constexpr, COLUMNS: tl.constexpr,
    CHUNK: tl.constexpr, TILE: tl.constexpr, SURE: tl.constexpr, ROWS: tl.constexpr,
    VECTOR: tl.constexpr, PEEL: tl.constexpr, HALVES: tl.constexpr, KIND: tl.constexpr,
    ASSEMBLY: tl.constexpr, WRITE: tl.constexpr,
):  # fmt: skip
    """Write the row's columns of a tile, of which ``out`` has the first and the second elements of
    words: whole vectors of 16 bytes, then the few elements at the row's ends, whose vectors are
    its neighbours' as well."""
    if HALVES == 2:
        words = join_halves(out[0], out[1], KIND, ASSEMBLY)
    else:
        words = out[0].to(KIND)
    word = words_of(tile, TILE, HALVES)
    place = part * (CHUNK // HALVES) + word
    inside = present
    if (tile + 1) * TILE > CHUNK:
        inside = inside & (word < CHUNK // HALVES)
    if PEEL:
        begin = (lead + VECTOR - 1) // VECTOR * VECTOR
        stop = (lead + COLUMNS) // VECTOR * VECTOR
        if tile == 0:
            inside = inside & (place >= begin // HALVES)
        if (tile + 1) * TILE > SURE:
            inside = inside & (place < stop // HALVES)
        tl.store(to + place, words, mask=inside, eviction_policy=WRITE)
        first = part * CHUNK + tile * TILE
        if tile == 0 or (tile + 1) * TILE > SURE:  # noqa: SIM102 (a constant, then a number)
            if SURE == COLUMNS or (first < begin) | (first + TILE > stop):
                _store_ends(
                    tensor_row, out, present, part, lead, tile, begin, stop,
                    COLUMNS, CHUNK, TILE, ROWS, HALVES, KIND,
                )  # fmt: skip
    else:
        if (tile + 1) * TILE > SURE:
            inside = inside & (place < COLUMNS // HALVES)
        tl.store(to + place, words, mask=inside, eviction_policy=WRITE)
