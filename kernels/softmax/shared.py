# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
# mypy: disable-error-code="assignment, attr-defined"
# ruff: noqa: ANN001, RUF005 (arguments of kernels have no Python types)
"""Reads long rows once: each of the blocks of a row keeps a part of it in registers; forward.

A block loads its part, takes the statistics (peak, total) of it, tells them to the row's other
blocks, waits for theirs, and writes its part from registers.

Programs with numbers in a row belong to one row, and GPUs start them in that order, so that those
of a row run at the same time where there is room for them. Nothing depends on it: what they
tell one another, and what happens where it does not come, stands at ``_told_by_all``.

Constants as in rows.py, and
    CHUNK       elements of a part: TILES tiles, of as many LANES as threads or more
    PARTS       the next power of two of the parts of a row
    TAIL        some tile of some row is not full; all are masked then, by whole vectors
    OPAQUE      the compiler is kept from holding a part in float32
    KEEP, DROP  eviction policies of loads and of stores
"""

from __future__ import annotations

import triton
import triton.language as tl

from .looped import _hide
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

MISSING = tl.constexpr(0)
NOTHING = tl.constexpr(-0x80_0000 << 32)
"""The word of (−∞, 0), of parts that do not exist: as a signed number 0xff800000 × 2^32."""
LOW_WORD = tl.constexpr(0xFFFF_FFFF)


@triton.jit
def _pack(peak, total):
    high = peak.to(tl.int32, bitcast=True).to(tl.int64) << 32
    return high | (total.to(tl.int32, bitcast=True).to(tl.int64) & LOW_WORD)


@triton.jit
def _unpack(words):
    peak = (words >> 32).to(tl.int32).to(tl.float32, bitcast=True)
    return peak, words.to(tl.int32).to(tl.float32, bitcast=True)


@triton.jit
def _chunk_at(pointer, row, first, stride, VECTOR: tl.constexpr, ALIGNED: tl.constexpr):
    offset = row.to(tl.int64) * stride
    if ALIGNED:
        offset = tl.multiple_of(offset, VECTOR)
    return pointer + offset + first


@triton.jit
def _told_by_all(
    words, start, chunks, vectors, edge, OF_PART: tl.constexpr,
    PARTS: tl.constexpr, PATIENCE: tl.constexpr,
    LANES: tl.constexpr, VECTOR: tl.constexpr, TILES: tl.constexpr, EDGE: tl.constexpr,
):  # fmt: skip
    """Return the statistics of the row, from the words of all its programs. OF_PART gives those of
    a part as its own program would have added them up: tiles in the same order, and so the same
    bits."""
    other = tl.arange(0, PARTS)
    exists = other < chunks
    seen = tl.load(words + other, mask=exists, other=NOTHING, volatile=True)
    missing = tl.max((seen == MISSING).to(tl.int32), axis=0)
    looks = 0
    while (missing > 0) & (looks < PATIENCE):
        seen = tl.load(words + other, mask=exists, other=NOTHING, volatile=True)
        missing = tl.max((seen == MISSING).to(tl.int32), axis=0)
        looks += 1
    # Every warp looks for itself; a maximum over the block makes them agree on what follows. The
    # condition always holds, which the compiler does not know.
    everywhere = tl.arange(0, LANES) + chunks > 0
    if tl.max(tl.where(everywhere, missing, 0), axis=0) > 0:
        seen = tl.full([PARTS], NOTHING, tl.int64)
        for which in tl.range(0, chunks):
            word = tl.load(words + which, volatile=True)
            if tl.max(tl.where(everywhere & (word == MISSING), 1, 0), axis=0) > 0:
                top, weight = OF_PART(start, which, vectors, edge, LANES, VECTOR, TILES, EDGE)
                word = _pack(top, weight)
                tl.atomic_xchg(words + which, word, sem="relaxed")
            seen = tl.where(other == which, word, seen)
    peaks, totals = _unpack(seen)
    return join(peaks, totals)


@triton.jit
def _part_tile(start, first, vectors, LANES: tl.constexpr, VECTOR: tl.constexpr):
    """Return where the tile is that begins with vector ``first`` of a row, and which vectors
    exist."""
    lane = first + tl.arange(0, LANES)
    at = start + ((lane * VECTOR)[:, None] + tl.arange(0, VECTOR)[None, :])
    return at, (lane < vectors)[:, None]


@triton.jit
def _statistics_of_part(
    start, part, vectors, edge,
    LANES: tl.constexpr, VECTOR: tl.constexpr, TILES: tl.constexpr, EDGE: tl.constexpr,
):  # fmt: skip
    """Return the pair that the program of this part would have told, added up in the same order."""
    peak = tl.full([LANES], float("-inf"), tl.float32)
    total = tl.zeros([LANES], tl.float32)
    begin = part * (TILES * LANES)
    for first in tl.range(begin, tl.minimum(begin + TILES * LANES, vectors), LANES):
        at, inside = _part_tile(start, first, vectors, LANES, VECTOR)
        x = tl.load(at, mask=inside, other=float("-inf"))
        peak, total = _fold(peak, total, x.to(tl.float32))
        tl.debug_barrier()  # which cannot be copied: the loop stays rolled, in few registers
    top, weight = join(peak, total)
    if EDGE:
        top, weight = _with_more(tl.where(part == 0, edge, float("-inf")), top, weight)
    return top, weight


@triton.jit(do_not_specialize=["chunks"])
def cooperative_forward(
    x_ptr,
    y_ptr,
    words_ptr,
    chunks,
    columns,
    x_stride,
    y_stride,
    PARTS: tl.constexpr,
    LOG: tl.constexpr,
    CHUNK: tl.constexpr,
    PATIENCE: tl.constexpr,
    OPAQUE: tl.constexpr,
    LANES: tl.constexpr,
    VECTOR: tl.constexpr,
    ITEM: tl.constexpr,
    ALIGNED: tl.constexpr,
    PEEL: tl.constexpr,
    TAIL: tl.constexpr,
    EDGE: tl.constexpr,
    KEEP: tl.constexpr,
    DROP: tl.constexpr,
):
    """Compute a row with ``chunks`` programs. The row's edge belongs to its first part."""
    TILES: tl.constexpr = CHUNK // (LANES * VECTOR)
    row = tl.program_id(0) // chunks
    part = tl.program_id(0) - row * chunks
    x = _chunk_at(x_ptr, row, 0, x_stride, VECTOR, ALIGNED)
    y = _chunk_at(y_ptr, row, 0, y_stride, VECTOR, ALIGNED)
    head = _head_elements(x, columns, ITEM, PEEL)
    start = _first_vector(x, head, PEEL)
    vectors = (columns - head) // VECTOR
    kept = ()
    for tile in tl.static_range(TILES):
        at, inside = _part_tile(start, (part * TILES + tile) * LANES, vectors, LANES, VECTOR)
        if TAIL:
            loaded = tl.load(at, mask=inside, other=float("-inf"), eviction_policy=KEEP)
        else:
            loaded = tl.load(at, eviction_policy=KEEP)
        kept = kept + (loaded,)
    edge = 0.0
    if EDGE:
        column, there = _edge_columns(head, columns, VECTOR)
        edge = tl.load(x + column, mask=there, other=float("-inf")).to(tl.float32)
    peak = tl.full([LANES], float("-inf"), tl.float32)
    total = tl.zeros([LANES], tl.float32)
    for tile in tl.static_range(TILES):
        peak, total = _fold(peak, total, kept[tile].to(tl.float32))
    top, weight = join(peak, total)
    if EDGE:
        top, weight = _with_more(tl.where(part == 0, edge, float("-inf")), top, weight)
    looks: tl.constexpr = 1 if INTERPRETED else PATIENCE
    words = words_ptr + row * chunks
    tl.atomic_xchg(words + part, _pack(top, weight), sem="relaxed")
    top, weight = _told_by_all(
        words, start, chunks, vectors, edge, _statistics_of_part,
        PARTS, looks, LANES, VECTOR, TILES, EDGE,
    )  # fmt: skip
    to = _first_vector(y, head, PEEL)
    for tile in tl.static_range(TILES):
        at, inside = _part_tile(to, (part * TILES + tile) * LANES, vectors, LANES, VECTOR)
        out = normalise(_hide(kept[tile], OPAQUE), top, weight, LOG)
        if TAIL:
            tl.store(at, out, mask=inside, eviction_policy=DROP)
        else:
            tl.store(at, out, eviction_policy=DROP)
    if EDGE:
        mine = there & (part == 0)
        # As other elements are written: in half precision by another formula than float32's.
        narrow = edge.to(x_ptr.dtype.element_ty)
        tl.store(y + column, normalise(narrow, top, weight, LOG), mask=mine)


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
def _pair(first, second, KIND: tl.constexpr):
    """Return two float32 as one word, rounded to nearest even."""
    if INTERPRETED:
        below = first.to(KIND).to(tl.int16, bitcast=True).to(tl.int32) & 0xFFFF
        return below | (second.to(KIND).to(tl.int16, bitcast=True).to(tl.int32) << 16)
    return tl.inline_asm_elementwise(
        CONVERT_BF16 if tl.bfloat16 == KIND else CONVERT_FP16,
        "=r,r,r",
        [second, first],
        dtype=tl.int32,
        is_pure=True,
        pack=1,
    )


@triton.jit
def _fold_pairs(peak, total, pair, KIND: tl.constexpr):
    """Fold one more tile [LANES, VECTOR / 2] of pairs into the lanes' statistics."""
    first = _low(pair, KIND)
    second = _high(pair, KIND)
    new = tl.maximum(peak, tl.max(tl.maximum(first, second), axis=1))
    base = _above_minus_infinity(new)
    old = total * tl.exp2((peak - base) * LOG2_E)
    each = base[:, None]
    both = tl.exp2((first - each) * LOG2_E) + tl.exp2((second - each) * LOG2_E)
    return new, old + tl.sum(both, axis=1)


@triton.jit
def _pair_offsets(LANES: tl.constexpr, VECTOR: tl.constexpr):
    """Return the offsets of a tile, in words of 32 bits."""
    WORDS: tl.constexpr = VECTOR // 2
    return (tl.arange(0, LANES) * WORDS)[:, None] + tl.arange(0, WORDS)[None, :]


@triton.jit
def _statistics_of_pairs(
    start, part, vectors, edge,
    LANES: tl.constexpr, VECTOR: tl.constexpr, TILES: tl.constexpr, EDGE: tl.constexpr,
):  # fmt: skip
    """Return the pair that the program of this part would have told, added up in the same order."""
    KIND: tl.constexpr = start.dtype.element_ty
    nothing: tl.constexpr = NOTHING_BF16 if tl.bfloat16 == KIND else NOTHING_FP16
    peak = tl.full([LANES], float("-inf"), tl.float32)
    total = tl.zeros([LANES], tl.float32)
    begin = part * (TILES * LANES)
    for first in tl.range(begin, tl.minimum(begin + TILES * LANES, vectors), LANES):
        at = (start + first * VECTOR).to(tl.pointer_type(tl.int32)) + _pair_offsets(LANES, VECTOR)
        inside = (first + tl.arange(0, LANES) < vectors)[:, None]
        pair = tl.load(at, mask=inside, other=nothing)
        peak, total = _fold_pairs(peak, total, pair, KIND)
        tl.debug_barrier()  # which cannot be copied: the loop stays rolled, in few registers
    return join(peak, total)


@triton.jit
def _inside_row(exists, first, vectors, LANES: tl.constexpr, TAIL: tl.constexpr):
    """Return which vectors of a tile there are; all or none where every tile of every row is
    full."""
    inside = exists
    if TAIL:
        inside = exists & (first + tl.arange(0, LANES) < vectors)[:, None]
    return inside


@triton.jit
def _load_part(
    x_ptr, item, items, chunks, vectors, x_stride,
    LANES: tl.constexpr, VECTOR: tl.constexpr, TILES: tl.constexpr,
    TAIL: tl.constexpr, KEEP: tl.constexpr,
):  # fmt: skip
    """Return the tiles of a part, as pairs; nothing is loaded beyond the last one."""
    KIND: tl.constexpr = x_ptr.dtype.element_ty
    nothing: tl.constexpr = NOTHING_BF16 if tl.bfloat16 == KIND else NOTHING_FP16
    row = item // chunks
    first = (item - row * chunks) * (TILES * LANES)
    x = _chunk_at(x_ptr, row, first * VECTOR, x_stride, VECTOR, True)
    at = x.to(tl.pointer_type(tl.int32)) + _pair_offsets(LANES, VECTOR)
    kept = ()
    for tile in tl.static_range(TILES):
        inside = _inside_row(item < items, first + tile * LANES, vectors, LANES, TAIL)
        word = tile * (LANES * (VECTOR // 2))
        kept = kept + (tl.load(at + word, mask=inside, other=nothing, eviction_policy=KEEP),)
    return kept


@triton.jit(do_not_specialize=["items", "chunks"])
def streamed_forward(
    x_ptr,
    y_ptr,
    words_ptr,
    items,
    chunks,
    columns,
    x_stride,
    y_stride,
    PARTS: tl.constexpr,
    LOG: tl.constexpr,
    CHUNK: tl.constexpr,
    PATIENCE: tl.constexpr,
    LANES: tl.constexpr,
    VECTOR: tl.constexpr,
    TAIL: tl.constexpr,
    KEEP: tl.constexpr,
    DROP: tl.constexpr,
):
    """Compute ``items`` parts in all, ``chunks`` of them per row."""
    TILES: tl.constexpr = CHUNK // (LANES * VECTOR)
    KIND: tl.constexpr = x_ptr.dtype.element_ty
    looks: tl.constexpr = 1 if INTERPRETED else PATIENCE
    vectors = columns // VECTOR
    step = tl.num_programs(0)
    kept = _load_part(
        x_ptr, tl.program_id(0), items, chunks, vectors, x_stride, LANES, VECTOR, TILES, TAIL, KEEP
    )
    for item in tl.range(tl.program_id(0), items, step, num_stages=1):
        row = item // chunks
        first = (item - row * chunks) * (TILES * LANES)
        peak = tl.full([LANES], float("-inf"), tl.float32)
        total = tl.zeros([LANES], tl.float32)
        for tile in tl.static_range(TILES):
            peak, total = _fold_pairs(peak, total, kept[tile], KIND)
        top, weight = join(peak, total)
        tl.atomic_xchg(words_ptr + item, _pack(top, weight), sem="relaxed")
        following = _load_part(
            x_ptr, item + step, items, chunks, vectors, x_stride, LANES, VECTOR, TILES, TAIL, KEEP
        )
        start = _chunk_at(x_ptr, row, 0, x_stride, VECTOR, True)
        top, weight = _told_by_all(
            words_ptr + row * chunks, start, chunks, vectors, 0.0, _statistics_of_pairs,
            PARTS, looks, LANES, VECTOR, TILES, False,
        )  # fmt: skip
        y = _chunk_at(y_ptr, row, first * VECTOR, y_stride, VECTOR, True)
        to = y.to(tl.pointer_type(tl.int32)) + _pair_offsets(LANES, VECTOR)
        scale = tl.log(weight) if LOG else tl.log2(weight)
        for tile in tl.static_range(TILES):
            pair = opaque(kept[tile])
            one = _low(pair, KIND) - top
            two = _high(pair, KIND) - top
            if LOG:
                out = _pair(one - scale, two - scale, KIND)
            else:
                out = _pair(tl.exp2(one * LOG2_E - scale), tl.exp2(two * LOG2_E - scale), KIND)
            word = tile * (LANES * (VECTOR // 2))
            if TAIL:
                inside = _inside_row(item < items, first + tile * LANES, vectors, LANES, TAIL)
                tl.store(to + word, out, mask=inside, eviction_policy=DROP)
            else:
                tl.store(to + word, out, eviction_policy=DROP)
        kept = following
