# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
# ruff: noqa: ANN001, ANN202 (arguments and results of kernels have no Python types)
"""Puts a pair of fp32 numbers into a word of 64 bits, which one store tells as a whole."""

from __future__ import annotations

import triton
import triton.language as tl

_LOW_WORD = tl.constexpr(0xFFFF_FFFF)


@triton.jit
def pack(first, second):
    high = first.to(tl.int32, bitcast=True).to(tl.int64) << 32
    return high | (second.to(tl.int32, bitcast=True).to(tl.int64) & _LOW_WORD)


@triton.jit
def unpack(words):
    first = (words >> 32).to(tl.int32).to(tl.float32, bitcast=True)
    return first, words.to(tl.int32).to(tl.float32, bitcast=True)
