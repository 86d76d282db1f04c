# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
# mypy: disable-error-code="assignment, attr-defined"
# ruff: noqa: ANN001, ANN202, RUF005 (arguments of kernels have no Python types)
"""Long rows read once: each of the blocks of a row keeps a part of it in registers; forward.

A block loads its part, takes the statistics (peak, total) of it, tells them to the row's other
blocks, waits for theirs, and writes its part from registers.

Programs with numbers in a row belong to one row, and GPUs start them in that order, so that those
of a row run at the same time where there is room for them. Nothing depends on it: see
_softmax_words for what they tell one another, and what happens where it does not come.

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
from ._softmax_words import chunk_at, packed, told_by_all


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
    words = words_ptr + row * chunks
    tl.atomic_xchg(words + part, packed(top, weight), sem="relaxed")
    top, weight = told_by_all(
        words, start, chunks, vectors, edge, statistics_of_part,
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
