# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
# ruff: noqa: ANN001 (arguments of kernels have no Python types)
"""Computes the losses of a problem that is too small for the library's product to pay: a tile of
the logits by each program, which keeps only its statistics, and one program that joins them.

A call that uses torch's product takes twice the host time.

Constants
    ROWS, CLASSES, STEP   a tile's rows and classes, and the columns that are multiplied at a time
    TILES                 tiles of a row that are joined at a time
    CAPPED, SMOOTHED      as in ``chunks``
    REDUCED, MEAN         the losses' sum, or mean, is wanted, too
"""

from __future__ import annotations

import triton
import triton.language as tl

from .._overlap import INTERPRETED
from .chunks import LOG2_E, slope_of_cap


@triton.jit
def _rounded(numbers, KIND: tl.constexpr):
    """Return float32 numbers as a tensor of KIND would have them. Triton's interpreter cuts the
    lower bits of bfloat16 off, where the gradient's product rounds to nearest, ties to even."""
    if INTERPRETED and tl.bfloat16 == KIND:
        bits = numbers.to(tl.int32, bitcast=True)
        bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & -0x10000
        numbers = bits.to(tl.float32, bitcast=True)
    else:
        numbers = numbers.to(KIND).to(tl.float32)
    return numbers


@triton.jit(do_not_specialize=["rows", "classes"])
def tile_statistics(
    x_ptr, weight_ptr, target_ptr, peaks_ptr, totals_ptr, sums_ptr, picked_ptr,
    rows, classes, columns, cap,
    CAPPED: tl.constexpr, SMOOTHED: tl.constexpr, ROWS: tl.constexpr, CLASSES: tl.constexpr,
    STEP: tl.constexpr,
):  # fmt: skip
    """Store of each row of a tile its maximum, its sum of exponentials and its sum, and the logit
    of its target, if it is in this tile."""
    tile = tl.program_id(0)
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    of_class = tile * CLASSES + tl.arange(0, CLASSES)
    step = tl.arange(0, STEP)
    is_row, is_class = row < rows, of_class < classes
    x = x_ptr + row[:, None] * columns + step[None, :]
    weight = weight_ptr + of_class[None, :] * columns + step[:, None]
    logits = tl.zeros([ROWS, CLASSES], tl.float32)
    for first in range(0, columns, STEP):
        left = columns - first
        a = tl.load(x + first, mask=is_row[:, None] & (step < left)[None, :], other=0.0)
        b = tl.load(weight + first, mask=is_class[None, :] & (step < left)[:, None], other=0.0)
        if INTERPRETED:  # multiplies the bits of bfloat16 as whole numbers (triton 3.6.0, 3.7.1)
            a, b = a.to(tl.float32), b.to(tl.float32)
        logits = tl.dot(a, b, logits)
    # Rounded like the logits of the gradient, which are stored in x's dtype: otherwise a row's
    # exponentials would not add up to 1 there.
    logits = _rounded(logits, x_ptr.dtype.element_ty)
    if CAPPED:
        logits = cap * slope_of_cap(logits, cap)
    place = tile * rows + row
    if SMOOTHED:
        kept = tl.where(is_class[None, :], logits, 0.0)
        tl.store(sums_ptr + place, tl.sum(kept, axis=1), mask=is_row)
    target = tl.load(target_ptr + row, mask=is_row, other=-1)
    named = (target[:, None] == of_class[None, :]) & is_class[None, :]
    found = tl.max(tl.where(named, 1, 0), axis=1) != 0
    picked = tl.sum(tl.where(named, logits, 0.0), axis=1)
    tl.store(picked_ptr + row, picked, mask=is_row & found)
    logits = tl.where(is_class[None, :], logits, float("-inf"))
    peak = tl.max(logits, axis=1)
    base = tl.where(peak == float("-inf"), 0.0, peak)
    total = tl.sum(tl.exp2((logits - base[:, None]) * LOG2_E), axis=1)
    tl.store(peaks_ptr + place, peak, mask=is_row)
    tl.store(totals_ptr + place, total, mask=is_row)


@triton.jit(do_not_specialize=["rows", "classes", "tiles", "ignored"])
def join_tiles(
    target_ptr, peaks_ptr, totals_ptr, sums_ptr, picked_ptr, loss_ptr, lse_ptr, total_ptr,
    scale_ptr, rows, classes, tiles, ignored, kept, share,
    SMOOTHED: tl.constexpr, REDUCED: tl.constexpr, MEAN: tl.constexpr, ROWS: tl.constexpr,
    TILES: tl.constexpr,
):  # fmt: skip
    """Store each row's loss and the logarithm of its sum of exponentials; where they are to be
    reduced, which one program does, the losses' sum or mean, and what the sum was multiplied by."""
    begin = tl.program_id(0) * ROWS
    losses = tl.zeros([ROWS], tl.float32)
    counts = tl.zeros([ROWS], tl.int32)
    for first in range(begin, rows, tl.num_programs(0) * ROWS):
        row = first + tl.arange(0, ROWS)
        is_row = row < rows
        peak = tl.full([ROWS], float("-inf"), tl.float32)
        total = tl.zeros([ROWS], tl.float32)
        of_logits = tl.zeros([ROWS], tl.float32)
        for start in range(0, tiles, TILES):
            tile = start + tl.arange(0, TILES)
            inside = (tile < tiles)[:, None] & is_row[None, :]
            place = tile[:, None] * rows + row[None, :]
            peaks = tl.load(peaks_ptr + place, mask=inside, other=float("-inf"))
            totals = tl.load(totals_ptr + place, mask=inside, other=0.0)
            if SMOOTHED:
                sums = tl.load(sums_ptr + place, mask=inside, other=0.0)
                of_logits += tl.sum(sums, axis=0)
            top = tl.maximum(peak, tl.max(peaks, axis=0))
            base = tl.where(top == float("-inf"), 0.0, top)
            total = total * tl.exp2((peak - base) * LOG2_E)
            total += tl.sum(totals * tl.exp2((peaks - base[None, :]) * LOG2_E), axis=0)
            peak = top
        target = tl.load(target_ptr + row, mask=is_row, other=0).to(tl.int64)
        named = is_row & (target >= 0) & (target < classes)
        picked = tl.load(picked_ptr + row, mask=named, other=float("nan"))
        lse = peak + tl.log(total)
        loss = lse - kept * picked
        if SMOOTHED:
            loss -= share * of_logits
        counted = is_row & (target != ignored)
        loss = tl.where(counted, loss, 0.0)
        tl.store(lse_ptr + row, lse, mask=is_row)
        tl.store(loss_ptr + row, loss, mask=is_row)
        losses += loss
        counts += counted.to(tl.int32)
    if REDUCED:
        factor = 1.0
        if MEAN:
            factor = 1.0 / tl.sum(counts).to(tl.float32)
        tl.store(total_ptr, tl.sum(losses) * factor)
        tl.store(scale_ptr, factor)
