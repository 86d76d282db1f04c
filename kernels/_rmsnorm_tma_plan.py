"""The launch of RMSNorm by TMA, and when there can be none. Pure."""

from __future__ import annotations

from math import gcd

from perfcli.errors import PerfcliError
from perfcli.model import KernelLaunch, Problem, Target

from ._rmsnorm_blocks import ITEM_BYTES, TRITON_TYPE, Blocks, padded, vector
from ._rmsnorm_steps import grid, has_residual, pointers, step

LINE_ELEMENTS = 64
"""The longest line of the TMA view: 128 bytes of half precision, one swizzled line."""


def line_width(problem: Problem) -> int:
    """Of the TMA view of a row as lines: a power of two that divides the row."""
    return gcd(problem.columns, LINE_ELEMENTS)


def tma(problem: Problem, target: Target, blocks: Blocks) -> list[KernelLaunch]:
    wide, width = vector(problem), line_width(problem)
    if target.vendor != "nvidia" or target.capability < (9, 0):
        raise PerfcliError(
            f"rmsnorm: tma needs an NVIDIA GPU of capability 9.0 or more, {target.name} is "
            f"{target.arch}: use full-tile"
        )
    if problem.stride % wide or width < wide:
        raise PerfcliError(
            f"rmsnorm: tma needs row strides and lengths that are multiples of 16 bytes, these "
            f"are {problem.stride * ITEM_BYTES[problem.dtype]} and "
            f"{problem.columns * ITEM_BYTES[problem.dtype]}: pad the rows, or use peeled"
        )
    names, absent = pointers(problem)
    made = step(
        problem, target, blocks, "tma_rows", grid(problem, target, blocks),
        f"{names} rows eps", absent,
        COLUMNS=problem.columns, BLOCK=padded(problem), WIDTH=width, ROWS=blocks.rows,
        STAGES=blocks.stages, RESIDUAL=has_residual(problem), WRITE=blocks.write,
    )  # fmt: skip
    box = f"[{blocks.rows}, {padded(problem) // width}, {width}]"
    descriptor = f"tensordesc<{TRITON_TYPE[problem.dtype]}{box}>"
    described = {n: descriptor for n in ("x", "residual") if n in made.arguments}
    aligned = tuple(n for n in made.divisible_by_16 if n not in described)
    return [
        KernelLaunch(
            made.function, made.grid, {**made.arguments, **described}, made.constants,
            made.num_warps, divisible_by_16=aligned,
        )
    ]  # fmt: skip
