# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
# ruff: noqa: ANN202 (results of kernels have no Python types)
"""Lets a kernel start while the one before it still runs, and wait for it where it needs its
results.

NVIDIA calls it programmatic dependent launch (CUDA C++ Programming Guide; compute capability 9 and
later): the next kernel of a stream, if it was launched so (``KernelLaunch.overlaps``), begins once
all programs of this one have called :func:`start_next` or have ended. What any kernel before them
has written is there by then, since the first of the two was launched as usual.
"""

from __future__ import annotations

import triton
import triton.language as tl

INTERPRETED = tl.constexpr(triton.knobs.runtime.interpret)


@triton.jit
def start_next(OVERLAP: tl.constexpr):
    """Allow the next kernel to start. Without OVERLAP, nothing."""
    if OVERLAP and not INTERPRETED:
        tl.inline_asm_elementwise(
            "griddepcontrol.launch_dependents; // $0",
            "=r", [], dtype=tl.int32, is_pure=False, pack=1,
        )  # fmt: skip


@triton.jit
def await_previous(OVERLAP: tl.constexpr):
    """Wait until the kernel before this one has ended, and see all that it wrote. Without OVERLAP,
    nothing."""
    if OVERLAP and not INTERPRETED:
        tl.inline_asm_elementwise(
            "griddepcontrol.wait; // $0", "=r", [], dtype=tl.int32, is_pure=False, pack=1
        )
