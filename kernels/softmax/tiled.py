# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
# ruff: noqa: ANN001 (arguments of kernels have no Python types)
"""Computes rows of any width in one pass: a block keeps a row, or several short ones, in registers;
forward and backward. The gradient of cross-entropy, which is no reduction, is cut into parts of
rows.

Constants as in tiles.py, and
    CHUNKS      parts of a row, of the gradient of cross-entropy
"""

from __future__ import annotations

import triton
import triton.language as tl

from .backward import gradient
from .looped import load_logit, write_loss
from .rows import LOG2_E, _head_elements, edge_columns, normalise
from .tiles import (
    column,
    first_vector,
    join_rows,
    lane_of_row,
    load_edge,
    load_tiles,
    loss_gradient_words,
    nothing_of,
    row_of,
    statistics_of_lanes,
    store_edge,
    store_tile,
    sum_of_lanes,
    sum_rows,
    targets_of_words,
    write_gradients,
    write_tiles,
)


@triton.jit
def _rows_of(block, rows, LANES: tl.constexpr, ROWS: tl.constexpr):
    """Return the block's row, or each lane's, and whether it exists."""
    row = block
    exists = True
    if ROWS > 1:
        row = block * ROWS + tl.arange(0, LANES) // (LANES // ROWS)
        exists = row < rows
    return row, exists


@triton.jit(do_not_specialize=["rows"])
def tiled_forward(
    x_ptr, y_ptr, rows, columns, x_stride, y_stride,
    LOG: tl.constexpr, TILES: tl.constexpr, ROWS: tl.constexpr, ASSEMBLY: tl.constexpr,
    LANES: tl.constexpr, VECTOR: tl.constexpr, ITEM: tl.constexpr, ALIGNED: tl.constexpr,
    PEEL: tl.constexpr, FULL: tl.constexpr, EDGE: tl.constexpr,
    KEEP: tl.constexpr, DROP: tl.constexpr,
):  # fmt: skip
    KIND: tl.constexpr = x_ptr.dtype.element_ty
    row, exists = _rows_of(tl.program_id(0), rows, LANES, ROWS)
    x = row_of(x_ptr, row, x_stride, VECTOR, ALIGNED, ROWS)
    y = row_of(y_ptr, row, y_stride, VECTOR, ALIGNED, ROWS)
    head = _head_elements(x, columns, ITEM, PEEL)
    vectors = (columns - head) // VECTOR
    edge = load_edge(x, head, columns, float("-inf"), exists, EDGE, VECTOR, LANES, ROWS)
    kept = load_tiles(
        first_vector(x, head, PEEL, ROWS), 0, vectors, exists, nothing_of(KIND),
        LANES, VECTOR, TILES, ROWS, FULL, False, KEEP,
    )  # fmt: skip
    peak, total = statistics_of_lanes(kept, edge.to(tl.float32), LANES, TILES, EDGE, KIND, ASSEMBLY)
    top, weight = join_rows(peak, total, LANES, ROWS)
    write_tiles(
        first_vector(y, head, PEEL, ROWS), 0, vectors, exists, kept, top, weight,
        LOG, KIND, LANES, VECTOR, TILES, ROWS, FULL, ASSEMBLY, DROP,
    )  # fmt: skip
    normal = normalise(edge, top, weight, LOG)
    store_edge(y, head, columns, normal, exists, EDGE, VECTOR, LANES, ROWS)


@triton.jit(do_not_specialize=["rows"])
def tiled_loss(
    x_ptr, target_ptr, loss_ptr, lse_ptr, rows, columns, x_stride, ignored,
    TILES: tl.constexpr, ROWS: tl.constexpr, ASSEMBLY: tl.constexpr,
    LANES: tl.constexpr, VECTOR: tl.constexpr, ITEM: tl.constexpr, ALIGNED: tl.constexpr,
    PEEL: tl.constexpr, FULL: tl.constexpr, EDGE: tl.constexpr, KEEP: tl.constexpr,
):  # fmt: skip
    KIND: tl.constexpr = x_ptr.dtype.element_ty
    row, exists = _rows_of(tl.program_id(0), rows, LANES, ROWS)
    x = row_of(x_ptr, row, x_stride, VECTOR, ALIGNED, ROWS)
    target = tl.load(target_ptr + row, mask=exists, other=ignored)
    head = _head_elements(x, columns, ITEM, PEEL)
    edge = load_edge(x, head, columns, float("-inf"), exists, EDGE, VECTOR, LANES, ROWS)
    kept = load_tiles(
        first_vector(x, head, PEEL, ROWS), 0, (columns - head) // VECTOR, exists, nothing_of(KIND),
        LANES, VECTOR, TILES, ROWS, FULL, False, KEEP,
    )  # fmt: skip
    logit = load_logit(x, target, columns)
    peak, total = statistics_of_lanes(kept, edge.to(tl.float32), LANES, TILES, EDGE, KIND, ASSEMBLY)
    top, weight = join_rows(peak, total, LANES, ROWS)
    if ROWS > 1:
        exists = exists & (lane_of_row(LANES, ROWS) == 0)
    write_loss(row, exists, logit, target, loss_ptr, lse_ptr, top, weight, ignored)


@triton.jit(do_not_specialize=["rows"])
def tiled_backward(
    y_ptr, dy_ptr, dx_ptr, rows, columns, saved_stride, dy_stride, dx_stride,
    LOG: tl.constexpr, TILES: tl.constexpr, ROWS: tl.constexpr, ASSEMBLY: tl.constexpr,
    LANES: tl.constexpr, VECTOR: tl.constexpr, ITEM: tl.constexpr, ALIGNED: tl.constexpr,
    PEEL: tl.constexpr, FULL: tl.constexpr, EDGE: tl.constexpr,
    KEEP: tl.constexpr, DROP: tl.constexpr,
):  # fmt: skip
    KIND: tl.constexpr = y_ptr.dtype.element_ty
    row, exists = _rows_of(tl.program_id(0), rows, LANES, ROWS)
    y = row_of(y_ptr, row, saved_stride, VECTOR, ALIGNED, ROWS)
    dy = row_of(dy_ptr, row, dy_stride, VECTOR, ALIGNED, ROWS)
    dx = row_of(dx_ptr, row, dx_stride, VECTOR, ALIGNED, ROWS)
    head = _head_elements(dy, columns, ITEM, PEEL)
    vectors = (columns - head) // VECTOR
    y_edge = load_edge(y, head, columns, 0.0, exists, EDGE, VECTOR, LANES, ROWS)
    dy_edge = load_edge(dy, head, columns, 0.0, exists, EDGE, VECTOR, LANES, ROWS)
    y_kept = load_tiles(
        first_vector(y, head, PEEL, ROWS), 0, vectors, exists, 0,
        LANES, VECTOR, TILES, ROWS, FULL, False, KEEP,
    )  # fmt: skip
    dy_kept = load_tiles(
        first_vector(dy, head, PEEL, ROWS), 0, vectors, exists, 0,
        LANES, VECTOR, TILES, ROWS, FULL, False, KEEP,
    )  # fmt: skip
    sums = sum_of_lanes(y_kept, dy_kept, y_edge, dy_edge, LANES, TILES, EDGE, LOG, KIND)
    total = sum_rows(sums, LANES, ROWS)
    write_gradients(
        first_vector(dx, head, PEEL, ROWS), 0, vectors, exists, y_kept, dy_kept, total,
        LOG, KIND, LANES, VECTOR, TILES, ROWS, FULL, ASSEMBLY, DROP,
    )  # fmt: skip
    dx_edge = gradient(y_edge, dy_edge, total, LOG)
    store_edge(dx, head, columns, dx_edge, exists, EDGE, VECTOR, LANES, ROWS)


@triton.jit(do_not_specialize=["rows"])
def tiled_loss_backward(
    x_ptr, target_ptr, lse_ptr, dloss_ptr, dx_ptr, rows, columns, saved_stride, dx_stride, ignored,
    TILES: tl.constexpr, ROWS: tl.constexpr, CHUNKS: tl.constexpr, ASSEMBLY: tl.constexpr,
    LANES: tl.constexpr, VECTOR: tl.constexpr, ITEM: tl.constexpr, ALIGNED: tl.constexpr,
    PEEL: tl.constexpr, FULL: tl.constexpr, EDGE: tl.constexpr,
    KEEP: tl.constexpr, DROP: tl.constexpr, SKIP: tl.constexpr,
):  # fmt: skip
    """Write the gradient of one part of a row, or of several rows. A row whose target is
    ``ignored`` gets zeros, whatever it holds. With SKIP it is not read, and others are read when
    the target is there; then the target's column is written last, by a store of its own: to compare
    every column with it takes a third of the instructions. Without, every column is compared,
    so that no load of the target's logit has to wait for the target."""
    KIND: tl.constexpr = x_ptr.dtype.element_ty
    STEP: tl.constexpr = LANES // ROWS
    part = tl.program_id(0) % CHUNKS
    row, exists = _rows_of(tl.program_id(0) // CHUNKS, rows, LANES, ROWS)
    target = tl.load(target_ptr + row, mask=exists, other=ignored)
    counts = target != ignored
    read = counts if SKIP else exists
    lse = tl.load(lse_ptr + row, mask=read, other=0.0)
    dloss = tl.load(dloss_ptr + row, mask=read, other=0.0)
    x = row_of(x_ptr, row, saved_stride, VECTOR, ALIGNED, ROWS)
    dx = row_of(dx_ptr, row, dx_stride, VECTOR, ALIGNED, ROWS)
    head = _head_elements(x, columns, ITEM, PEEL)
    vectors = (columns - head) // VECTOR
    begin = part * (TILES * STEP)
    with_edge = exists & (part == 0)
    edge = load_edge(x, head, columns, float("-inf"), with_edge & read, EDGE, VECTOR, LANES, ROWS)
    kept = load_tiles(
        first_vector(x, head, PEEL, ROWS), begin, vectors, read, nothing_of(KIND),
        LANES, VECTOR, TILES, ROWS, FULL, SKIP, KEEP,
    )  # fmt: skip
    if SKIP:
        logit = load_logit(x, target, columns)
    to = first_vector(dx, head, PEEL, ROWS)
    for tile in tl.static_range(TILES):
        first = begin + tile * STEP
        targets = target
        if not SKIP:
            targets = targets_of_words(target, first, columns, head, LANES, VECTOR, ROWS)
        words = loss_gradient_words(
            kept[tile], column(lse, ROWS), column(dloss, ROWS), targets, KIND, ASSEMBLY, not SKIP
        )
        if not SKIP:
            words = tl.where(column(counts, ROWS), words, 0)
        store_tile(to, first, vectors, exists, words, LANES, VECTOR, ROWS, tile < FULL, DROP)
    weight_edge = tl.exp2((edge.to(tl.float32) - lse) * LOG2_E)
    if EDGE and not SKIP:
        at, _ = edge_columns(head, columns, VECTOR, lane_of_row(LANES, ROWS))
        weight_edge = tl.where(at == target, weight_edge - 1.0, weight_edge)
    dx_edge = weight_edge * dloss
    if not SKIP:
        dx_edge = tl.where(counts, dx_edge, 0.0)
    store_edge(dx, head, columns, dx_edge, with_edge, EDGE, VECTOR, LANES, ROWS)
    if SKIP:
        tl.debug_barrier()  # all of the part is written
        of_part = (target - head) // VECTOR // (TILES * STEP) == part
        if EDGE:
            of_edge = (target < head) | (target >= head + vectors * VECTOR)
            of_part = (of_edge & (part == 0)) | (of_part & (of_edge == 0))
        mine = of_part & counts & (target >= 0) & (target < columns)
        if ROWS > 1:
            mine = mine & (lane_of_row(LANES, ROWS) == 0)
        at_target = (tl.exp2((logit - lse) * LOG2_E) - 1.0) * dloss
        tl.store(dx + target, at_target, mask=mine)
