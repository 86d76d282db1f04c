# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
# mypy: disable-error-code="assignment, attr-defined"
# ruff: noqa: ANN001, RUF005, SIM108 (arguments of kernels have no Python types)
"""Holds rows, or parts of them, in registers, tile by tile: the pieces of ``tiled``, where a block
keeps one row or several, and of ``shared``, where several blocks keep a row.

A tile is a vector of 16 bytes per lane, and is held as four words of 32 bits, of every dtype: a
compiler that sees halves holds them in float32, which takes twice the registers. What a kernel of
half precision is short of, next to exponentials, are instructions: the maximum of pairs is taken
before they are unpacked, and a lane's sum begins when its maximum is known, so that nothing is
corrected. A row's head and rest (see rows.py) are its *edge*: an element of each of the first
lanes, which counts with what else the lane holds.

Constants as in rows.py, and
    TILES       tiles of a row, or of a part of it; LANES is the number of threads
    ROWS        rows of a block, each of which has as many lanes; what is one number per row is
                a scalar where it is 1, or a number per lane
    FULL        so many tiles, the first ones, are full in every row; all others are masked, by
                whole vectors
    ASSEMBLY    words are made and hidden by instructions of NVIDIA's
    KEEP, DROP  eviction policies of loads and of stores
"""

from __future__ import annotations

import triton
import triton.language as tl

from .._overlap import INTERPRETED
from .._words import high_half, join_halves, low_half, opaque
from .backward import _summand, gradient
from .rows import (
    LOG2_E,
    _above_minus_infinity,
    edge_columns,
    join,
    normalise,
)

FAR = tl.constexpr(2.0**20)
WORDS = tl.constexpr(4)
"""Words of a vector."""
NOTHING_FP32 = tl.constexpr(-0x80_0000)
NOTHING_BF16 = tl.constexpr(-0x007F_0080)
"""A pair of −∞, 0xff80ff80 as a signed number."""
NOTHING_FP16 = tl.constexpr(-0x03FF_0400)
"""The word of a pair of −∞ in float16: 0xfc00fc00."""
GREATER_BF16 = tl.constexpr("max.bf16x2 $0, $1, $2;")
GREATER_FP16 = tl.constexpr("max.f16x2 $0, $1, $2;")
"""Of a number and NaN the number is taken (PTX ISA, max); sm_80 and up."""


@triton.jit
def _hidden(word, KIND: tl.constexpr, ASSEMBLY: tl.constexpr):
    """Return the word so that the compiler cannot keep what it made of it before."""
    if ASSEMBLY and tl.float32 != KIND:
        word = opaque(word)
    return word


@triton.jit
def column(number, ROWS: tl.constexpr):
    """Return numbers of the lanes as a column, beside which tiles can stand."""
    if ROWS > 1:
        number = number[:, None]
    return number


@triton.jit
def comparable(word, KIND: tl.constexpr, ASSEMBLY: tl.constexpr):
    """Return what ``greater`` takes: the words themselves, or the greater of each pair."""
    if tl.float32 == KIND:
        word = word.to(tl.float32, bitcast=True)
    elif not ASSEMBLY or INTERPRETED:
        word = tl.maximum(low_half(word, KIND), high_half(word, KIND))
    return word


@triton.jit
def greater(one, other, KIND: tl.constexpr):
    if one.dtype == tl.float32:
        one = tl.maximum(one, other)
    else:
        one = tl.inline_asm_elementwise(
            GREATER_BF16 if tl.bfloat16 == KIND else GREATER_FP16,
            "=r,r,r",
            [one, other],
            dtype=tl.int32,
            is_pure=True,
            pack=1,
        )
    return one


@triton.jit
def peaks_of(most, KIND: tl.constexpr):
    """Return each lane's maximum from what ``greater`` left."""
    if most.dtype != tl.float32:
        most = tl.maximum(low_half(most, KIND), high_half(most, KIND))
    return tl.max(most, axis=1)


@triton.jit
def base_of(peak, KIND: tl.constexpr):
    """Return ``(base, factor, beyond)``: a lane adds up exponentials of two of ``x × factor −
    base``, which is one instruction, and 2 to the power of ``beyond`` times too much of them.

    In half precision the product of peak and log2(e) is rounded, and what the rounding changes is
    the same for all that the lane adds up. From 2^20 on any two numbers of half precision differ by
    4096 or not at all: no factor is needed there, nor is there one that does not overflow. In
    float32 the base is the peak, and the difference is multiplied (see ``weigh``)."""
    base = _above_minus_infinity(peak)
    factor = tl.full(base.shape, 1.0, tl.float32)
    beyond = tl.zeros(base.shape, tl.float32)
    if tl.float32 != KIND:
        factor = tl.where(tl.abs(base) < FAR, LOG2_E, 1.0)
        product = base * factor
        beyond = tl.fma(base, factor, -product)
        base = product
    return base, factor, beyond


@triton.jit
def _above(x, base, factor, KIND: tl.constexpr):
    if tl.float32 == KIND:
        return tl.exp2((x - base) * LOG2_E)
    return tl.exp2(tl.fma(x, factor, -base))


@triton.jit
def weigh(total, word, base, factor, KIND: tl.constexpr):
    """Add one more tile's exponentials to the lanes' sums."""
    base = base[:, None]
    factor = factor[:, None]
    if tl.float32 == KIND:
        both = _above(word.to(tl.float32, bitcast=True), base, factor, KIND)
    else:
        base = tl.broadcast_to(base, word.shape)
        factor = tl.broadcast_to(factor, word.shape)
        both = _above(low_half(word, KIND), base, factor, KIND)
        both += _above(high_half(word, KIND), base, factor, KIND)
    return total + tl.sum(both, axis=1)


@triton.jit
def weigh_edge(edge, base, factor, KIND: tl.constexpr):
    """Return the sums that the lanes begin with."""
    return _above(edge, base, factor, KIND)


@triton.jit
def unscaled(total, beyond, KIND: tl.constexpr):
    if tl.float32 != KIND:
        total = total * tl.exp2(-beyond)
    return total


@triton.jit
def _normal_words(word, top, weight, LOG: tl.constexpr, KIND: tl.constexpr, ASSEMBLY: tl.constexpr):
    """Return softmax, or its logarithm, of a tile, in words."""
    if tl.float32 == KIND:
        y = normalise(word.to(tl.float32, bitcast=True), top, weight, LOG)
        words = y.to(tl.int32, bitcast=True)
    else:
        word = _hidden(word, KIND, ASSEMBLY)
        first = low_half(word, KIND) - top
        second = high_half(word, KIND) - top
        if LOG:
            scale = tl.log(weight)
            words = join_halves(first - scale, second - scale, KIND, ASSEMBLY)
        else:
            scale = tl.log2(weight)
            first = tl.exp2(first * LOG2_E - scale)
            words = join_halves(first, tl.exp2(second * LOG2_E - scale), KIND, ASSEMBLY)
    return words


@triton.jit
def sum_words(sums, y, dy, LOG: tl.constexpr, KIND: tl.constexpr):
    """Add the summands of one more tile of the gradient to the lanes' sums."""
    if tl.float32 == KIND:
        y = y.to(tl.float32, bitcast=True)
        both = _summand(y, dy.to(tl.float32, bitcast=True), LOG)
    else:
        both = _summand(low_half(y, KIND), low_half(dy, KIND), LOG)
        both += _summand(high_half(y, KIND), high_half(dy, KIND), LOG)
    return sums + tl.sum(both, axis=1)


@triton.jit
def _gradient_words(y, dy, total, LOG: tl.constexpr, KIND: tl.constexpr, ASSEMBLY: tl.constexpr):
    if tl.float32 == KIND:
        y = y.to(tl.float32, bitcast=True)
        dx = gradient(y, dy.to(tl.float32, bitcast=True), total, LOG)
        words = dx.to(tl.int32, bitcast=True)
    else:
        y = _hidden(y, KIND, ASSEMBLY)
        dy = _hidden(dy, KIND, ASSEMBLY)
        first = gradient(low_half(y, KIND), low_half(dy, KIND), total, LOG)
        second = gradient(high_half(y, KIND), high_half(dy, KIND), total, LOG)
        words = join_halves(first, second, KIND, ASSEMBLY)
    return words


@triton.jit
def row_of(pointer, row, stride, VECTOR: tl.constexpr, ALIGNED: tl.constexpr, ROWS: tl.constexpr):
    offset = row.to(tl.int64) * stride
    if ALIGNED:
        if ROWS > 1:
            offset = tl.multiple_of(offset, [VECTOR])
        else:
            offset = tl.multiple_of(offset, VECTOR)
    return pointer + offset


@triton.jit
def first_vector(row, head, PEEL: tl.constexpr, ROWS: tl.constexpr):
    start = row + head
    if PEEL:
        if ROWS > 1:
            start = tl.multiple_of(start, [16])
        else:
            start = tl.multiple_of(start, 16)
    return start


@triton.jit
def lane_of_row(LANES: tl.constexpr, ROWS: tl.constexpr):
    lane = tl.arange(0, LANES)
    if ROWS > 1:
        lane = lane % (LANES // ROWS)
    return lane


@triton.jit
def tile_at(start, first, VECTOR: tl.constexpr, LANES: tl.constexpr, ROWS: tl.constexpr):
    """Return where the words are of the tile that begins with vector ``first``."""
    words = (lane_of_row(LANES, ROWS) * WORDS)[:, None] + tl.arange(0, WORDS)[None, :]
    at = (start + first * VECTOR).to(tl.pointer_type(tl.int32))
    return column(at, ROWS) + words


@triton.jit
def inside_of(exists, first, vectors, LANES: tl.constexpr, ROWS: tl.constexpr):
    """Return which vectors of a tile there are."""
    return (exists & (first + lane_of_row(LANES, ROWS) < vectors))[:, None]


@triton.jit
def load_tiles(
    start, first, vectors, exists, nothing,
    LANES: tl.constexpr, VECTOR: tl.constexpr, TILES: tl.constexpr, ROWS: tl.constexpr,
    FULL: tl.constexpr, MASKED: tl.constexpr, KEEP: tl.constexpr,
):  # fmt: skip
    """Return the tiles from vector ``first`` on; ``nothing`` is what stands beyond the last one.
    MASKED: none is loaded unless the part exists."""
    STEP: tl.constexpr = LANES // ROWS
    at = tile_at(start, first, VECTOR, LANES, ROWS)
    kept = ()
    for tile in tl.static_range(TILES):
        place = at + tile * (STEP * WORDS)
        if tile >= FULL:
            inside = inside_of(exists, first + tile * STEP, vectors, LANES, ROWS)
            kept = kept + (tl.load(place, mask=inside, other=nothing, eviction_policy=KEEP),)
        elif MASKED:
            there = column(exists, ROWS)
            kept = kept + (tl.load(place, mask=there, other=nothing, eviction_policy=KEEP),)
        else:
            kept = kept + (tl.load(place, eviction_policy=KEEP),)
    return kept


@triton.jit
def store_tile(
    start, first, vectors, exists, words,
    LANES: tl.constexpr, VECTOR: tl.constexpr, ROWS: tl.constexpr,
    WHOLE: tl.constexpr, DROP: tl.constexpr,
):  # fmt: skip
    at = tile_at(start, first, VECTOR, LANES, ROWS)
    if not WHOLE:
        inside = inside_of(exists, first, vectors, LANES, ROWS)
        tl.store(at, words, mask=inside, eviction_policy=DROP)
    else:
        tl.store(at, words, eviction_policy=DROP)


@triton.jit
def nothing_of(KIND: tl.constexpr):
    """Return the word of elements that do not count in a softmax: −∞."""
    if tl.float32 == KIND:
        return NOTHING_FP32
    return NOTHING_BF16 if tl.bfloat16 == KIND else NOTHING_FP16


@triton.jit
def load_edge(
    row, head, columns, other, exists,
    EDGE: tl.constexpr, VECTOR: tl.constexpr, LANES: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Return the row's edge, an element of each of its first lanes, or numbers that nobody uses."""
    edge = tl.zeros([LANES], row.dtype.element_ty)
    if EDGE:
        at, there = edge_columns(head, columns, VECTOR, lane_of_row(LANES, ROWS))
        edge = tl.load(row + at, mask=there & exists, other=other)
    return edge


@triton.jit
def statistics_of_lanes(
    kept, edge, LANES: tl.constexpr, TILES: tl.constexpr,
    EDGE: tl.constexpr, KIND: tl.constexpr, ASSEMBLY: tl.constexpr,
):  # fmt: skip
    """Return each lane's peak and total, of its tiles and its element of the edge, in float32."""
    most = comparable(kept[0], KIND, ASSEMBLY)
    for tile in tl.static_range(1, TILES):
        most = greater(most, comparable(kept[tile], KIND, ASSEMBLY), KIND)
    peak = peaks_of(most, KIND)
    if EDGE:
        peak = tl.maximum(peak, edge)
    base, factor, beyond = base_of(peak, KIND)
    total = tl.zeros([LANES], tl.float32)
    if EDGE:
        total = weigh_edge(edge, base, factor, KIND)
    for tile in tl.static_range(TILES):
        total = weigh(total, kept[tile], base, factor, KIND)
    return peak, unscaled(total, beyond, KIND)


@triton.jit
def join_rows(peak, total, LANES: tl.constexpr, ROWS: tl.constexpr):
    """Return the rows' statistics from those of the lanes."""
    if ROWS == 1:
        top, weight = join(peak, total)
    else:
        peaks = tl.reshape(peak, [ROWS, LANES // ROWS])
        totals = tl.reshape(total, [ROWS, LANES // ROWS])
        top = tl.max(peaks, axis=1)
        base = _above_minus_infinity(top)
        weight = tl.sum(totals * tl.exp2((peaks - base[:, None]) * LOG2_E), axis=1)
        top = to_lanes(top, LANES, ROWS)
        weight = to_lanes(weight, LANES, ROWS)
    return top, weight


@triton.jit
def to_lanes(number, LANES: tl.constexpr, ROWS: tl.constexpr):
    """Return a number of each row as a number of each of its lanes."""
    return tl.reshape(tl.broadcast_to(number[:, None], [ROWS, LANES // ROWS]), [LANES])


@triton.jit
def sum_of_lanes(
    y, dy, y_edge, dy_edge, LANES: tl.constexpr, TILES: tl.constexpr,
    EDGE: tl.constexpr, LOG: tl.constexpr, KIND: tl.constexpr,
):  # fmt: skip
    sums = tl.zeros([LANES], tl.float32)
    if EDGE:
        sums = _summand(y_edge, dy_edge, LOG)
    for tile in tl.static_range(TILES):
        sums = sum_words(sums, y[tile], dy[tile], LOG, KIND)
    return sums


@triton.jit
def sum_rows(sums, LANES: tl.constexpr, ROWS: tl.constexpr):
    if ROWS == 1:
        total = tl.sum(sums, axis=0)
    else:
        total = to_lanes(tl.sum(tl.reshape(sums, [ROWS, LANES // ROWS]), axis=1), LANES, ROWS)
    return total


@triton.jit
def write_tiles(
    out, first, vectors, exists, kept, top, weight, LOG: tl.constexpr, KIND: tl.constexpr,
    LANES: tl.constexpr, VECTOR: tl.constexpr, TILES: tl.constexpr, ROWS: tl.constexpr,
    FULL: tl.constexpr, ASSEMBLY: tl.constexpr, DROP: tl.constexpr,
):  # fmt: skip
    """Write softmax of the tiles from vector ``first`` of a row on."""
    STEP: tl.constexpr = LANES // ROWS
    for tile in tl.static_range(TILES):
        words = _normal_words(
            kept[tile], column(top, ROWS), column(weight, ROWS), LOG, KIND, ASSEMBLY
        )
        store_tile(
            out, first + tile * STEP, vectors, exists, words, LANES, VECTOR, ROWS, tile < FULL, DROP
        )


@triton.jit
def store_edge(
    out, head, columns, numbers, mine,
    EDGE: tl.constexpr, VECTOR: tl.constexpr, LANES: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    if EDGE:
        at, there = edge_columns(head, columns, VECTOR, lane_of_row(LANES, ROWS))
        tl.store(out + at, numbers, mask=there & mine)


@triton.jit
def write_gradients(
    out, first, vectors, exists, y, dy, total, LOG: tl.constexpr, KIND: tl.constexpr,
    LANES: tl.constexpr, VECTOR: tl.constexpr, TILES: tl.constexpr, ROWS: tl.constexpr,
    FULL: tl.constexpr, ASSEMBLY: tl.constexpr, DROP: tl.constexpr,
):  # fmt: skip
    STEP: tl.constexpr = LANES // ROWS
    for tile in tl.static_range(TILES):
        words = _gradient_words(y[tile], dy[tile], column(total, ROWS), LOG, KIND, ASSEMBLY)
        store_tile(
            out, first + tile * STEP, vectors, exists, words, LANES, VECTOR, ROWS, tile < FULL, DROP
        )


@triton.jit
def targets_of_words(
    target, first, columns, head,
    LANES: tl.constexpr, VECTOR: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Return which element of each word of the tile that begins with vector ``first`` is the
    target's: another number where none is."""
    there = (target >= head) & (target < columns)
    target = tl.where(there, target - head, -VECTOR).to(tl.int32)
    words = tl.arange(0, WORDS)[None, :] * (VECTOR // WORDS)
    begin = (first + lane_of_row(LANES, ROWS)) * VECTOR
    return column(target, ROWS) - (begin[:, None] + words)


@triton.jit
def loss_gradient_words(
    word, lse, dloss, targets, KIND: tl.constexpr, ASSEMBLY: tl.constexpr, COMPARE: tl.constexpr
):
    """Return ``exp(x − lse) × dloss`` of a tile: the gradient of cross-entropy but for the target's
    column; with COMPARE, that one's as well (see ``targets_of_words``)."""
    if tl.float32 == KIND:
        part = tl.exp2((word.to(tl.float32, bitcast=True) - lse) * LOG2_E)
        if COMPARE:
            part = tl.where(targets == 0, part - 1.0, part)
        words = (part * dloss).to(tl.int32, bitcast=True)
    else:
        first = tl.exp2((low_half(word, KIND) - lse) * LOG2_E)
        second = tl.exp2((high_half(word, KIND) - lse) * LOG2_E)
        if COMPARE:
            first = tl.where(targets == 0, first - 1.0, first)
            second = tl.where(targets == 1, second - 1.0, second)
        words = join_halves(first * dloss, second * dloss, KIND, ASSEMBLY)
    return words
