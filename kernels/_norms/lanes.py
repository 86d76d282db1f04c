# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
# mypy: disable-error-code="assignment, attr-defined"
# ruff: noqa: ANN001, RET505, RUF005, SIM108 (arguments have no Python types; branches are constant)
"""Reads and writes rows tile by tile, 16 bytes at a time wherever rows start.

A persistent program takes whole rows, in ``TILES`` tiles. With ``PEEL`` rows start at any element:
lanes count from the multiple of ``ALIGN`` elements at or before the row's start, ``lead`` elements
before it, so that all but the row's ends is read and written whole, in vectors of ``VECTOR``
elements; where ``ALIGN`` is a sector of memory, no two tiles share one. ``SPACING`` rows later a
row lies the same way: a program takes only rows that are as many apart, and its lanes are the same
columns in all of them.

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
    group, COLUMNS, STRIDE, SPACING: tl.constexpr, VECTOR: tl.constexpr, ALIGN: tl.constexpr,
    PEEL: tl.constexpr,
):  # fmt: skip
    """Return the lane of the rows' first column, and the lane where reading ends."""
    if PEEL:
        lead = (group % SPACING * STRIDE) % ALIGN
        return lead, (lead + COLUMNS + VECTOR - 1) // VECTOR * VECTOR
    else:
        return 0, COLUMNS


@triton.jit
def rows_at(
    tensor, first_row, STRIDE: tl.constexpr, ROWS: tl.constexpr, SPACING: tl.constexpr,
    ALIGN: tl.constexpr, PEEL: tl.constexpr, HALVES: tl.constexpr,
):  # fmt: skip
    """Return the words of the rows' lane 0, as a column. That rows start at multiples of
    ``ALIGN`` is visible."""
    start = tl.cast(first_row, tl.int64) * STRIDE
    if PEEL or HALVES == 2:
        start = start // ALIGN * (ALIGN // HALVES)
    if HALVES == 2:
        tensor = tensor.to(tl.pointer_type(tl.int32))
    return tensor + (start + tl.arange(0, ROWS)[:, None] * (SPACING * STRIDE // HALVES))


@triton.jit
def words_of(tile, TILE: tl.constexpr, HALVES: tl.constexpr):
    """Return the words of a tile, counted from the program's first one."""
    return tile * (TILE // HALVES) + tl.arange(0, TILE // HALVES)[None, :]


@triton.jit
def load_tile(
    at, present, end, tile, TILE: tl.constexpr, HALVES: tl.constexpr, READ: tl.constexpr,
    MASKED: tl.constexpr,
):  # fmt: skip
    """Return a tile, with neighbours of the row that come along with its ends."""
    word = words_of(tile, TILE, HALVES)
    inside = present
    if MASKED:
        inside = inside & (word < end // HALVES)
    return tl.load(at + word, mask=inside, other=0, eviction_policy=READ)


@triton.jit
def load_tiles(
    at, present, end, COLUMNS: tl.constexpr, TILE: tl.constexpr, TILES: tl.constexpr,
    HALVES: tl.constexpr, READ: tl.constexpr,
):  # fmt: skip
    found = ()
    for tile in tl.static_range(TILES):
        found = found + (
            load_tile(at, present, end, tile, TILE, HALVES, READ, (tile + 1) * TILE > COLUMNS),
        )
    return found


@triton.jit
def has_column(lead, lane, COLUMNS: tl.constexpr):
    """Return which lanes are columns of the row."""
    return (lane >= lead) & (lane < lead + COLUMNS)


@triton.jit
def own(
    words, lead, tile, COLUMNS: tl.constexpr, TILE: tl.constexpr, PEEL: tl.constexpr,
    HALVES: tl.constexpr,
):  # fmt: skip
    """Return a tile with zeros where it has no column of the row."""
    if PEEL and (tile == 0 or (tile + 1) * TILE > COLUMNS):
        lane = words_of(tile, TILE, HALVES) * HALVES
        first = has_column(lead, lane, COLUMNS)
        if HALVES == 2:
            second = has_column(lead, lane + 1, COLUMNS)
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
    weight, lead, tile, COLUMNS: tl.constexpr, TILE: tl.constexpr, PEEL: tl.constexpr,
    HALVES: tl.constexpr,
):  # fmt: skip
    """Return a tile's weights: where rows start anywhere, element by element."""
    if HALVES == 2 and not PEEL:
        word = words_of(tile, TILE, HALVES)
        at = weight.to(tl.pointer_type(tl.int32)) + word
        return tl.load(at, mask=word < COLUMNS // HALVES, other=0)
    else:
        lane = tile * TILE + tl.arange(0, TILE)[None, :]
        found = tl.load(weight + (lane - lead), mask=has_column(lead, lane, COLUMNS), other=0.0)
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
    tensor_row, out, present, lead, tile: tl.constexpr, begin, stop, COLUMNS: tl.constexpr,
    TILE: tl.constexpr, ROWS: tl.constexpr, HALVES: tl.constexpr, KIND: tl.constexpr,
):  # fmt: skip
    """Write the columns of a tile that lie before or behind the row's whole vectors."""
    lane = tile * TILE + tl.arange(0, TILE)[None, :]
    ends = present & has_column(lead, lane, COLUMNS)
    ends = ends & ((lane < begin) | (lane >= stop))
    values = out[0]
    if HALVES == 2:
        values = side_by_side(out[0], out[1], ROWS, TILE)
    tl.store(tensor_row + lane, values.to(KIND), mask=ends)


@triton.jit
def store_tile(
    to, tensor_row, out, present, lead, tile: tl.constexpr, COLUMNS: tl.constexpr,
    TILE: tl.constexpr, ROWS: tl.constexpr, VECTOR: tl.constexpr, PEEL: tl.constexpr,
    HALVES: tl.constexpr, KIND: tl.constexpr, ASSEMBLY: tl.constexpr, WRITE: tl.constexpr,
):  # fmt: skip
    """Write the row's columns of a tile, of which ``out`` has the first and the second elements of
    words: whole vectors of 16 bytes, then the few elements at the row's ends, whose vectors are
    its neighbours' as well."""
    if HALVES == 2:
        words = join_halves(out[0], out[1], KIND, ASSEMBLY)
    else:
        words = out[0].to(KIND)
    word = words_of(tile, TILE, HALVES)
    inside = present
    if PEEL:
        begin = (lead + VECTOR - 1) // VECTOR * VECTOR
        stop = (lead + COLUMNS) // VECTOR * VECTOR
        if tile == 0:
            inside = inside & (word >= begin // HALVES)
        if (tile + 1) * TILE > COLUMNS:
            inside = inside & (word < stop // HALVES)
        tl.store(to + word, words, mask=inside, eviction_policy=WRITE)
        if tile == 0 or (tile + 1) * TILE > COLUMNS:
            _store_ends(
                tensor_row, out, present, lead, tile, begin, stop,
                COLUMNS, TILE, ROWS, HALVES, KIND,
            )  # fmt: skip
    else:
        if (tile + 1) * TILE > COLUMNS:
            inside = inside & (word < COLUMNS // HALVES)
        tl.store(to + word, words, mask=inside, eviction_policy=WRITE)
