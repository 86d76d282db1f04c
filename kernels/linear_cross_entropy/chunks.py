# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
# ruff: noqa: ANN001 (arguments of kernels have no Python types)
"""Folds a chunk of the logits into every row's statistics, or turns it into its gradient in place.

A program has one row of the chunk. ``first`` is the chunk's first class. With the last chunk come
the row's loss and ``lse``, the logarithm of its sum of exponentials.

Constants
    CHUNK, BLOCK      classes of a chunk, and of one load by the whole block
    CAPPED, SMOOTHED  softcap, and label smoothing, are not 0
"""

from __future__ import annotations

import triton
import triton.language as tl

LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def slope_of_cap(x, cap):
    """Return tanh(x / cap)."""
    return 1.0 - 2.0 / (tl.exp2(x * (2.0 * LOG2_E) / cap) + 1.0)


@triton.jit
def _load(at, inside, cap, CAPPED: tl.constexpr):
    """Return logits in float32, and their caps' tanh."""
    x = tl.load(at, mask=inside, other=0.0).to(tl.float32)
    slope = x
    if CAPPED:
        slope = slope_of_cap(x, cap)
        x = cap * slope
    return x, slope


@triton.jit(do_not_specialize=["first", "classes"])
def chunk_statistics(
    logits_ptr, target_ptr, peaks_ptr, totals_ptr, picked_ptr, sums_ptr, loss_ptr, lse_ptr,
    first, columns, stride, classes, cap, ignored, kept, share,
    CAPPED: tl.constexpr, SMOOTHED: tl.constexpr, CHUNK: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Fold a chunk into the maximum of a row, its sum of exponentials, its sum, and the logit of
    its target, which is NaN where the target is no class. The first chunk finds nothing there."""
    row = tl.program_id(0)
    named = tl.load(target_ptr + row)
    target = named - first
    later = first > 0
    peak = tl.load(peaks_ptr + row, mask=later, other=float("-inf"))
    total = tl.load(totals_ptr + row, mask=later, other=0.0)
    logits = logits_ptr + row.to(tl.int64) * stride
    highest = tl.full([BLOCK], float("-inf"), tl.float32)
    weights = tl.zeros([BLOCK], tl.float32)
    sums = tl.zeros([BLOCK], tl.float32)
    for start in range(0, CHUNK, BLOCK):
        column = start + tl.arange(0, BLOCK)
        inside = column < columns
        x, _ = _load(logits + column, inside, cap, CAPPED)
        sums += tl.where(inside, x, 0.0)
        x = tl.where(inside, x, float("-inf"))
        new = tl.maximum(highest, x)
        base = tl.where(new == float("-inf"), 0.0, new)
        weights = weights * tl.exp2((highest - base) * LOG2_E) + tl.exp2((x - base) * LOG2_E)
        highest = new
    top = tl.maximum(peak, tl.max(highest, axis=0))
    base = tl.where(top == float("-inf"), 0.0, top)
    total = total * tl.exp2((peak - base) * LOG2_E)
    total += tl.sum(weights * tl.exp2((highest - base) * LOG2_E), axis=0)
    there = (target >= 0) & (target < columns)
    x, _ = _load(logits + target, there, cap, CAPPED)
    before = tl.load(picked_ptr + row, mask=later, other=float("nan"))
    picked = tl.where(there, x, before)
    total_of_logits = 0.0
    if SMOOTHED:
        total_of_logits = tl.load(sums_ptr + row, mask=later, other=0.0) + tl.sum(sums, axis=0)
    if first + columns == classes:
        lse = top + tl.log(total)
        loss = lse - kept * picked
        if SMOOTHED:
            loss -= share * total_of_logits
        tl.store(lse_ptr + row, lse)
        tl.store(loss_ptr + row, tl.where(named == ignored, 0.0, loss))
    else:
        tl.store(peaks_ptr + row, top)
        tl.store(totals_ptr + row, total)
        tl.store(picked_ptr + row, picked)
        if SMOOTHED:
            tl.store(sums_ptr + row, total_of_logits)


@triton.jit(do_not_specialize=["first"])
def chunk_gradient(
    logits_ptr, target_ptr, lse_ptr, dloss_ptr,
    first, columns, stride, cap, ignored, kept, share,
    CAPPED: tl.constexpr, SMOOTHED: tl.constexpr, CHUNK: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Write the gradient of a row's logits over them: ``(softmax − kept at the target − share) ×
    dloss``; 0 where the target is ``ignored``."""
    row = tl.program_id(0)
    target = tl.load(target_ptr + row)
    counts = target != ignored
    target = (target - first).to(tl.int32)
    lse = tl.load(lse_ptr + row)
    dloss = tl.load(dloss_ptr + row)
    logits = logits_ptr + row.to(tl.int64) * stride
    for start in range(0, CHUNK, BLOCK):
        column = start + tl.arange(0, BLOCK)
        inside = column < columns
        x, slope = _load(logits + column, inside, cap, CAPPED)
        gradient = tl.exp2((x - lse) * LOG2_E)
        if SMOOTHED:
            gradient -= share
        gradient = tl.where(column == target, gradient - kept, gradient) * dloss
        if CAPPED:
            gradient *= 1.0 - slope * slope
        tl.store(logits + column, tl.where(counts, gradient, 0.0), mask=inside)
