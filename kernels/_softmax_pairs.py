# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
# ruff: noqa: ANN001, ANN202 (arguments of kernels have no Python types)
"""Two halves in a word of 32 bits, as they lie in memory: apart, together, and into statistics.

KIND is the dtype of the halves. A pair is made by one instruction of NVIDIA, which Triton's
compiler does not make of two conversions, a shift and a bitwise or.
"""

from __future__ import annotations

import triton
import triton.language as tl

from ._softmax_opaque import INTERPRETED
from ._softmax_statistics import LOG2_E, above_minus_infinity

NOTHING_BF16 = tl.constexpr(-0x007F_0080)
"""A pair of −∞, 0xff80ff80 as a signed number."""
NOTHING_FP16 = tl.constexpr(-0x03FF_0400)
"""The same in float16: 0xfc00fc00."""
CONVERT_BF16 = tl.constexpr("cvt.rn.bf16x2.f32 $0, $1, $2;")
CONVERT_FP16 = tl.constexpr("cvt.rn.f16x2.f32 $0, $1, $2;")
"""The first operand goes to the upper half (PTX ISA, cvt); sm_80 and up."""


@triton.jit
def low(pair, KIND: tl.constexpr):
    """The first of two halves, as float32."""
    if tl.bfloat16 == KIND:
        return (pair << 16).to(tl.float32, bitcast=True)
    return pair.to(tl.int16).to(tl.float16, bitcast=True).to(tl.float32)


@triton.jit
def high(pair, KIND: tl.constexpr):
    if tl.bfloat16 == KIND:
        return (pair & -0x1_0000).to(tl.float32, bitcast=True)
    return (pair >> 16).to(tl.int16).to(tl.float16, bitcast=True).to(tl.float32)


@triton.jit
def paired(first, second, KIND: tl.constexpr):
    """Two float32, rounded to nearest even."""
    if INTERPRETED:
        below = first.to(KIND).to(tl.int16, bitcast=True).to(tl.int32) & 0xFFFF
        return below | (second.to(KIND).to(tl.int16, bitcast=True).to(tl.int32) << 16)
    return tl.inline_asm_elementwise(
        CONVERT_BF16 if tl.bfloat16 == KIND else CONVERT_FP16,
        "=r,r,r",
        [second, first],
        dtype=tl.int32,
        is_pure=True,
        pack=1,
    )


@triton.jit
def fold_pairs(peak, total, pair, KIND: tl.constexpr):
    """One more tile [LANES, VECTOR / 2] of pairs into the lanes' statistics."""
    first = low(pair, KIND)
    second = high(pair, KIND)
    new = tl.maximum(peak, tl.max(tl.maximum(first, second), axis=1))
    base = above_minus_infinity(new)
    old = total * tl.exp2((peak - base) * LOG2_E)
    each = base[:, None]
    both = tl.exp2((first - each) * LOG2_E) + tl.exp2((second - each) * LOG2_E)
    return new, old + tl.sum(both, axis=1)
