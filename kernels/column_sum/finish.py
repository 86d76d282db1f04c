# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
# ruff: noqa: ANN001 (arguments of kernels have no Python types)
"""Defines the second kernel of a split column sum: rows of fp32 partial sums, added in order."""

import triton
import triton.language as tl


@triton.jit
def column_sum_finish(partial, out, splits, width, TILE_R: tl.constexpr, TILE_I: tl.constexpr):
    column = tl.program_id(0) * TILE_I + tl.arange(0, TILE_I)
    line = tl.arange(0, TILE_R)
    total = tl.zeros([TILE_R, TILE_I], tl.float32)
    for first in tl.range(0, splits, TILE_R):
        row = (first + line).to(tl.int64)
        mask = (row < splits)[:, None] & (column < width)[None, :]
        total += tl.load(partial + row[:, None] * width + column[None, :], mask=mask, other=0.0)
    result = tl.sum(total, 0).to(out.dtype.element_ty)
    tl.store(out + column, result, mask=column < width)
