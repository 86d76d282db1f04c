# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
# mypy: disable-error-code="assignment, attr-defined"
# ruff: noqa: ANN001, ANN202, RUF005 (arguments of kernels have no Python types)
"""Long rows of half precision read once, with loads under way all the time; forward.

As in _softmax_cooperative each block keeps a part of a row in registers, tells its statistics in a
word and waits for the words of the row's other parts. There a block that waits has nothing under
way, and the memory idles. Here as many blocks as fit on the device go from part to part, and the
loads of a block's next part are issued before it waits: bytes are in flight while it waits, while
it computes and while it writes.

That takes registers for two parts at a time. Parts are kept as pairs of halves in words of 32 bits,
as they lie in memory: a half that is carried from one round of a loop to the next has a register of
its own, of which it needs the half. Words are made opaque before they are written, or the compiler
keeps the float32 values that the statistics were made of.

Parts are counted through all rows; program *p* of *P* takes parts *p, p + P, p + 2P …*. A part
waits for its row alone, whose other programs can only be busy with earlier rows: programs that are
all resident never wait in a circle where a row has no more parts than there are programs (the
planner sees to it). Neither termination nor the result depends on it: after PATIENCE looks a
program computes what is missing itself, by the fold of pairs below and in the same order, to the
same bits (_softmax_words).

Constants as in _softmax_cooperative; all rows begin at multiples of 16 bytes and are made of whole
vectors.
"""

from __future__ import annotations

import triton
import triton.language as tl

from ._softmax_opaque import INTERPRETED, opaque
from ._softmax_pairs import NOTHING_BF16, NOTHING_FP16, fold_pairs, high, low, paired
from ._softmax_statistics import LOG2_E, join
from ._softmax_words import chunk_at, packed, told_by_all


@triton.jit
def pair_offsets(LANES: tl.constexpr, VECTOR: tl.constexpr):
    """Of a tile, in words of 32 bits."""
    WORDS: tl.constexpr = VECTOR // 2
    return (tl.arange(0, LANES) * WORDS)[:, None] + tl.arange(0, WORDS)[None, :]


@triton.jit
def statistics_of_pairs(
    start, part, vectors, edge,
    LANES: tl.constexpr, VECTOR: tl.constexpr, TILES: tl.constexpr, EDGE: tl.constexpr,
):  # fmt: skip
    """The pair that the program of this part would have told, added up in the same order."""
    KIND: tl.constexpr = start.dtype.element_ty
    nothing: tl.constexpr = NOTHING_BF16 if tl.bfloat16 == KIND else NOTHING_FP16
    peak = tl.full([LANES], float("-inf"), tl.float32)
    total = tl.zeros([LANES], tl.float32)
    begin = part * (TILES * LANES)
    for first in tl.range(begin, tl.minimum(begin + TILES * LANES, vectors), LANES):
        at = (start + first * VECTOR).to(tl.pointer_type(tl.int32)) + pair_offsets(LANES, VECTOR)
        inside = (first + tl.arange(0, LANES) < vectors)[:, None]
        pair = tl.load(at, mask=inside, other=nothing)
        peak, total = fold_pairs(peak, total, pair, KIND)
        tl.debug_barrier()  # which cannot be copied: the loop stays rolled, in few registers
    return join(peak, total)


@triton.jit
def inside_row(exists, first, vectors, LANES: tl.constexpr, TAIL: tl.constexpr):
    """Which vectors of a tile there are; all or none where every tile of every row is full."""
    inside = exists
    if TAIL:
        inside = exists & (first + tl.arange(0, LANES) < vectors)[:, None]
    return inside


@triton.jit
def loaded_part(
    x_ptr, item, items, chunks, vectors, x_stride,
    LANES: tl.constexpr, VECTOR: tl.constexpr, TILES: tl.constexpr,
    TAIL: tl.constexpr, KEEP: tl.constexpr,
):  # fmt: skip
    """The tiles of a part, as pairs; nothing is loaded beyond the last one."""
    KIND: tl.constexpr = x_ptr.dtype.element_ty
    nothing: tl.constexpr = NOTHING_BF16 if tl.bfloat16 == KIND else NOTHING_FP16
    row = item // chunks
    first = (item - row * chunks) * (TILES * LANES)
    x = chunk_at(x_ptr, row, first * VECTOR, x_stride, VECTOR, True)
    at = x.to(tl.pointer_type(tl.int32)) + pair_offsets(LANES, VECTOR)
    kept = ()
    for tile in tl.static_range(TILES):
        inside = inside_row(item < items, first + tile * LANES, vectors, LANES, TAIL)
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
    """``items`` parts in all, ``chunks`` of them per row."""
    TILES: tl.constexpr = CHUNK // (LANES * VECTOR)
    KIND: tl.constexpr = x_ptr.dtype.element_ty
    looks: tl.constexpr = 1 if INTERPRETED else PATIENCE
    vectors = columns // VECTOR
    step = tl.num_programs(0)
    kept = loaded_part(
        x_ptr, tl.program_id(0), items, chunks, vectors, x_stride, LANES, VECTOR, TILES, TAIL, KEEP
    )
    for item in tl.range(tl.program_id(0), items, step, num_stages=1):
        row = item // chunks
        first = (item - row * chunks) * (TILES * LANES)
        peak = tl.full([LANES], float("-inf"), tl.float32)
        total = tl.zeros([LANES], tl.float32)
        for tile in tl.static_range(TILES):
            peak, total = fold_pairs(peak, total, kept[tile], KIND)
        top, weight = join(peak, total)
        tl.atomic_xchg(words_ptr + item, packed(top, weight), sem="relaxed")
        following = loaded_part(
            x_ptr, item + step, items, chunks, vectors, x_stride, LANES, VECTOR, TILES, TAIL, KEEP
        )
        start = chunk_at(x_ptr, row, 0, x_stride, VECTOR, True)
        top, weight = told_by_all(
            words_ptr + row * chunks, start, chunks, vectors, 0.0, statistics_of_pairs,
            PARTS, looks, LANES, VECTOR, TILES, False,
        )  # fmt: skip
        y = chunk_at(y_ptr, row, first * VECTOR, y_stride, VECTOR, True)
        to = y.to(tl.pointer_type(tl.int32)) + pair_offsets(LANES, VECTOR)
        scale = tl.log(weight) if LOG else tl.log2(weight)
        for tile in tl.static_range(TILES):
            pair = opaque(kept[tile])
            one = low(pair, KIND) - top
            two = high(pair, KIND) - top
            if LOG:
                out = paired(one - scale, two - scale, KIND)
            else:
                out = paired(tl.exp2(one * LOG2_E - scale), tl.exp2(two * LOG2_E - scale), KIND)
            word = tile * (LANES * (VECTOR // 2))
            if TAIL:
                inside = inside_row(item < items, first + tile * LANES, vectors, LANES, TAIL)
                tl.store(to + word, out, mask=inside, eviction_policy=DROP)
            else:
                tl.store(to + word, out, eviction_policy=DROP)
        kept = following
