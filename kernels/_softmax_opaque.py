# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
# ruff: noqa: ANN001, ANN202 (arguments of kernels have no Python types)
"""Values that the compiler must not keep twice."""

from __future__ import annotations

import triton
import triton.language as tl

INTERPRETED = tl.constexpr(triton.knobs.runtime.interpret)


@triton.jit
def opaque(x):
    """``x`` itself, in a way that the compiler cannot see through."""
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
