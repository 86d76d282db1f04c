"""Launches of the backward variants. Pure."""

from __future__ import annotations

from perfcli.model import KernelLaunch, LaunchPlan, Problem, Scalar, Target

from ._rmsnorm_blocks import TRITON_TYPE, Blocks, padded, power_of_two, warps

SUM_ROWS = 64
"""Partial sums that one block of the last kernel adds at a time."""


def has_residual(problem: Problem) -> bool:
    return problem.operation == "rmsnorm-residual-backward"


def _launch(
    problem: Problem,
    function: str,
    grid: tuple[int, int, int],
    names: str,
    num_warps: int,
    constants: dict[str, Scalar],
) -> KernelLaunch:
    element = TRITON_TYPE[problem.dtype]
    special = {
        "eps": "fp32", "rows": "i32", "count": "i32", "partial": "*fp32", "scale": "*fp32"
    }  # fmt: skip
    arguments = {name: special.get(name, f"*{element}") for name in names.split()}
    pointers = tuple(n for n, kind in arguments.items() if kind.startswith("*"))
    return KernelLaunch(function, grid, arguments, constants, num_warps, divisible_by_16=pointers)


def _rows(
    problem: Problem, target: Target, blocks: Blocks, programs: int, fused: bool
) -> KernelLaunch:
    """The kernel that has whole rows in registers."""
    residual = has_residual(problem)
    absent: dict[str, Scalar] = {} if residual else {"dsum": None}
    absent["scale" if fused else "partial"] = None
    names = (
        f"x dy {'dsum ' if residual else ''}weight dx {'partial' if fused else 'scale'} rows eps"
    )
    constants: dict[str, Scalar] = {
        "COLUMNS": problem.columns,
        "STRIDE": problem.stride,
        "BLOCK": padded(problem),
        "ROWS": blocks.rows,
        "STAGES": blocks.stages,
        "RESIDUAL": residual,
        "FUSED": fused,
        "READ": blocks.read,
        "WRITE": blocks.write,
    }
    return _launch(
        problem, "backward_rows", (programs, 1, 1), names, warps(blocks, target),
        {**absent, **constants},
    )  # fmt: skip


def _sum(problem: Problem, target: Target) -> KernelLaunch:
    """Adds the partial sums: narrow blocks, so that there are many of them."""
    block = min(32, power_of_two(problem.columns))
    constants: dict[str, Scalar] = {"COLUMNS": problem.columns, "BLOCK": block, "ROWS": SUM_ROWS}
    return _launch(
        problem, "sum_partials", (-(-problem.columns // block), 1, 1), "partial dw count",
        256 // target.warp_size, constants,
    )  # fmt: skip


def tile_count(problem: Problem, blocks: Blocks) -> int:
    return -(-problem.rows // blocks.rows)


def fused(problem: Problem, target: Target, blocks: Blocks, why: str) -> LaunchPlan:
    """A persistent grid, then the sum of what each of its programs has added up."""
    programs = min(tile_count(problem, blocks), max(blocks.per_sm, 1) * target.sm_count)
    steps = (_rows(problem, target, blocks, programs, True), _sum(problem, target))
    return LaunchPlan("fused", steps, why, 4 * programs * problem.columns)


def splits(problem: Problem, target: Target, columns: int, rows: int) -> int:
    """Of the rows, in the kernel that sums columns: about four blocks per multiprocessor."""
    across = -(-problem.columns // columns)
    return max(1, min(-(-problem.rows // rows), -(-4 * target.sm_count // across)))


def unfused(problem: Problem, target: Target, blocks: Blocks, why: str) -> LaunchPlan:
    """The input's gradient with each row's scale; then columns summed: both inputs once more."""
    columns, rows = min(128, padded(problem)), 32
    parts = splits(problem, target, columns, rows)
    if blocks.tile:
        residual = has_residual(problem)
        first = _launch(
            problem, "backward_loop", (problem.rows, 1, 1),
            f"x dy {'dsum ' if residual else ''}weight dx scale eps", warps(blocks, target),
            {
                **({} if residual else {"dsum": None}),
                "COLUMNS": problem.columns,
                "STRIDE": problem.stride,
                "BLOCK": blocks.tile,
                "RESIDUAL": residual,
            },
        )  # fmt: skip
    else:
        first = _rows(problem, target, blocks, tile_count(problem, blocks), False)
    second = _launch(
        problem, "weight_gradient", (-(-problem.columns // columns), parts, 1),
        "x dy scale partial rows", 256 // target.warp_size,
        {
            "COLUMNS": problem.columns,
            "STRIDE": problem.stride,
            "BLOCK": columns,
            "ROWS": rows,
            "STAGES": 1,
        },
    )  # fmt: skip
    workspace = 4 * (problem.rows + parts * problem.columns)
    return LaunchPlan("unfused", (first, second, _sum(problem, target)), why, workspace)
