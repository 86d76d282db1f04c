# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
# mypy: disable-error-code="assignment, attr-defined"
# ruff: noqa: ANN001, ANN202 (arguments of kernels have no Python types)
"""What the programs of one row tell one another: the statistics of a part in one word of 64 bits.

The bits of the peak stand above those of the total, and one atomic exchange puts the word in place.
It is both the value and the news that it is there, so nothing has to be fenced or counted. Words
are zero before the launch, and 0 is no such pair:

* a total of 0 goes with a peak of −∞, whose bits are 0xff800000: no element is above −∞;
* a peak of +0.0, whose bits are 0, goes with a total of 1 or more: its own exponential is 1;
* NaN, wherever it is, has bits.

Nothing depends on the programs of a row running at the same time: who has looked PATIENCE times
computes what is missing itself and tells it for the others (Triton's interpreter, which runs one
program after the other, looks once).
"""

from __future__ import annotations

import triton
import triton.language as tl

from ._softmax_statistics import join

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
def chunk_at(pointer, row, first, stride, VECTOR: tl.constexpr, ALIGNED: tl.constexpr):
    offset = row.to(tl.int64) * stride
    if ALIGNED:
        offset = tl.multiple_of(offset, VECTOR)
    return pointer + offset + first


@triton.jit
def told_by_all(
    words, start, chunks, vectors, edge, OF_PART: tl.constexpr,
    PARTS: tl.constexpr, PATIENCE: tl.constexpr,
    LANES: tl.constexpr, VECTOR: tl.constexpr, TILES: tl.constexpr, EDGE: tl.constexpr,
):  # fmt: skip
    """The statistics of the row, from the words of all its programs. OF_PART gives those of a part
    as its own program would have added them up: tiles in the same order, and so the same bits."""
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
                word = packed(top, weight)
                tl.atomic_xchg(words + which, word, sem="relaxed")
            seen = tl.where(other == which, word, seen)
    peaks, totals = unpacked(seen)
    return join(peaks, totals)
