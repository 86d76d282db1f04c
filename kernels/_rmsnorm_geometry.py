# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
# ruff: noqa: ANN001, ANN202 (arguments of kernels have no Python types)
"""Where a row's aligned part lies, and small steps that several kernels of RMSNorm share."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def aligned_part(row, STRIDE: tl.constexpr, COLUMNS: tl.constexpr, VECTOR: tl.constexpr):
    """The row's part that starts at, and is as long as, a multiple of ``VECTOR`` elements.

    Returns the tensor's element where it starts, how many elements of the row lie before it, and
    how many are in it. That the first number is a multiple is visible to the compiler, which
    therefore loads 16 bytes at a time though rows start anywhere.
    """
    start = tl.cast(row, tl.int64) * STRIDE
    first = (start + (VECTOR - 1)) // VECTOR * VECTOR
    head = (first - start).to(tl.int32)
    return first, head, (COLUMNS - head) // VECTOR * VECTOR


@triton.jit
def edge_columns(head, main, COLUMNS: tl.constexpr, VECTOR: tl.constexpr):
    """Columns before and after the aligned part, fewer than ``VECTOR`` each, and which are any."""
    edge = tl.arange(0, 2 * VECTOR)
    before = edge < VECTOR
    column = tl.where(before, edge, head + main + edge - VECTOR)
    return column, tl.where(before, edge < head, column < COLUMNS)


@triton.jit
def added(x, residual):
    """The sum as it is stored: rounded to the inputs' dtype."""
    return (x.to(tl.float32) + residual.to(tl.float32)).to(x.dtype)


@triton.jit
def scaled(x, scale, weight, dtype: tl.constexpr):
    return (x.to(tl.float32) * scale * weight.to(tl.float32)).to(dtype)


@triton.jit
def opaque(x, OPAQUE: tl.constexpr):
    """``x``, which the compiler can no longer see to be a value it has converted before: so it
    keeps 16 bits of it over a reduction, and not the 32 that it has been widened to."""
    if OPAQUE:
        x = tl.inline_asm_elementwise(
            "mov.b32 $0, $1;", "=r,r", [x], dtype=x.dtype, is_pure=False, pack=2
        )
    return x


@triton.jit
def shift_weights(
    unshifted, weight, COLUMNS: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr
):
    """``weight[h, i] = unshifted[i + h]``: a row whose aligned part starts at its column ``h``
    finds its weights aligned in copy ``h``."""
    head = tl.program_id(1)
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(unshifted + head + column, mask=head + column < COLUMNS, other=0.0)
    tl.store(weight + head * WIDTH + column, values, mask=column < WIDTH)
