# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
# mypy: disable-error-code="assignment, attr-defined"
# ruff: noqa: ANN001 (arguments of kernels have no Python types)
"""Reads long rows once: each of the blocks of a row keeps a part of it in registers; forward and
backward.

A block loads its part, takes the statistics of it (peak and total of a softmax; a gradient has a
sum, and 1 for a peak), tells them to the row's other blocks, waits for theirs, and writes its part
from registers.

Programs with numbers in a row belong to one row, and GPUs start them in that order, so that those
of a row run at the same time where there is room for them. Nothing depends on it: what they
tell one another, and what happens where it does not come, stands at ``_told_by_all``.

Constants as in rows.py and tiles.py, and
    CHUNK       elements of a part: TILES tiles
    PARTS       the next power of two of the parts of a row
    STREAMED    programs take part after part, and load the next one while they wait for others;
                or one part per program
"""

from __future__ import annotations

import triton
import triton.language as tl

from .._words import pack, unpack
from .backward import _summand
from .rows import INTERPRETED, _first_vector, _head_elements, _with_more, join
from .tiles import (
    fold_words,
    load_edge,
    load_tiles,
    nothing_of,
    row_of,
    statistics_of,
    sum_of,
    sum_words,
    tile_at,
    write_edge,
    write_gradient_edge,
    write_gradients,
    write_tiles,
)

MISSING = tl.constexpr(0)
NOTHING = tl.constexpr(-0x80_0000 << 32)
"""The word of (−∞, 0), of parts that do not exist: as a signed number 0xff800000 × 2^32."""


@triton.jit
def _told_by_all(
    words, start, chunks, vectors, edge, LOG: tl.constexpr, OF_PART: tl.constexpr,
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
                top, weight = OF_PART(start, which, vectors, edge, LOG, LANES, VECTOR, TILES, EDGE)
                word = pack(top, weight)
                tl.atomic_xchg(words + which, word, sem="relaxed")
            seen = tl.where(other == which, word, seen)
    peaks, totals = unpack(seen)
    return join(peaks, totals)


@triton.jit
def _statistics_of_part(
    start, part, vectors, edge, LOG: tl.constexpr,
    LANES: tl.constexpr, VECTOR: tl.constexpr, TILES: tl.constexpr, EDGE: tl.constexpr,
):  # fmt: skip
    """Return the pair that the program of this part would have told, added up in the same order."""
    KIND: tl.constexpr = start.dtype.element_ty
    peak = tl.full([LANES], float("-inf"), tl.float32)
    total = tl.zeros([LANES], tl.float32)
    begin = part * (TILES * LANES)
    for first in tl.range(begin, tl.minimum(begin + TILES * LANES, vectors), LANES):
        inside = (first + tl.arange(0, LANES) < vectors)[:, None]
        at = tile_at(start, first, VECTOR, LANES)
        word = tl.load(at, mask=inside, other=nothing_of(KIND))
        peak, total = fold_words(peak, total, word, KIND)
        tl.debug_barrier()  # which cannot be copied: the loop stays rolled, in few registers
    top, weight = join(peak, total)
    if EDGE:
        top, weight = _with_more(tl.where(part == 0, edge, float("-inf")), top, weight)
    return top, weight


@triton.jit
def _sum_of_part(
    start, part, vectors, edge, LOG: tl.constexpr,
    LANES: tl.constexpr, VECTOR: tl.constexpr, TILES: tl.constexpr, EDGE: tl.constexpr,
):  # fmt: skip
    """Return 1 and the sum that the program of this part would have told."""
    y, dy = start
    KIND: tl.constexpr = y.dtype.element_ty
    sums = tl.zeros([LANES], tl.float32)
    begin = part * (TILES * LANES)
    for first in tl.range(begin, tl.minimum(begin + TILES * LANES, vectors), LANES):
        inside = (first + tl.arange(0, LANES) < vectors)[:, None]
        y_words = tl.load(tile_at(y, first, VECTOR, LANES), mask=inside, other=0)
        dy_words = tl.load(tile_at(dy, first, VECTOR, LANES), mask=inside, other=0)
        sums = sum_words(sums, y_words, dy_words, LOG, KIND)
        tl.debug_barrier()
    total = tl.sum(sums, axis=0)
    if EDGE:
        total += tl.where(part == 0, tl.sum(edge, axis=0), 0.0)
    return tl.full([], 1.0, tl.float32), total


@triton.jit
def _load_part(
    pointer, head_pointer, item, items, chunks, columns, stride, head_stride, nothing, outside,
    LANES: tl.constexpr, VECTOR: tl.constexpr, TILES: tl.constexpr,
    ITEM: tl.constexpr, ALIGNED: tl.constexpr, PEEL: tl.constexpr,
    TAIL: tl.constexpr, EDGE: tl.constexpr, STREAMED: tl.constexpr, KEEP: tl.constexpr,
):  # fmt: skip
    """Return a part's tiles, and the edge of its row; nothing of a part that does not exist. The
    head is that of the row at ``head_pointer``."""
    row = item // chunks
    at = row_of(pointer, row, stride, VECTOR, ALIGNED)
    head = _head_elements(
        row_of(head_pointer, row, head_stride, VECTOR, ALIGNED), columns, ITEM, PEEL
    )
    exists = item < items
    kept = load_tiles(
        _first_vector(at, head, PEEL), (item - row * chunks) * (TILES * LANES),
        (columns - head) // VECTOR, exists, nothing, LANES, VECTOR, TILES, TAIL, STREAMED, KEEP,
    )  # fmt: skip
    return kept, load_edge(at, head, columns, outside, exists, EDGE, VECTOR)


@triton.jit
def _finish_forward(
    x_ptr, y_ptr, words_ptr, kept, edge, item, chunks, columns, x_stride, y_stride,
    LOG: tl.constexpr, PARTS: tl.constexpr, PATIENCE: tl.constexpr, ASSEMBLY: tl.constexpr,
    LANES: tl.constexpr, VECTOR: tl.constexpr, TILES: tl.constexpr,
    ITEM: tl.constexpr, ALIGNED: tl.constexpr, PEEL: tl.constexpr,
    TAIL: tl.constexpr, EDGE: tl.constexpr, DROP: tl.constexpr,
):  # fmt: skip
    """Wait for the row's other parts, and write this one."""
    KIND: tl.constexpr = x_ptr.dtype.element_ty
    row = item // chunks
    part = item - row * chunks
    x = row_of(x_ptr, row, x_stride, VECTOR, ALIGNED)
    y = row_of(y_ptr, row, y_stride, VECTOR, ALIGNED)
    head = _head_elements(x, columns, ITEM, PEEL)
    vectors = (columns - head) // VECTOR
    top, weight = _told_by_all(
        words_ptr + row * chunks, _first_vector(x, head, PEEL), chunks, vectors,
        edge.to(tl.float32), LOG, _statistics_of_part,
        PARTS, PATIENCE, LANES, VECTOR, TILES, EDGE,
    )  # fmt: skip
    write_tiles(
        _first_vector(y, head, PEEL), part * (TILES * LANES), vectors, kept, top, weight,
        LOG, KIND, LANES, VECTOR, TILES, TAIL, ASSEMBLY, DROP,
    )  # fmt: skip
    write_edge(y, head, columns, edge, top, weight, part == 0, LOG, EDGE, VECTOR)


@triton.jit
def _tell_statistics(
    words_ptr, kept, edge, item, chunks,
    LANES: tl.constexpr, TILES: tl.constexpr, EDGE: tl.constexpr, KIND: tl.constexpr,
):  # fmt: skip
    top, weight = statistics_of(kept, LANES, TILES, KIND)
    if EDGE:
        mine = tl.where(item % chunks == 0, edge.to(tl.float32), float("-inf"))
        top, weight = _with_more(mine, top, weight)
    tl.atomic_xchg(words_ptr + item, pack(top, weight), sem="relaxed")


@triton.jit(do_not_specialize=["items", "chunks"])
def parts_forward(
    x_ptr, y_ptr, words_ptr, items, chunks, columns, x_stride, y_stride,
    STREAMED: tl.constexpr, LOG: tl.constexpr, PARTS: tl.constexpr, CHUNK: tl.constexpr,
    PATIENCE: tl.constexpr, ASSEMBLY: tl.constexpr,
    LANES: tl.constexpr, VECTOR: tl.constexpr, ITEM: tl.constexpr, ALIGNED: tl.constexpr,
    PEEL: tl.constexpr, TAIL: tl.constexpr, EDGE: tl.constexpr,
    KEEP: tl.constexpr, DROP: tl.constexpr,
):  # fmt: skip
    """Compute ``items`` parts in all, ``chunks`` of them per row. A row's edge belongs to its first
    part."""
    TILES: tl.constexpr = CHUNK // (LANES * VECTOR)
    KIND: tl.constexpr = x_ptr.dtype.element_ty
    LOOKS: tl.constexpr = 1 if INTERPRETED else PATIENCE
    start = tl.program_id(0)
    step = tl.num_programs(0)
    kept, edge = _load_part(
        x_ptr, x_ptr, start, items, chunks, columns, x_stride, x_stride, nothing_of(KIND),
        float("-inf"), LANES, VECTOR, TILES, ITEM, ALIGNED, PEEL, TAIL, EDGE, STREAMED, KEEP,
    )  # fmt: skip
    if STREAMED:
        for item in tl.range(start, items, step, num_stages=1):
            _tell_statistics(words_ptr, kept, edge, item, chunks, LANES, TILES, EDGE, KIND)
            following, following_edge = _load_part(
                x_ptr, x_ptr, item + step, items, chunks, columns, x_stride, x_stride,
                nothing_of(KIND), float("-inf"),
                LANES, VECTOR, TILES, ITEM, ALIGNED, PEEL, TAIL, EDGE, STREAMED, KEEP,
            )  # fmt: skip
            _finish_forward(
                x_ptr, y_ptr, words_ptr, kept, edge, item, chunks, columns, x_stride, y_stride,
                LOG, PARTS, LOOKS, ASSEMBLY,
                LANES, VECTOR, TILES, ITEM, ALIGNED, PEEL, TAIL, EDGE, DROP,
            )  # fmt: skip
            kept = following
            edge = following_edge
    else:
        _tell_statistics(words_ptr, kept, edge, start, chunks, LANES, TILES, EDGE, KIND)
        _finish_forward(
            x_ptr, y_ptr, words_ptr, kept, edge, start, chunks, columns, x_stride, y_stride,
            LOG, PARTS, LOOKS, ASSEMBLY,
            LANES, VECTOR, TILES, ITEM, ALIGNED, PEEL, TAIL, EDGE, DROP,
        )  # fmt: skip


@triton.jit
def _tell_sum(
    words_ptr, y, dy, y_edge, dy_edge, item, chunks, LOG: tl.constexpr,
    LANES: tl.constexpr, TILES: tl.constexpr, EDGE: tl.constexpr, KIND: tl.constexpr,
):  # fmt: skip
    total = sum_of(y, dy, LANES, TILES, LOG, KIND)
    if EDGE:
        edge = tl.sum(_summand(y_edge, dy_edge, LOG), axis=0)
        total += tl.where(item % chunks == 0, edge, 0.0)
    tl.atomic_xchg(words_ptr + item, pack(tl.full([], 1.0, tl.float32), total), sem="relaxed")


@triton.jit
def _finish_backward(
    y_ptr, dy_ptr, dx_ptr, words_ptr, y_kept, dy_kept, y_edge, dy_edge, item, chunks, columns,
    saved_stride, dy_stride, dx_stride,
    LOG: tl.constexpr, PARTS: tl.constexpr, PATIENCE: tl.constexpr, ASSEMBLY: tl.constexpr,
    LANES: tl.constexpr, VECTOR: tl.constexpr, TILES: tl.constexpr,
    ITEM: tl.constexpr, ALIGNED: tl.constexpr, PEEL: tl.constexpr,
    TAIL: tl.constexpr, EDGE: tl.constexpr, DROP: tl.constexpr,
):  # fmt: skip
    KIND: tl.constexpr = y_ptr.dtype.element_ty
    row = item // chunks
    part = item - row * chunks
    y = row_of(y_ptr, row, saved_stride, VECTOR, ALIGNED)
    dy = row_of(dy_ptr, row, dy_stride, VECTOR, ALIGNED)
    dx = row_of(dx_ptr, row, dx_stride, VECTOR, ALIGNED)
    head = _head_elements(dy, columns, ITEM, PEEL)
    vectors = (columns - head) // VECTOR
    _, total = _told_by_all(
        words_ptr + row * chunks, (_first_vector(y, head, PEEL), _first_vector(dy, head, PEEL)),
        chunks, vectors, _summand(y_edge, dy_edge, LOG), LOG, _sum_of_part,
        PARTS, PATIENCE, LANES, VECTOR, TILES, EDGE,
    )  # fmt: skip
    write_gradients(
        _first_vector(dx, head, PEEL), part * (TILES * LANES), vectors, y_kept, dy_kept, total,
        LOG, KIND, LANES, VECTOR, TILES, TAIL, ASSEMBLY, DROP,
    )  # fmt: skip
    write_gradient_edge(dx, head, columns, y_edge, dy_edge, total, part == 0, LOG, EDGE, VECTOR)


@triton.jit(do_not_specialize=["items", "chunks"])
def parts_backward(
    y_ptr, dy_ptr, dx_ptr, words_ptr, items, chunks, columns, saved_stride, dy_stride, dx_stride,
    STREAMED: tl.constexpr, LOG: tl.constexpr, PARTS: tl.constexpr, CHUNK: tl.constexpr,
    PATIENCE: tl.constexpr, ASSEMBLY: tl.constexpr,
    LANES: tl.constexpr, VECTOR: tl.constexpr, ITEM: tl.constexpr, ALIGNED: tl.constexpr,
    PEEL: tl.constexpr, TAIL: tl.constexpr, EDGE: tl.constexpr,
    KEEP: tl.constexpr, DROP: tl.constexpr,
):  # fmt: skip
    TILES: tl.constexpr = CHUNK // (LANES * VECTOR)
    KIND: tl.constexpr = y_ptr.dtype.element_ty
    LOOKS: tl.constexpr = 1 if INTERPRETED else PATIENCE
    start = tl.program_id(0)
    step = tl.num_programs(0)
    y, y_edge = _load_part(
        y_ptr, dy_ptr, start, items, chunks, columns, saved_stride, dy_stride, 0, 0.0,
        LANES, VECTOR, TILES, ITEM, ALIGNED, PEEL, TAIL, EDGE, STREAMED, KEEP,
    )  # fmt: skip
    dy, dy_edge = _load_part(
        dy_ptr, dy_ptr, start, items, chunks, columns, dy_stride, dy_stride, 0, 0.0,
        LANES, VECTOR, TILES, ITEM, ALIGNED, PEEL, TAIL, EDGE, STREAMED, KEEP,
    )  # fmt: skip
    if STREAMED:
        for item in tl.range(start, items, step, num_stages=1):
            _tell_sum(
                words_ptr, y, dy, y_edge, dy_edge, item, chunks, LOG, LANES, TILES, EDGE, KIND
            )
            next_y, next_y_edge = _load_part(
                y_ptr, dy_ptr, item + step, items, chunks, columns, saved_stride, dy_stride, 0, 0.0,
                LANES, VECTOR, TILES, ITEM, ALIGNED, PEEL, TAIL, EDGE, STREAMED, KEEP,
            )  # fmt: skip
            next_dy, next_dy_edge = _load_part(
                dy_ptr, dy_ptr, item + step, items, chunks, columns, dy_stride, dy_stride, 0, 0.0,
                LANES, VECTOR, TILES, ITEM, ALIGNED, PEEL, TAIL, EDGE, STREAMED, KEEP,
            )  # fmt: skip
            _finish_backward(
                y_ptr, dy_ptr, dx_ptr, words_ptr, y, dy, y_edge, dy_edge, item, chunks, columns,
                saved_stride, dy_stride, dx_stride, LOG, PARTS, LOOKS, ASSEMBLY,
                LANES, VECTOR, TILES, ITEM, ALIGNED, PEEL, TAIL, EDGE, DROP,
            )  # fmt: skip
            y = next_y
            dy = next_dy
            y_edge = next_y_edge
            dy_edge = next_dy_edge
    else:
        _tell_sum(words_ptr, y, dy, y_edge, dy_edge, start, chunks, LOG, LANES, TILES, EDGE, KIND)
        _finish_backward(
            y_ptr, dy_ptr, dx_ptr, words_ptr, y, dy, y_edge, dy_edge, start, chunks, columns,
            saved_stride, dy_stride, dx_stride, LOG, PARTS, LOOKS, ASSEMBLY,
            LANES, VECTOR, TILES, ITEM, ALIGNED, PEEL, TAIL, EDGE, DROP,
        )  # fmt: skip
