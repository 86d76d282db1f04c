# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
# mypy: disable-error-code="attr-defined"
# ruff: noqa: ANN001, ANN202 (arguments and results of kernels have no Python types)
"""Puts pairs of numbers into words: two of fp32 into 64 bits, which one store tells as a whole, and
two of half precision into 32, which is how they lie in memory and take one register. Before
programs tell one another words, ``fill_words`` says that nobody has told anything yet."""

from __future__ import annotations

import triton
import triton.language as tl

from ._overlap import INTERPRETED, await_previous, start_next

_LOW_WORD = tl.constexpr(0xFFFF_FFFF)
_CONVERT_BF16 = tl.constexpr("cvt.rn.bf16x2.f32 $0, $1, $2;")
_CONVERT_FP16 = tl.constexpr("cvt.rn.f16x2.f32 $0, $1, $2;")
"""The first operand goes to the upper half (PTX ISA, cvt); sm_80 and up."""


@triton.jit
def pack(first, second):
    high = first.to(tl.int32, bitcast=True).to(tl.int64) << 32
    return high | (second.to(tl.int32, bitcast=True).to(tl.int64) & _LOW_WORD)


@triton.jit
def unpack(words):
    first = (words >> 32).to(tl.int32).to(tl.float32, bitcast=True)
    return first, words.to(tl.int32).to(tl.float32, bitcast=True)


@triton.jit
def add_pairs(a, b, c, d):
    """Add pairs of numbers, for ``tl.reduce``."""
    return a + c, b + d


@triton.jit(do_not_specialize=["word_count"])
def fill_words(
    words, word_count, WORD: tl.constexpr, BLOCK: tl.constexpr, AWAITS: tl.constexpr,
    OVERLAP: tl.constexpr,
):  # fmt: skip
    """Write WORD to all of them; with AWAITS not before the previous kernel has ended."""
    await_previous(AWAITS)
    start_next(OVERLAP)
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(words + at, tl.full([BLOCK], WORD, tl.int64), mask=at < word_count)


@triton.jit
def low_half(pair, KIND: tl.constexpr):
    """Return the first of two halves, as float32."""
    if tl.bfloat16 == KIND:
        return (pair << 16).to(tl.float32, bitcast=True)
    return pair.to(tl.int16).to(tl.float16, bitcast=True).to(tl.float32)


@triton.jit
def high_half(pair, KIND: tl.constexpr):
    if tl.bfloat16 == KIND:
        return (pair & -0x1_0000).to(tl.float32, bitcast=True)
    return (pair >> 16).to(tl.int16).to(tl.float16, bitcast=True).to(tl.float32)


@triton.jit
def join_halves(first, second, KIND: tl.constexpr, ASSEMBLY: tl.constexpr):
    """Return two float32 as one word, rounded to nearest even."""
    if ASSEMBLY and not INTERPRETED:
        return tl.inline_asm_elementwise(
            _CONVERT_BF16 if tl.bfloat16 == KIND else _CONVERT_FP16,
            "=r,r,r",
            [second, first],
            dtype=tl.int32,
            is_pure=True,
            pack=1,
        )
    below = first.to(KIND).to(tl.int16, bitcast=True).to(tl.int32) & 0xFFFF
    return below | (second.to(KIND).to(tl.int16, bitcast=True).to(tl.int32) << 16)


@triton.jit
def opaque(x):
    """Return ``x`` itself, in a way that LLVM cannot see through, and ptxas can."""
    if INTERPRETED:  # which has no assembler, and nothing to hide
        return x
    return tl.inline_asm_elementwise(
        "mov.b32 $0, $1;",
        "=r,r",
        [x],
        dtype=x.dtype,
        is_pure=False,
        pack=32 // x.dtype.primitive_bitwidth,
    )
