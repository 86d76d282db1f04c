# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
# mypy: disable-error-code="assignment, attr-defined"
# ruff: noqa: ANN001, ANN202, RUF005 (arguments of kernels have no Python types)
"""Long rows read once: each of the blocks of a row keeps a part of it in registers; forward.

A block loads its part, takes the statistics (peak, total) of it, tells them to the row's other
blocks, waits for theirs, and writes its part from registers.

What a block tells is one word of 64 bits, the bits of the peak above those of the total, put in
place by one atomic exchange. It is both the value and the news that it is there, so nothing has to
be fenced or counted. Words are zero before the launch, and 0 is no such pair:

* a total of 0 goes with a peak of −∞, whose bits are 0xff800000: no element is above −∞;
* a peak of +0.0, whose bits are 0, goes with a total of 1 or more: its own exponential is 1;
* NaN, wherever it is, has bits.

Programs with numbers in a row belong to one row, and GPUs start them in that order, so that those
of a row run at the same time where there is room for them. Nothing depends on it: who has looked
PATIENCE times computes what is missing itself and tells it for the others (Triton's interpreter,
which runs one program after the other, looks once). It goes through the same tiles in the same
order and joins in the same order, so that the result has the same bits.

Constants as in _softmax_statistics, and
    CHUNK       elements of a part: TILES tiles, of as many LANES as threads or more
    PARTS       the next power of two of the parts of a row
    TAIL        some tile of some row is not full; all are masked then, by whole vectors
    OPAQUE      the compiler is kept from holding a part in float32
    KEEP, DROP  eviction policies of loads and of stores
"""

from __future__ import annotations

import triton
import triton.language as tl

from ._softmax_held import hidden
from ._softmax_lagged import chunk_at
from ._softmax_opaque import INTERPRETED
from ._softmax_statistics import (
    edge_columns,
    first_vector,
    fold,
    head_elements,
    join,
    normalised,
    with_more,
)

MISSING = tl.constexpr(0)
NOTHING = tl.constexpr(-0x80_0000 << 32)
"""The word of (−∞, 0), of parts that do not exist: as a signed number 0xff800000 × 2^32."""
LOW_WORD = tl.constexpr(0xFFFF_FFFF)


@triton.jit
def packed(peak, total):
    high = peak.to(tl.int32, bitcast=True).to(tl.int64) << 32
    return high | (total.to(tl.int32, bitcast=True).to(tl.int64) & LOW_WORD)


@triton.jit
def unpacked(words):
    peak = (words >> 32).to(tl.int32).to(tl.float32, bitcast=True)
    return peak, words.to(tl.int32).to(tl.float32, bitcast=True)


@triton.jit
def part_tile(start, first, vectors, LANES: tl.constexpr, VECTOR: tl.constexpr):
    """Where the tile is that begins with vector ``first`` of a row, and which vectors exist."""
    lane = first + tl.arange(0, LANES)
    at = start + ((lane * VECTOR)[:, None] + tl.arange(0, VECTOR)[None, :])
    return at, (lane < vectors)[:, None]


@triton.jit
def statistics_of_part(
    start, part, vectors, edge,
    LANES: tl.constexpr, VECTOR: tl.constexpr, TILES: tl.constexpr, EDGE: tl.constexpr,
):  # fmt: skip
    """The pair that the program of this part would have told, added up in the same order."""
    peak = tl.full([LANES], float("-inf"), tl.float32)
    total = tl.zeros([LANES], tl.float32)
    begin = part * (TILES * LANES)
    for first in tl.range(begin, tl.minimum(begin + TILES * LANES, vectors), LANES):
        at, inside = part_tile(start, first, vectors, LANES, VECTOR)
        x = tl.load(at, mask=inside, other=float("-inf"))
        peak, total = fold(peak, total, x.to(tl.float32))
        tl.debug_barrier()  # which cannot be copied: the loop stays rolled, in few registers
    top, weight = join(peak, total)
    if EDGE:
        top, weight = with_more(tl.where(part == 0, edge, float("-inf")), top, weight)
    return top, weight


@triton.jit
def told_by_all(
    words, mine, start, part, chunks, vectors, edge,
    PARTS: tl.constexpr, PATIENCE: tl.constexpr,
    LANES: tl.constexpr, VECTOR: tl.constexpr, TILES: tl.constexpr, EDGE: tl.constexpr,
):  # fmt: skip
    """The statistics of the row, from the words of all its programs."""
    other = tl.arange(0, PARTS)
    exists = other < chunks
    tl.atomic_xchg(words + part, mine, sem="relaxed")
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
                top, weight = statistics_of_part(
                    start, which, vectors, edge, LANES, VECTOR, TILES, EDGE
                )
                word = packed(top, weight)
                tl.atomic_xchg(words + which, word, sem="relaxed")
            seen = tl.where(other == which, word, seen)
    peaks, totals = unpacked(seen)
    return join(peaks, totals)


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
    """``chunks`` programs per row. The row's edge belongs to its first part."""
    TILES: tl.constexpr = CHUNK // (LANES * VECTOR)
    row = tl.program_id(0) // chunks
    part = tl.program_id(0) - row * chunks
    x = chunk_at(x_ptr, row, 0, x_stride, VECTOR, ALIGNED)
    y = chunk_at(y_ptr, row, 0, y_stride, VECTOR, ALIGNED)
    head = head_elements(x, columns, ITEM, PEEL)
    start = first_vector(x, head, PEEL)
    vectors = (columns - head) // VECTOR
    kept = ()
    for tile in tl.static_range(TILES):
        at, inside = part_tile(start, (part * TILES + tile) * LANES, vectors, LANES, VECTOR)
        if TAIL:
            loaded = tl.load(at, mask=inside, other=float("-inf"), eviction_policy=KEEP)
        else:
            loaded = tl.load(at, eviction_policy=KEEP)
        kept = kept + (loaded,)
    edge = 0.0
    if EDGE:
        column, there = edge_columns(head, columns, VECTOR)
        edge = tl.load(x + column, mask=there, other=float("-inf")).to(tl.float32)
    peak = tl.full([LANES], float("-inf"), tl.float32)
    total = tl.zeros([LANES], tl.float32)
    for tile in tl.static_range(TILES):
        peak, total = fold(peak, total, kept[tile].to(tl.float32))
    top, weight = join(peak, total)
    if EDGE:
        top, weight = with_more(tl.where(part == 0, edge, float("-inf")), top, weight)
    looks: tl.constexpr = 1 if INTERPRETED else PATIENCE
    top, weight = told_by_all(
        words_ptr + row * chunks, packed(top, weight), start, part, chunks, vectors, edge,
        PARTS, looks, LANES, VECTOR, TILES, EDGE,
    )  # fmt: skip
    to = first_vector(y, head, PEEL)
    for tile in tl.static_range(TILES):
        at, inside = part_tile(to, (part * TILES + tile) * LANES, vectors, LANES, VECTOR)
        out = normalised(hidden(kept[tile], OPAQUE), top, weight, LOG)
        if TAIL:
            tl.store(at, out, mask=inside, eviction_policy=DROP)
        else:
            tl.store(at, out, eviction_policy=DROP)
    if EDGE:
        mine = there & (part == 0)
        # As other elements are written: in half precision by another formula than float32's.
        narrow = edge.to(x_ptr.dtype.element_ty)
        tl.store(y + column, normalised(narrow, top, weight, LOG), mask=mine)
