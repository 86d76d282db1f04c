# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
# ruff: noqa: ANN001 (arguments of kernels have no Python types)
"""Takes a row's maximum and sum of exponentials in one pass, and writes the row from them.

The pieces that the looped kernels of the family are made of. A row is read in tiles of
``LANES × VECTOR`` elements, where VECTOR elements are the 16 bytes that one thread loads at once.
Each lane keeps a running maximum (*peak*) and a running sum of ``exp(x − peak)`` (*total*): online
softmax (https://arxiv.org/abs/1805.02867), with one correction of the sum per VECTOR elements
instead of one per element, because the exponential is what such a loop is short of: an SM of
sm_80 to sm_100 does 16 of them per cycle (CUDA C++ Programming Guide, "Throughput of Native
Arithmetic Instructions").

A row's elements, in this order: *head* (fewer than VECTOR, up to the next address that is a
multiple of 16; none unless PEEL), whole vectors (full tiles, then *stripes* of one vector per
thread, masked by whole vectors, so that no load is split), *rest* (fewer than VECTOR). Head and
rest together are one small tile, the *edge*.

Constants
    LANES, VECTOR, ITEM     tile; ITEM is the bytes of an element
    PEEL                    start the vectors at a 16-byte boundary of this row
    TAIL                    the vectors of some row do not fill its last tile
    STRIPE                  lanes of a stripe: as many as threads, or as lanes where they are fewer
    EDGE                    some row has a head or a rest
    STAGES                  software pipelining of the loop; 1: none
    KEEP, DROP              eviction policy of what is read again, and of what is not
"""

from __future__ import annotations

import triton
import triton.language as tl

LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def _above_minus_infinity(peak):
    """Return something to subtract: −inf − −inf is no number, though exp(−inf) is a good zero."""
    return tl.where(peak == float("-inf"), 0.0, peak)


@triton.jit
def _fold(peak, total, x):
    """Fold one more tile [LANES, VECTOR], float32, into the lanes' statistics."""
    new = tl.maximum(peak, tl.max(x, axis=1))
    base = _above_minus_infinity(new)
    old = total * tl.exp2((peak - base) * LOG2_E)
    return new, old + tl.sum(tl.exp2((x - base[:, None]) * LOG2_E), axis=1)


@triton.jit
def join(peak, total):
    """Join the statistics of all lanes; the total is 0 where nothing is above −inf."""
    top = tl.max(peak, axis=0)
    base = _above_minus_infinity(top)
    return top, tl.sum(total * tl.exp2((peak - base) * LOG2_E), axis=0)


@triton.jit
def normalise(x, peak, total, LOG: tl.constexpr):
    """Return the softmax of elements, or its logarithm. NaN where the whole row is −inf, as in
    torch.

    In half precision the division is done in the exponent: a multiply-add less per element, and
    an error (1e-6, from the rounding of log2(total)) that float32 would show.
    """
    above = x.to(tl.float32) - peak
    if LOG:
        return above - tl.log(total)
    if x.dtype == tl.float32:
        return tl.exp2(above * LOG2_E) * (1.0 / total)
    return tl.exp2(above * LOG2_E - tl.log2(total))


@triton.jit
def _head_elements(row, columns, ITEM: tl.constexpr, PEEL: tl.constexpr):
    """Return how many elements come before the row's first address that is a multiple of 16."""
    head = 0
    if PEEL:
        head = tl.minimum(((-row.to(tl.int64)) & 15) // ITEM, columns).to(tl.int32)
    return head


@triton.jit
def _first_vector(row, head, PEEL: tl.constexpr):
    start = row + head
    if PEEL:
        start = tl.multiple_of(start, 16)
    return start


@triton.jit
def edge_columns(head, columns, VECTOR: tl.constexpr, place):
    """Return columns of head and rest, and which of the places, from 0 on, are some."""
    after = head + (columns - head) // VECTOR * VECTOR
    column = tl.where(place < VECTOR, place, after + place - VECTOR)
    inside = tl.where(place < VECTOR, place < head, (place < 2 * VECTOR) & (column < columns))
    return column, inside


@triton.jit
def _tile_offsets(LANES: tl.constexpr, VECTOR: tl.constexpr):
    return (tl.arange(0, LANES) * VECTOR)[:, None] + tl.arange(0, VECTOR)[None, :]


@triton.jit
def stripe(first, vectors, STRIPE: tl.constexpr, VECTOR: tl.constexpr):
    """Return offsets of a tile of one vector per lane, masked by whole vectors."""
    lane = first + tl.arange(0, STRIPE)
    offsets = (lane * VECTOR)[:, None] + tl.arange(0, VECTOR)[None, :]
    return offsets, (lane < vectors)[:, None]


@triton.jit
def _narrow(peak, total, LANES: tl.constexpr, STRIPE: tl.constexpr):
    """Return the statistics of STRIPE lanes: those that one thread keeps are combined."""
    if STRIPE < LANES:
        per_thread: tl.constexpr = LANES // STRIPE
        peaks = tl.reshape(peak, [per_thread, STRIPE])
        totals = tl.reshape(total, [per_thread, STRIPE])
        peak = tl.max(peaks, axis=0)
        base = _above_minus_infinity(peak)
        total = tl.sum(totals * tl.exp2((peaks - base[None, :]) * LOG2_E), axis=0)
    return peak, total


@triton.jit
def _walk_statistics(
    start,
    vectors,
    peak,
    total,
    LANES: tl.constexpr,
    VECTOR: tl.constexpr,
    TAIL: tl.constexpr,
    STRIPE: tl.constexpr,
    STAGES: tl.constexpr,
    KEEP: tl.constexpr,
):
    """Return the lanes' statistics with those of all tiles."""
    full = vectors // LANES
    offsets = _tile_offsets(LANES, VECTOR)
    for tile in tl.range(0, full, num_stages=STAGES):
        x = tl.load(start + tile * (LANES * VECTOR) + offsets, eviction_policy=KEEP)
        peak, total = _fold(peak, total, x.to(tl.float32))
    if TAIL:
        peak, total = _narrow(peak, total, LANES, STRIPE)
        for first in tl.range(full * LANES, vectors, STRIPE):
            at, inside = stripe(first, vectors, STRIPE, VECTOR)
            x = tl.load(start + at, mask=inside, other=float("-inf"), eviction_policy=KEEP)
            peak, total = _fold(peak, total, x.to(tl.float32))
    return peak, total


@triton.jit
def _with_more(x, peak, total):
    """Return the statistics with those of a few elements more."""
    new = tl.maximum(peak, tl.max(x, axis=0))
    base = _above_minus_infinity(new)
    total = total * tl.exp2((peak - base) * LOG2_E)
    return new, total + tl.sum(tl.exp2((x - base) * LOG2_E), axis=0)


@triton.jit
def _with_edge(row, head, columns, peak, total, VECTOR: tl.constexpr):
    """Return a row's statistics with those of its edge."""
    column, there = edge_columns(head, columns, VECTOR, tl.arange(0, 2 * VECTOR))
    edge = tl.load(row + column, mask=there, other=float("-inf")).to(tl.float32)
    return _with_more(edge, peak, total)


@triton.jit
def _row_statistics(
    row,
    columns,
    LANES: tl.constexpr,
    VECTOR: tl.constexpr,
    ITEM: tl.constexpr,
    PEEL: tl.constexpr,
    TAIL: tl.constexpr,
    STRIPE: tl.constexpr,
    EDGE: tl.constexpr,
    STAGES: tl.constexpr,
    KEEP: tl.constexpr,
):
    """Return maximum and sum of ``exp(x − maximum)`` over ``columns`` elements from ``row`` on."""
    head = _head_elements(row, columns, ITEM, PEEL)
    start = _first_vector(row, head, PEEL)
    vectors = (columns - head) // VECTOR
    peak = tl.full([LANES], float("-inf"), tl.float32)
    total = tl.zeros([LANES], tl.float32)
    peak, total = _walk_statistics(
        start, vectors, peak, total, LANES, VECTOR, TAIL, STRIPE, STAGES, KEEP
    )
    top, weight = join(peak, total)
    if EDGE:
        top, weight = _with_edge(row, head, columns, top, weight, VECTOR)
    return top, weight


@triton.jit
def _write_edge(row, out, head, columns, peak, total, LOG: tl.constexpr, VECTOR: tl.constexpr):
    column, there = edge_columns(head, columns, VECTOR, tl.arange(0, 2 * VECTOR))
    edge = tl.load(row + column, mask=there, other=0.0)
    tl.store(out + column, normalise(edge, peak, total, LOG), mask=there)


@triton.jit
def _walk_write(
    start,
    to,
    vectors,
    peak,
    total,
    LOG: tl.constexpr,
    LANES: tl.constexpr,
    VECTOR: tl.constexpr,
    TAIL: tl.constexpr,
    STRIPE: tl.constexpr,
    STAGES: tl.constexpr,
    BACKWARDS: tl.constexpr,
    DROP: tl.constexpr,
):
    """Write all tiles. BACKWARDS: what was read last is read again first, since that
    is what the caches still hold."""
    full = vectors // LANES
    offsets = _tile_offsets(LANES, VECTOR)
    if TAIL:
        for first in tl.range(full * LANES, vectors, STRIPE):
            at, inside = stripe(first, vectors, STRIPE, VECTOR)
            x = tl.load(start + at, mask=inside, other=0.0, eviction_policy=DROP)
            tl.store(to + at, normalise(x, peak, total, LOG), mask=inside, eviction_policy=DROP)
    for step in tl.range(0, full, num_stages=STAGES):
        tile = step
        if BACKWARDS:
            tile = full - 1 - step
        at = tile * (LANES * VECTOR) + offsets
        x = tl.load(start + at, eviction_policy=DROP)
        tl.store(to + at, normalise(x, peak, total, LOG), eviction_policy=DROP)


@triton.jit
def _write_row(
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
    """Write ``columns`` elements at ``out``, whose address is congruent to ``row``'s modulo 16
    where PEEL."""
    head = _head_elements(row, columns, ITEM, PEEL)
    start = _first_vector(row, head, PEEL)
    to = _first_vector(out, head, PEEL)
    vectors = (columns - head) // VECTOR
    if EDGE:
        _write_edge(row, out, head, columns, peak, total, LOG, VECTOR)
    _walk_write(
        start, to, vectors, peak, total,
        LOG, LANES, VECTOR, TAIL, STRIPE, STAGES, BACKWARDS, DROP,
    )  # fmt: skip
