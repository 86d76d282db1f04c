# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
# ruff: noqa: ANN001, ANN202 (arguments of kernels have no Python types)
"""Online softmax whose first tiles stay in registers, in the input's precision; forward.

A row that does not fit into registers is read twice, and the second time an L1 of 256 KiB per SM
holds only the end of it. What is held in registers (up to 128 KiB of an SM's 256 KiB) is read
once. Held tiles bypass the L1, whose room is for the others.

Constants as in _softmax_statistics; HELD is how many tiles stay. OPAQUE:
the compiler is kept from holding them in float32 instead.
"""

from __future__ import annotations

import triton
import triton.language as tl

from ._softmax_looped import row_at
from ._softmax_opaque import opaque
from ._softmax_statistics import (
    first_vector,
    fold,
    head_elements,
    join,
    normalised,
    tile_offsets,
    walk_statistics,
    with_edge,
)
from ._softmax_write import walk_write, write_edge


@triton.jit
def hidden(x, OPAQUE: tl.constexpr):
    if OPAQUE:
        x = opaque(x)
    return x


@triton.jit
def held_forward(
    x_ptr,
    y_ptr,
    columns,
    x_stride,
    y_stride,
    LOG: tl.constexpr,
    HELD: tl.constexpr,
    OPAQUE: tl.constexpr,
    LANES: tl.constexpr,
    VECTOR: tl.constexpr,
    ITEM: tl.constexpr,
    ALIGNED: tl.constexpr,
    PEEL: tl.constexpr,
    TAIL: tl.constexpr,
    STRIPE: tl.constexpr,
    EDGE: tl.constexpr,
    STAGES: tl.constexpr,
    BACKWARDS: tl.constexpr,
    KEEP: tl.constexpr,
    DROP: tl.constexpr,
):
    row = row_at(x_ptr, x_stride, VECTOR, ALIGNED)
    out = row_at(y_ptr, y_stride, VECTOR, ALIGNED)
    head = head_elements(row, columns, ITEM, PEEL)
    start = first_vector(row, head, PEEL)
    to = first_vector(out, head, PEEL)
    vectors = (columns - head) // VECTOR
    offsets = tile_offsets(LANES, VECTOR)
    held = ()
    for tile in tl.static_range(HELD):
        at = start + tile * (LANES * VECTOR) + offsets
        held = held + (tl.load(at, cache_modifier=".cg"),)  # type: ignore[assignment]  # noqa: RUF005
    peak = tl.full([LANES], float("-inf"), tl.float32)
    total = tl.zeros([LANES], tl.float32)
    for tile in tl.static_range(HELD):
        peak, total = fold(peak, total, held[tile].to(tl.float32))
    peak, total = walk_statistics(
        start, vectors, peak, total, HELD, LANES, VECTOR, TAIL, STRIPE, STAGES, KEEP
    )
    top, weight = join(peak, total)
    if EDGE:
        top, weight = with_edge(row, head, columns, top, weight, VECTOR)
        write_edge(row, out, head, columns, top, weight, LOG, VECTOR)
    walk_write(
        start, to, vectors, top, weight,
        HELD, LOG, LANES, VECTOR, TAIL, STRIPE, STAGES, BACKWARDS, DROP,
    )  # fmt: skip
    for tile in tl.static_range(HELD):
        y = normalised(hidden(held[tile], OPAQUE), top, weight, LOG)
        tl.store(to + tile * (LANES * VECTOR) + offsets, y, eviction_policy=DROP)
