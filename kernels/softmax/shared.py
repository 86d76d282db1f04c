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

from .._overlap import INTERPRETED, await_previous, start_next
from .._words import pack, unpack
from . import launches
from .backward import _summand, gradient
from .rows import _head_elements, join, normalise
from .tiles import (
    base_of,
    comparable,
    first_vector,
    greater,
    inside_of,
    load_edge,
    load_tiles,
    nothing_of,
    peaks_of,
    row_of,
    statistics_of_lanes,
    store_edge,
    sum_of_lanes,
    sum_words,
    tile_at,
    unscaled,
    weigh,
    weigh_edge,
    write_gradients,
    write_tiles,
)

MISSING = tl.constexpr(launches.MISSING)
NOTHING = tl.constexpr(-0x80_0000 << 32)
"""The word of (−∞, 0), of parts that do not exist: as a signed number 0xff800000 × 2^32."""


@triton.jit
def _told_by_all(
    words, start, chunks, vectors, edge, LOG: tl.constexpr, OF_PART: tl.constexpr,
    PARTS: tl.constexpr, PATIENCE: tl.constexpr, ASSEMBLY: tl.constexpr,
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
                top, weight = OF_PART(
                    start, which, vectors, edge, LOG, ASSEMBLY, LANES, VECTOR, TILES, EDGE
                )
                word = pack(top, weight)
                tl.atomic_xchg(words + which, word, sem="relaxed")
            seen = tl.where(other == which, word, seen)
    peaks, totals = unpack(seen)
    return join(peaks, totals)


@triton.jit
def _load_tile(start, first, vectors, nothing, VECTOR: tl.constexpr, LANES: tl.constexpr):
    inside = inside_of(True, first, vectors, LANES, 1)
    return tl.load(tile_at(start, first, VECTOR, LANES, 1), mask=inside, other=nothing)


@triton.jit
def _statistics_of_part(
    start, part, vectors, edge, LOG: tl.constexpr, ASSEMBLY: tl.constexpr,
    LANES: tl.constexpr, VECTOR: tl.constexpr, TILES: tl.constexpr, EDGE: tl.constexpr,
):  # fmt: skip
    """Return the pair that the program of this part would have told, added up in the same order."""
    KIND: tl.constexpr = start.dtype.element_ty
    begin = part * (TILES * LANES)
    end = tl.minimum(begin + TILES * LANES, vectors)
    word = _load_tile(start, begin, vectors, nothing_of(KIND), VECTOR, LANES)
    most = comparable(word, KIND, ASSEMBLY)
    for first in tl.range(begin + LANES, end, LANES):
        word = _load_tile(start, first, vectors, nothing_of(KIND), VECTOR, LANES)
        most = greater(most, comparable(word, KIND, ASSEMBLY), KIND)
        tl.debug_barrier()  # which cannot be copied: the loop stays rolled, in few registers
    peak = peaks_of(most, KIND)
    mine = tl.where(part == 0, edge, float("-inf"))
    if EDGE:
        peak = tl.maximum(peak, mine)
    base, factor, beyond = base_of(peak, KIND)
    total = tl.zeros([LANES], tl.float32)
    if EDGE:
        total = weigh_edge(mine, base, factor, KIND)
    for first in tl.range(begin, end, LANES):
        word = _load_tile(start, first, vectors, nothing_of(KIND), VECTOR, LANES)
        total = weigh(total, word, base, factor, KIND)
        tl.debug_barrier()
    return join(peak, unscaled(total, beyond, KIND))


@triton.jit
def _sum_of_part(
    start, part, vectors, edge, LOG: tl.constexpr, ASSEMBLY: tl.constexpr,
    LANES: tl.constexpr, VECTOR: tl.constexpr, TILES: tl.constexpr, EDGE: tl.constexpr,
):  # fmt: skip
    """Return 1 and the sum that the program of this part would have told."""
    y, dy = start
    KIND: tl.constexpr = y.dtype.element_ty
    sums = tl.zeros([LANES], tl.float32)
    if EDGE:
        sums = tl.where(part == 0, edge, 0.0)
    begin = part * (TILES * LANES)
    for first in tl.range(begin, tl.minimum(begin + TILES * LANES, vectors), LANES):
        y_words = _load_tile(y, first, vectors, 0, VECTOR, LANES)
        dy_words = _load_tile(dy, first, vectors, 0, VECTOR, LANES)
        sums = sum_words(sums, y_words, dy_words, LOG, KIND)
        tl.debug_barrier()
    return tl.full([], 1.0, tl.float32), tl.sum(sums, axis=0)


@triton.jit
def _load_part(
    pointer, head_pointer, item, items, chunks, columns, stride, head_stride, nothing, outside,
    LANES: tl.constexpr, VECTOR: tl.constexpr, TILES: tl.constexpr,
    ITEM: tl.constexpr, ALIGNED: tl.constexpr, PEEL: tl.constexpr,
    FULL: tl.constexpr, EDGE: tl.constexpr, STREAMED: tl.constexpr, KEEP: tl.constexpr,
):  # fmt: skip
    """Return a part's tiles, and the edge of its row; nothing of a part that does not exist. The
    head is that of the row at ``head_pointer``."""
    row = item // chunks
    at = row_of(pointer, row, stride, VECTOR, ALIGNED, 1)
    head = _head_elements(
        row_of(head_pointer, row, head_stride, VECTOR, ALIGNED, 1), columns, ITEM, PEEL
    )
    exists = item < items
    kept = load_tiles(
        first_vector(at, head, PEEL, 1), (item - row * chunks) * (TILES * LANES),
        (columns - head) // VECTOR, exists, nothing, LANES, VECTOR, TILES, 1, FULL, STREAMED, KEEP,
    )  # fmt: skip
    return kept, load_edge(at, head, columns, outside, exists, EDGE, VECTOR, LANES, 1)


@triton.jit
def _finish_forward(
    x_ptr, y_ptr, words, kept, edge, item, chunks, columns, x_stride, y_stride,
    LOG: tl.constexpr, PARTS: tl.constexpr, PATIENCE: tl.constexpr, ASSEMBLY: tl.constexpr,
    LANES: tl.constexpr, VECTOR: tl.constexpr, TILES: tl.constexpr,
    ITEM: tl.constexpr, ALIGNED: tl.constexpr, PEEL: tl.constexpr,
    FULL: tl.constexpr, EDGE: tl.constexpr, DROP: tl.constexpr,
):  # fmt: skip
    """Wait for the row's other parts, and write this one."""
    KIND: tl.constexpr = x_ptr.dtype.element_ty
    row = item // chunks
    part = item - row * chunks
    x = row_of(x_ptr, row, x_stride, VECTOR, ALIGNED, 1)
    y = row_of(y_ptr, row, y_stride, VECTOR, ALIGNED, 1)
    head = _head_elements(x, columns, ITEM, PEEL)
    vectors = (columns - head) // VECTOR
    top, weight = _told_by_all(
        words + row * chunks, first_vector(x, head, PEEL, 1), chunks, vectors,
        edge.to(tl.float32), LOG, _statistics_of_part,
        PARTS, PATIENCE, ASSEMBLY, LANES, VECTOR, TILES, EDGE,
    )  # fmt: skip
    write_tiles(
        first_vector(y, head, PEEL, 1), part * (TILES * LANES), vectors, True, kept, top, weight,
        LOG, KIND, LANES, VECTOR, TILES, 1, FULL, ASSEMBLY, DROP,
    )  # fmt: skip
    normal = normalise(edge, top, weight, LOG)
    store_edge(y, head, columns, normal, part == 0, EDGE, VECTOR, LANES, 1)


@triton.jit
def _statistics(
    kept, edge, item, chunks,
    LANES: tl.constexpr, TILES: tl.constexpr, EDGE: tl.constexpr, KIND: tl.constexpr,
    ASSEMBLY: tl.constexpr,
):  # fmt: skip
    mine = tl.where(item % chunks == 0, edge.to(tl.float32), float("-inf"))
    peak, total = statistics_of_lanes(kept, mine, LANES, TILES, EDGE, KIND, ASSEMBLY)
    return join(peak, total)


@triton.jit
def _tell_statistics(
    words, kept, edge, item, chunks,
    LANES: tl.constexpr, TILES: tl.constexpr, EDGE: tl.constexpr, KIND: tl.constexpr,
    ASSEMBLY: tl.constexpr,
):  # fmt: skip
    top, weight = _statistics(kept, edge, item, chunks, LANES, TILES, EDGE, KIND, ASSEMBLY)
    tl.atomic_xchg(words + item, pack(top, weight), sem="relaxed")


@triton.jit(do_not_specialize=["items", "chunks"])
def parts_forward(
    x_ptr, y_ptr, words, items, chunks, columns, x_stride, y_stride,
    STREAMED: tl.constexpr, LOG: tl.constexpr, PARTS: tl.constexpr, CHUNK: tl.constexpr,
    PATIENCE: tl.constexpr, ASSEMBLY: tl.constexpr, OVERLAP: tl.constexpr,
    LANES: tl.constexpr, VECTOR: tl.constexpr, ITEM: tl.constexpr, ALIGNED: tl.constexpr,
    PEEL: tl.constexpr, FULL: tl.constexpr, EDGE: tl.constexpr,
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
        float("-inf"), LANES, VECTOR, TILES, ITEM, ALIGNED, PEEL, FULL, EDGE, STREAMED, KEEP,
    )  # fmt: skip
    await_previous(OVERLAP)
    if STREAMED:
        for item in tl.range(start, items, step, num_stages=1):
            _tell_statistics(words, kept, edge, item, chunks, LANES, TILES, EDGE, KIND, ASSEMBLY)
            following, following_edge = _load_part(
                x_ptr, x_ptr, item + step, items, chunks, columns, x_stride, x_stride,
                nothing_of(KIND), float("-inf"),
                LANES, VECTOR, TILES, ITEM, ALIGNED, PEEL, FULL, EDGE, STREAMED, KEEP,
            )  # fmt: skip
            _finish_forward(
                x_ptr, y_ptr, words, kept, edge, item, chunks, columns, x_stride, y_stride,
                LOG, PARTS, LOOKS, ASSEMBLY,
                LANES, VECTOR, TILES, ITEM, ALIGNED, PEEL, FULL, EDGE, DROP,
            )  # fmt: skip
            kept = following
            edge = following_edge
    else:
        _tell_statistics(words, kept, edge, start, chunks, LANES, TILES, EDGE, KIND, ASSEMBLY)
        _finish_forward(
            x_ptr, y_ptr, words, kept, edge, start, chunks, columns, x_stride, y_stride,
            LOG, PARTS, LOOKS, ASSEMBLY,
            LANES, VECTOR, TILES, ITEM, ALIGNED, PEEL, FULL, EDGE, DROP,
        )  # fmt: skip


@triton.jit
def _tell_sum(
    words, y, dy, y_edge, dy_edge, item, chunks, LOG: tl.constexpr,
    LANES: tl.constexpr, TILES: tl.constexpr, EDGE: tl.constexpr, KIND: tl.constexpr,
):  # fmt: skip
    first = item % chunks == 0
    y_edge = tl.where(first, y_edge, 0.0).to(KIND)
    dy_edge = tl.where(first, dy_edge, 0.0).to(KIND)
    total = tl.sum(sum_of_lanes(y, dy, y_edge, dy_edge, LANES, TILES, EDGE, LOG, KIND), axis=0)
    tl.atomic_xchg(words + item, pack(tl.full([], 1.0, tl.float32), total), sem="relaxed")


@triton.jit
def _finish_backward(
    y_ptr, dy_ptr, dx_ptr, words, y_kept, dy_kept, y_edge, dy_edge, item, chunks, columns,
    saved_stride, dy_stride, dx_stride,
    LOG: tl.constexpr, PARTS: tl.constexpr, PATIENCE: tl.constexpr, ASSEMBLY: tl.constexpr,
    LANES: tl.constexpr, VECTOR: tl.constexpr, TILES: tl.constexpr,
    ITEM: tl.constexpr, ALIGNED: tl.constexpr, PEEL: tl.constexpr,
    FULL: tl.constexpr, EDGE: tl.constexpr, DROP: tl.constexpr,
):  # fmt: skip
    KIND: tl.constexpr = y_ptr.dtype.element_ty
    row = item // chunks
    part = item - row * chunks
    y = row_of(y_ptr, row, saved_stride, VECTOR, ALIGNED, 1)
    dy = row_of(dy_ptr, row, dy_stride, VECTOR, ALIGNED, 1)
    dx = row_of(dx_ptr, row, dx_stride, VECTOR, ALIGNED, 1)
    head = _head_elements(dy, columns, ITEM, PEEL)
    vectors = (columns - head) // VECTOR
    _, total = _told_by_all(
        words + row * chunks, (first_vector(y, head, PEEL, 1), first_vector(dy, head, PEEL, 1)),
        chunks, vectors, _summand(y_edge, dy_edge, LOG), LOG, _sum_of_part,
        PARTS, PATIENCE, ASSEMBLY, LANES, VECTOR, TILES, EDGE,
    )  # fmt: skip
    write_gradients(
        first_vector(dx, head, PEEL, 1), part * (TILES * LANES), vectors, True, y_kept, dy_kept,
        total, LOG, KIND, LANES, VECTOR, TILES, 1, FULL, ASSEMBLY, DROP,
    )  # fmt: skip
    dx_edge = gradient(y_edge, dy_edge, total, LOG)
    store_edge(dx, head, columns, dx_edge, part == 0, EDGE, VECTOR, LANES, 1)


@triton.jit(do_not_specialize=["items", "chunks"])
def parts_backward(
    y_ptr, dy_ptr, dx_ptr, words, items, chunks, columns, saved_stride, dy_stride, dx_stride,
    STREAMED: tl.constexpr, LOG: tl.constexpr, PARTS: tl.constexpr, CHUNK: tl.constexpr,
    PATIENCE: tl.constexpr, ASSEMBLY: tl.constexpr, OVERLAP: tl.constexpr,
    LANES: tl.constexpr, VECTOR: tl.constexpr, ITEM: tl.constexpr, ALIGNED: tl.constexpr,
    PEEL: tl.constexpr, FULL: tl.constexpr, EDGE: tl.constexpr,
    KEEP: tl.constexpr, DROP: tl.constexpr,
):  # fmt: skip
    TILES: tl.constexpr = CHUNK // (LANES * VECTOR)
    KIND: tl.constexpr = y_ptr.dtype.element_ty
    LOOKS: tl.constexpr = 1 if INTERPRETED else PATIENCE
    start = tl.program_id(0)
    step = tl.num_programs(0)
    y, y_edge = _load_part(
        y_ptr, dy_ptr, start, items, chunks, columns, saved_stride, dy_stride, 0, 0.0,
        LANES, VECTOR, TILES, ITEM, ALIGNED, PEEL, FULL, EDGE, STREAMED, KEEP,
    )  # fmt: skip
    dy, dy_edge = _load_part(
        dy_ptr, dy_ptr, start, items, chunks, columns, dy_stride, dy_stride, 0, 0.0,
        LANES, VECTOR, TILES, ITEM, ALIGNED, PEEL, FULL, EDGE, STREAMED, KEEP,
    )  # fmt: skip
    await_previous(OVERLAP)
    if STREAMED:
        for item in tl.range(start, items, step, num_stages=1):
            _tell_sum(words, y, dy, y_edge, dy_edge, item, chunks, LOG, LANES, TILES, EDGE, KIND)
            next_y, next_y_edge = _load_part(
                y_ptr, dy_ptr, item + step, items, chunks, columns, saved_stride, dy_stride, 0, 0.0,
                LANES, VECTOR, TILES, ITEM, ALIGNED, PEEL, FULL, EDGE, STREAMED, KEEP,
            )  # fmt: skip
            next_dy, next_dy_edge = _load_part(
                dy_ptr, dy_ptr, item + step, items, chunks, columns, dy_stride, dy_stride, 0, 0.0,
                LANES, VECTOR, TILES, ITEM, ALIGNED, PEEL, FULL, EDGE, STREAMED, KEEP,
            )  # fmt: skip
            _finish_backward(
                y_ptr, dy_ptr, dx_ptr, words, y, dy, y_edge, dy_edge, item, chunks, columns,
                saved_stride, dy_stride, dx_stride, LOG, PARTS, LOOKS, ASSEMBLY,
                LANES, VECTOR, TILES, ITEM, ALIGNED, PEEL, FULL, EDGE, DROP,
            )  # fmt: skip
            y = next_y
            dy = next_dy
            y_edge = next_y_edge
            dy_edge = next_dy_edge
    else:
        _tell_sum(words, y, dy, y_edge, dy_edge, start, chunks, LOG, LANES, TILES, EDGE, KIND)
        _finish_backward(
            y_ptr, dy_ptr, dx_ptr, words, y, dy, y_edge, dy_edge, start, chunks, columns,
            saved_stride, dy_stride, dx_stride, LOG, PARTS, LOOKS, ASSEMBLY,
            LANES, VECTOR, TILES, ITEM, ALIGNED, PEEL, FULL, EDGE, DROP,
        )  # fmt: skip


@triton.jit(do_not_specialize=["items", "chunks"])
def parts_statistics(
    x_ptr, peaks_ptr, totals_ptr, items, chunks, columns, x_stride,
    CHUNK: tl.constexpr, ASSEMBLY: tl.constexpr, OVERLAP: tl.constexpr,
    LANES: tl.constexpr, VECTOR: tl.constexpr, ITEM: tl.constexpr, ALIGNED: tl.constexpr,
    PEEL: tl.constexpr, FULL: tl.constexpr, EDGE: tl.constexpr, KEEP: tl.constexpr,
):  # fmt: skip
    """Write peak and total of a part, for a kernel that comes after this one: nobody waits."""
    start_next(OVERLAP)
    TILES: tl.constexpr = CHUNK // (LANES * VECTOR)
    KIND: tl.constexpr = x_ptr.dtype.element_ty
    item = tl.program_id(0)
    kept, edge = _load_part(
        x_ptr, x_ptr, item, items, chunks, columns, x_stride, x_stride, nothing_of(KIND),
        float("-inf"), LANES, VECTOR, TILES, ITEM, ALIGNED, PEEL, FULL, EDGE, False, KEEP,
    )  # fmt: skip
    top, weight = _statistics(kept, edge, item, chunks, LANES, TILES, EDGE, KIND, ASSEMBLY)
    tl.store(peaks_ptr + item, top)
    tl.store(totals_ptr + item, weight)
