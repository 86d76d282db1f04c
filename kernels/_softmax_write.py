# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
# ruff: noqa: ANN001, ANN202 (arguments of kernels have no Python types)
"""A row written from its maximum and sum, tile by tile; constants as in _softmax_statistics."""

from __future__ import annotations

import triton
import triton.language as tl

from ._softmax_statistics import (
    edge_columns,
    first_vector,
    head_elements,
    normalised,
    stripe,
    tile_offsets,
)


@triton.jit
def write_edge(row, out, head, columns, peak, total, LOG: tl.constexpr, VECTOR: tl.constexpr):
    column, there = edge_columns(head, columns, VECTOR)
    edge = tl.load(row + column, mask=there, other=0.0)
    tl.store(out + column, normalised(edge, peak, total, LOG), mask=there)


@triton.jit
def walk_write(
    start,
    to,
    vectors,
    peak,
    total,
    FIRST: tl.constexpr,
    LOG: tl.constexpr,
    LANES: tl.constexpr,
    VECTOR: tl.constexpr,
    TAIL: tl.constexpr,
    STRIPE: tl.constexpr,
    STAGES: tl.constexpr,
    BACKWARDS: tl.constexpr,
    DROP: tl.constexpr,
):
    """Writes all tiles from FIRST on. BACKWARDS: what was read last is read again first, since
    that is what the caches still hold."""
    full = vectors // LANES
    offsets = tile_offsets(LANES, VECTOR)
    if TAIL:
        for first in tl.range(full * LANES, vectors, STRIPE):
            at, inside = stripe(first, vectors, STRIPE, VECTOR)
            x = tl.load(start + at, mask=inside, other=0.0, eviction_policy=DROP)
            tl.store(to + at, normalised(x, peak, total, LOG), mask=inside, eviction_policy=DROP)
    for step in tl.range(FIRST, full, num_stages=STAGES):
        tile = step
        if BACKWARDS:
            tile = full - 1 - (step - FIRST)
        at = tile * (LANES * VECTOR) + offsets
        x = tl.load(start + at, eviction_policy=DROP)
        tl.store(to + at, normalised(x, peak, total, LOG), eviction_policy=DROP)


@triton.jit
def write_row(
    row,
    out,
    columns,
    peak,
    total,
    LOG: tl.constexpr,
    LANES: tl.constexpr,
    VECTOR: tl.constexpr,
    ITEM: tl.constexpr,
    PEEL: tl.constexpr,
    TAIL: tl.constexpr,
    STRIPE: tl.constexpr,
    EDGE: tl.constexpr,
    STAGES: tl.constexpr,
    BACKWARDS: tl.constexpr,
    DROP: tl.constexpr,
):
    """Writes ``columns`` elements at ``out``, whose address is congruent to ``row``'s modulo 16
    where PEEL."""
    head = head_elements(row, columns, ITEM, PEEL)
    start = first_vector(row, head, PEEL)
    to = first_vector(out, head, PEEL)
    vectors = (columns - head) // VECTOR
    if EDGE:
        write_edge(row, out, head, columns, peak, total, LOG, VECTOR)
    walk_write(
        start, to, vectors, peak, total,
        0, LOG, LANES, VECTOR, TAIL, STRIPE, STAGES, BACKWARDS, DROP,
    )  # fmt: skip
