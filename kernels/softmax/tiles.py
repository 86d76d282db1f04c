# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
# mypy: disable-error-code="assignment, attr-defined"
# ruff: noqa: ANN001, RUF005 (arguments of kernels have no Python types)
"""Computes rows of any width in one pass: one block keeps a row in registers, tile by tile; forward
and backward. The pieces are those of shared.py, too, where several blocks keep a row.

A tile is a vector of 16 bytes per lane, and is held as four words of 32 bits, of every dtype: a
compiler that sees halves holds them in float32, which takes twice the registers. A row's head and
rest (see rows.py) are its *edge*.

Constants as in rows.py, and
    TILES       tiles of a row, or of a part of it; LANES is the number of threads
    TAIL        some tile of some row is not full; all are masked then, by whole vectors
    ASSEMBLY    words are made and hidden by instructions of NVIDIA's
    KEEP, DROP  eviction policies of loads and of stores
"""

from __future__ import annotations

import triton
import triton.language as tl

from .backward import _summand, gradient
from .looped import _write_loss
from .rows import (
    INTERPRETED,
    LOG2_E,
    _above_minus_infinity,
    _edge_columns,
    _first_vector,
    _fold,
    _head_elements,
    _with_more,
    join,
    normalise,
    opaque,
)

WORDS = tl.constexpr(4)
"""Words of a vector."""
NOTHING_FP32 = tl.constexpr(-0x80_0000)
NOTHING_BF16 = tl.constexpr(-0x007F_0080)
"""A pair of −∞, 0xff80ff80 as a signed number."""
NOTHING_FP16 = tl.constexpr(-0x03FF_0400)
"""The word of a pair of −∞ in float16: 0xfc00fc00."""
CONVERT_BF16 = tl.constexpr("cvt.rn.bf16x2.f32 $0, $1, $2;")
CONVERT_FP16 = tl.constexpr("cvt.rn.f16x2.f32 $0, $1, $2;")
"""The first operand goes to the upper half (PTX ISA, cvt); sm_80 and up."""


@triton.jit
def _low(pair, KIND: tl.constexpr):
    """Return the first of two halves, as float32."""
    if tl.bfloat16 == KIND:
        return (pair << 16).to(tl.float32, bitcast=True)
    return pair.to(tl.int16).to(tl.float16, bitcast=True).to(tl.float32)


@triton.jit
def _high(pair, KIND: tl.constexpr):
    if tl.bfloat16 == KIND:
        return (pair & -0x1_0000).to(tl.float32, bitcast=True)
    return (pair >> 16).to(tl.int16).to(tl.float16, bitcast=True).to(tl.float32)


@triton.jit
def _pair(first, second, KIND: tl.constexpr, ASSEMBLY: tl.constexpr):
    """Return two float32 as one word, rounded to nearest even."""
    if ASSEMBLY and not INTERPRETED:
        return tl.inline_asm_elementwise(
            CONVERT_BF16 if tl.bfloat16 == KIND else CONVERT_FP16,
            "=r,r,r",
            [second, first],
            dtype=tl.int32,
            is_pure=True,
            pack=1,
        )
    below = first.to(KIND).to(tl.int16, bitcast=True).to(tl.int32) & 0xFFFF
    return below | (second.to(KIND).to(tl.int16, bitcast=True).to(tl.int32) << 16)


@triton.jit
def _hidden(word, KIND: tl.constexpr, ASSEMBLY: tl.constexpr):
    """Return the word so that the compiler cannot keep what it made of it before."""
    if ASSEMBLY and tl.float32 != KIND:
        word = opaque(word)
    return word


@triton.jit
def fold_words(peak, total, word, KIND: tl.constexpr):
    """Fold one more tile [LANES, WORDS] into the lanes' statistics."""
    if tl.float32 == KIND:
        peak, total = _fold(peak, total, word.to(tl.float32, bitcast=True))
    else:
        first = _low(word, KIND)
        second = _high(word, KIND)
        new = tl.maximum(peak, tl.max(tl.maximum(first, second), axis=1))
        base = _above_minus_infinity(new)
        old = total * tl.exp2((peak - base) * LOG2_E)
        each = base[:, None]
        both = tl.exp2((first - each) * LOG2_E) + tl.exp2((second - each) * LOG2_E)
        peak = new
        total = old + tl.sum(both, axis=1)
    return peak, total


@triton.jit
def _normal_words(word, top, weight, LOG: tl.constexpr, KIND: tl.constexpr, ASSEMBLY: tl.constexpr):
    """Return softmax, or its logarithm, of a tile, in words."""
    if tl.float32 == KIND:
        y = normalise(word.to(tl.float32, bitcast=True), top, weight, LOG)
        words = y.to(tl.int32, bitcast=True)
    else:
        word = _hidden(word, KIND, ASSEMBLY)
        first = _low(word, KIND) - top
        second = _high(word, KIND) - top
        if LOG:
            scale = tl.log(weight)
            words = _pair(first - scale, second - scale, KIND, ASSEMBLY)
        else:
            scale = tl.log2(weight)
            first = tl.exp2(first * LOG2_E - scale)
            words = _pair(first, tl.exp2(second * LOG2_E - scale), KIND, ASSEMBLY)
    return words


@triton.jit
def sum_words(sums, y, dy, LOG: tl.constexpr, KIND: tl.constexpr):
    """Add the summands of one more tile of the gradient to the lanes' sums."""
    if tl.float32 == KIND:
        y = y.to(tl.float32, bitcast=True)
        both = _summand(y, dy.to(tl.float32, bitcast=True), LOG)
    else:
        both = _summand(_low(y, KIND), _low(dy, KIND), LOG)
        both += _summand(_high(y, KIND), _high(dy, KIND), LOG)
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
        first = gradient(_low(y, KIND), _low(dy, KIND), total, LOG)
        second = gradient(_high(y, KIND), _high(dy, KIND), total, LOG)
        words = _pair(first, second, KIND, ASSEMBLY)
    return words


@triton.jit
def row_of(pointer, row, stride, VECTOR: tl.constexpr, ALIGNED: tl.constexpr):
    offset = row.to(tl.int64) * stride
    if ALIGNED:
        offset = tl.multiple_of(offset, VECTOR)
    return pointer + offset


@triton.jit
def tile_at(start, first, VECTOR: tl.constexpr, LANES: tl.constexpr):
    """Return where the words are of the tile that begins with vector ``first``."""
    words = (tl.arange(0, LANES) * WORDS)[:, None] + tl.arange(0, WORDS)[None, :]
    return (start + first * VECTOR).to(tl.pointer_type(tl.int32)) + words


@triton.jit
def _inside(exists, first, vectors, LANES: tl.constexpr, TAIL: tl.constexpr):
    """Return which vectors of a tile there are: all or none where every tile is full."""
    inside = exists
    if TAIL:
        inside = exists & (first + tl.arange(0, LANES) < vectors)[:, None]
    return inside


@triton.jit
def load_tiles(
    start, first, vectors, exists, nothing,
    LANES: tl.constexpr, VECTOR: tl.constexpr, TILES: tl.constexpr,
    TAIL: tl.constexpr, MASKED: tl.constexpr, KEEP: tl.constexpr,
):  # fmt: skip
    """Return the tiles from vector ``first`` on; ``nothing`` is what stands beyond the last one.
    MASKED: none is loaded unless the part exists."""
    at = tile_at(start, first, VECTOR, LANES)
    kept = ()
    for tile in tl.static_range(TILES):
        place = at + tile * (LANES * WORDS)
        if TAIL or MASKED:
            inside = _inside(exists, first + tile * LANES, vectors, LANES, TAIL)
            kept = kept + (tl.load(place, mask=inside, other=nothing, eviction_policy=KEEP),)
        else:
            kept = kept + (tl.load(place, eviction_policy=KEEP),)
    return kept


@triton.jit
def store_tile(
    start, first, vectors, words,
    LANES: tl.constexpr, VECTOR: tl.constexpr, TAIL: tl.constexpr, DROP: tl.constexpr,
):  # fmt: skip
    at = tile_at(start, first, VECTOR, LANES)
    if TAIL:
        inside = _inside(True, first, vectors, LANES, TAIL)
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
def load_edge(row, head, columns, other, exists, EDGE: tl.constexpr, VECTOR: tl.constexpr):
    """Return the row's edge, or numbers that nobody uses."""
    edge = tl.zeros([2 * VECTOR], row.dtype.element_ty)
    if EDGE:
        column, there = _edge_columns(head, columns, VECTOR)
        edge = tl.load(row + column, mask=there & exists, other=other)
    return edge


@triton.jit
def statistics_of(kept, LANES: tl.constexpr, TILES: tl.constexpr, KIND: tl.constexpr):
    """Return peak and total of the tiles."""
    peak = tl.full([LANES], float("-inf"), tl.float32)
    total = tl.zeros([LANES], tl.float32)
    for tile in tl.static_range(TILES):
        peak, total = fold_words(peak, total, kept[tile], KIND)
    return join(peak, total)


@triton.jit
def sum_of(y, dy, LANES: tl.constexpr, TILES: tl.constexpr, LOG: tl.constexpr, KIND: tl.constexpr):
    sums = tl.zeros([LANES], tl.float32)
    for tile in tl.static_range(TILES):
        sums = sum_words(sums, y[tile], dy[tile], LOG, KIND)
    return tl.sum(sums, axis=0)


@triton.jit
def write_tiles(
    out, first, vectors, kept, top, weight, LOG: tl.constexpr, KIND: tl.constexpr,
    LANES: tl.constexpr, VECTOR: tl.constexpr, TILES: tl.constexpr,
    TAIL: tl.constexpr, ASSEMBLY: tl.constexpr, DROP: tl.constexpr,
):  # fmt: skip
    """Write softmax of the tiles from vector ``first`` of a row on."""
    for tile in tl.static_range(TILES):
        words = _normal_words(kept[tile], top, weight, LOG, KIND, ASSEMBLY)
        store_tile(out, first + tile * LANES, vectors, words, LANES, VECTOR, TAIL, DROP)


@triton.jit
def write_edge(
    out, head, columns, edge, top, weight, mine,
    LOG: tl.constexpr, EDGE: tl.constexpr, VECTOR: tl.constexpr,
):  # fmt: skip
    if EDGE:
        column, there = _edge_columns(head, columns, VECTOR)
        y = normalise(edge, top, weight, LOG)
        tl.store(out + column, y, mask=there & mine)


@triton.jit
def write_gradients(
    out, first, vectors, y, dy, total, LOG: tl.constexpr, KIND: tl.constexpr,
    LANES: tl.constexpr, VECTOR: tl.constexpr, TILES: tl.constexpr,
    TAIL: tl.constexpr, ASSEMBLY: tl.constexpr, DROP: tl.constexpr,
):  # fmt: skip
    for tile in tl.static_range(TILES):
        words = _gradient_words(y[tile], dy[tile], total, LOG, KIND, ASSEMBLY)
        store_tile(out, first + tile * LANES, vectors, words, LANES, VECTOR, TAIL, DROP)


@triton.jit
def write_gradient_edge(
    out, head, columns, y, dy, total, mine,
    LOG: tl.constexpr, EDGE: tl.constexpr, VECTOR: tl.constexpr,
):  # fmt: skip
    if EDGE:
        column, there = _edge_columns(head, columns, VECTOR)
        tl.store(out + column, gradient(y, dy, total, LOG), mask=there & mine)


@triton.jit
def tiled_forward(
    x_ptr, y_ptr, columns, x_stride, y_stride,
    LOG: tl.constexpr, TILES: tl.constexpr, ASSEMBLY: tl.constexpr,
    LANES: tl.constexpr, VECTOR: tl.constexpr, ITEM: tl.constexpr, ALIGNED: tl.constexpr,
    PEEL: tl.constexpr, TAIL: tl.constexpr, EDGE: tl.constexpr,
    KEEP: tl.constexpr, DROP: tl.constexpr,
):  # fmt: skip
    KIND: tl.constexpr = x_ptr.dtype.element_ty
    row = tl.program_id(0)
    x = row_of(x_ptr, row, x_stride, VECTOR, ALIGNED)
    y = row_of(y_ptr, row, y_stride, VECTOR, ALIGNED)
    head = _head_elements(x, columns, ITEM, PEEL)
    vectors = (columns - head) // VECTOR
    kept = load_tiles(
        _first_vector(x, head, PEEL), 0, vectors, True, nothing_of(KIND),
        LANES, VECTOR, TILES, TAIL, False, KEEP,
    )  # fmt: skip
    edge = load_edge(x, head, columns, float("-inf"), True, EDGE, VECTOR)
    top, weight = statistics_of(kept, LANES, TILES, KIND)
    if EDGE:
        top, weight = _with_more(edge.to(tl.float32), top, weight)
    write_tiles(
        _first_vector(y, head, PEEL), 0, vectors, kept, top, weight,
        LOG, KIND, LANES, VECTOR, TILES, TAIL, ASSEMBLY, DROP,
    )  # fmt: skip
    write_edge(y, head, columns, edge, top, weight, True, LOG, EDGE, VECTOR)


@triton.jit
def tiled_loss(
    x_ptr, target_ptr, loss_ptr, lse_ptr, columns, x_stride, ignored,
    TILES: tl.constexpr,
    LANES: tl.constexpr, VECTOR: tl.constexpr, ITEM: tl.constexpr, ALIGNED: tl.constexpr,
    PEEL: tl.constexpr, TAIL: tl.constexpr, EDGE: tl.constexpr, KEEP: tl.constexpr,
):  # fmt: skip
    KIND: tl.constexpr = x_ptr.dtype.element_ty
    x = row_of(x_ptr, tl.program_id(0), x_stride, VECTOR, ALIGNED)
    target = tl.load(target_ptr + tl.program_id(0))
    head = _head_elements(x, columns, ITEM, PEEL)
    kept = load_tiles(
        _first_vector(x, head, PEEL), 0, (columns - head) // VECTOR, True, nothing_of(KIND),
        LANES, VECTOR, TILES, TAIL, False, KEEP,
    )  # fmt: skip
    edge = load_edge(x, head, columns, float("-inf"), True, EDGE, VECTOR)
    top, weight = statistics_of(kept, LANES, TILES, KIND)
    if EDGE:
        top, weight = _with_more(edge.to(tl.float32), top, weight)
    _write_loss(x, target, loss_ptr, lse_ptr, top, weight, columns, ignored)


@triton.jit
def tiled_backward(
    y_ptr, dy_ptr, dx_ptr, columns, saved_stride, dy_stride, dx_stride,
    LOG: tl.constexpr, TILES: tl.constexpr, ASSEMBLY: tl.constexpr,
    LANES: tl.constexpr, VECTOR: tl.constexpr, ITEM: tl.constexpr, ALIGNED: tl.constexpr,
    PEEL: tl.constexpr, TAIL: tl.constexpr, EDGE: tl.constexpr,
    KEEP: tl.constexpr, DROP: tl.constexpr,
):  # fmt: skip
    KIND: tl.constexpr = y_ptr.dtype.element_ty
    row = tl.program_id(0)
    y = row_of(y_ptr, row, saved_stride, VECTOR, ALIGNED)
    dy = row_of(dy_ptr, row, dy_stride, VECTOR, ALIGNED)
    dx = row_of(dx_ptr, row, dx_stride, VECTOR, ALIGNED)
    head = _head_elements(dy, columns, ITEM, PEEL)
    vectors = (columns - head) // VECTOR
    y_kept = load_tiles(
        _first_vector(y, head, PEEL), 0, vectors, True, 0,
        LANES, VECTOR, TILES, TAIL, False, KEEP,
    )  # fmt: skip
    dy_kept = load_tiles(
        _first_vector(dy, head, PEEL), 0, vectors, True, 0,
        LANES, VECTOR, TILES, TAIL, False, KEEP,
    )  # fmt: skip
    y_edge = load_edge(y, head, columns, 0.0, True, EDGE, VECTOR)
    dy_edge = load_edge(dy, head, columns, 0.0, True, EDGE, VECTOR)
    total = sum_of(y_kept, dy_kept, LANES, TILES, LOG, KIND)
    if EDGE:
        total += tl.sum(_summand(y_edge, dy_edge, LOG), axis=0)
    write_gradients(
        _first_vector(dx, head, PEEL), 0, vectors, y_kept, dy_kept, total,
        LOG, KIND, LANES, VECTOR, TILES, TAIL, ASSEMBLY, DROP,
    )  # fmt: skip
    write_gradient_edge(dx, head, columns, y_edge, dy_edge, total, True, LOG, EDGE, VECTOR)
