"""One launch of a forward kernel as data; what all of them have in common. Pure."""

from __future__ import annotations

from perfcli.model import KernelLaunch, Problem, Scalar, Target

from ._rmsnorm_blocks import TRITON_TYPE, Blocks, round_up, rows_are_aligned, vector, warps


def has_residual(problem: Problem) -> bool:
    return problem.operation == "rmsnorm-residual"


def peels(problem: Problem) -> bool:
    """Whether rows are longer than their unaligned ends, and input and output rows start at the
    same distance from a multiple of 16 bytes, so that one aligned part serves both."""
    wide = vector(problem)
    same = (problem.stride - problem.columns) % wide == 0 or problem.rows == 1
    return not rows_are_aligned(problem) and problem.columns >= 4 * wide and same


def weight_width(problem: Problem) -> int:
    """Elements from one shifted copy of the weights to the next."""
    return round_up(problem.columns, 64)


def _arguments(problem: Problem, names: str) -> dict[str, str]:
    element = TRITON_TYPE[problem.dtype]
    special = {"eps": "fp32", "rows": "i32", "count": "i32", "tiles": "i32", "partial": "*fp32"}
    return {name: special.get(name, f"*{element}") for name in names.split()}


def step(
    problem: Problem,
    target: Target,
    blocks: Blocks,
    function: str,
    grid: tuple[int, int, int],
    names: str,
    absent: str = "",
    **constants: Scalar,
) -> KernelLaunch:
    arguments = _arguments(problem, names)
    missing: dict[str, Scalar] = dict.fromkeys(absent.split())
    return KernelLaunch(
        function=function,
        grid=grid,
        arguments=arguments,
        constants={**missing, **constants},
        num_warps=warps(blocks, target),
        divisible_by_16=tuple(n for n, kind in arguments.items() if kind.startswith("*")),
    )


def pointers(problem: Problem) -> tuple[str, str]:
    """Names of the tensors that are there, and of those that are not."""
    if has_residual(problem):
        return "x residual weight y total", ""
    return "x weight y", "residual total"


def grid(problem: Problem, target: Target, blocks: Blocks) -> tuple[int, int, int]:
    tiles = -(-problem.rows // blocks.rows)
    resident = blocks.per_sm * target.sm_count
    return (min(tiles, resident) if resident else tiles, 1, 1)
