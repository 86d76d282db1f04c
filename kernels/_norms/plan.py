"""Plans norms: from problem and target to launches. Pure."""

from __future__ import annotations

from perfcli.errors import PerfcliError
from perfcli.model import KernelLaunch, LaunchPlan, Problem, Scalar, Target

from . import choice
from .blocks import (
    TRITON_TYPE,
    Blocks,
    _misfit,
    _peels,
    _power_of_two,
    check_problem,
    family,
    has_mean,
    has_residual,
    is_backward,
    padded_columns,
    warps,
)
from .choice import FUSED
from .forward_plan import BUILDERS, MEAN_BUILDERS, forward

SUM_ROWS = 64
"""Partial sums that one block of the last kernel adds at a time."""


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
    """Return the kernel that has whole rows in registers."""
    residual = has_residual(problem)
    absent: dict[str, Scalar] = {} if residual else {"dsum": None}
    absent["scale" if fused else "partial"] = None
    names = (
        f"x dy {'dsum ' if residual else ''}weight dx {'partial' if fused else 'scale'} rows eps"
    )
    constants: dict[str, Scalar] = {
        "COLUMNS": problem.columns,
        "STRIDE": problem.stride,
        "BLOCK": padded_columns(problem),
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
    """Add the partial sums: narrow blocks, so that there are many of them."""
    block = min(32, _power_of_two(problem.columns))
    constants: dict[str, Scalar] = {"COLUMNS": problem.columns, "BLOCK": block, "ROWS": SUM_ROWS}
    return _launch(
        problem, "sum_partials", (-(-problem.columns // block), 1, 1), "partial dw count",
        256 // target.warp_size, constants,
    )  # fmt: skip


def _tile_count(problem: Problem, blocks: Blocks) -> int:
    return -(-problem.rows // blocks.rows)


def plan_fused(problem: Problem, target: Target, blocks: Blocks, why: str) -> LaunchPlan:
    """Plan a persistent grid, then the sum of what each of its programs has added up."""
    programs = min(_tile_count(problem, blocks), max(blocks.per_sm, 1) * target.sm_count)
    steps = (_rows(problem, target, blocks, programs, True), _sum(problem, target))
    return LaunchPlan("fused", steps, why, 4 * programs * problem.columns)


def splits(problem: Problem, target: Target, columns: int, rows: int) -> int:
    """Return the splits of the rows, in the kernel that sums columns: about four blocks per
    multiprocessor."""
    across = -(-problem.columns // columns)
    return max(1, min(-(-problem.rows // rows), -(-4 * target.sm_count // across)))


def plan_unfused(problem: Problem, target: Target, blocks: Blocks, why: str) -> LaunchPlan:
    """Plan the input's gradient with each row's scale, then the sum of columns, which reads both
    inputs once more."""
    columns, rows = min(128, padded_columns(problem)), 32
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
        first = _rows(problem, target, blocks, _tile_count(problem, blocks), False)
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


def plan(name: str, problem: Problem, target: Target, variant: str | None = None) -> LaunchPlan:
    """Return how ``problem`` of the family ``name`` is computed on ``target``, by ``variant`` or by
    what the planner picks.

    Raises:
        PerfcliError: nothing computes the problem, or not the variant that was asked for.
    """
    check_problem(problem)
    operations = list_operations(name)
    if problem.operation not in operations:
        raise PerfcliError(
            f"{name} has no operation {problem.operation!r}: expected one of "
            f"{', '.join(operations)}"
        )
    forward = MEAN_BUILDERS if has_mean(problem) else tuple(BUILDERS)
    known = ("fused", "unfused") if is_backward(problem) else forward
    if variant is not None and variant not in known:
        raise PerfcliError(
            f"{name}: no variant {variant!r} of {problem.operation}: expected one of "
            f"{', '.join(known)}"
        )
    if problem.elements == 0:
        return LaunchPlan(variant or known[0], (), "no elements: nothing is launched")
    if is_backward(problem):
        return _backward(problem, target, variant)
    return _forward(problem, target, variant)


def list_operations(name: str) -> tuple[str, ...]:
    """Return a family's operations: forward, then backward, without a residual and with one."""
    return (name, f"{name}-residual", f"{name}-backward", f"{name}-residual-backward")


def _streams(problem: Problem) -> int:
    """Return matrices that a kernel reads."""
    return 1 + is_backward(problem) + has_residual(problem)


def launches(problem: Problem, target: Target, blocks: Blocks, why: str) -> LaunchPlan:
    """Return the launches of blocks that somebody chose.

    Raises:
        PerfcliError: they do not fit the target.
    """
    if blocks.variant == "fused":
        made = plan_fused(problem, target, blocks, why)
    elif blocks.variant == "unfused":
        made = plan_unfused(problem, target, blocks, why)
    else:
        made = forward(problem, target, blocks, why)
    if reason := _misfit(problem, target, blocks, _streams(problem)):
        raise PerfcliError(
            f"{family(problem)}: {blocks.variant} of {problem.rows} × {problem.columns} "
            f"{problem.dtype} takes {reason}: leave the variant to the plan, or take another"
        )
    return made


def _forward(problem: Problem, target: Target, variant: str | None) -> LaunchPlan:
    if variant is None:
        blocks, why = choice._forward_choice(problem, target)
        return launches(problem, target, blocks, why)
    if variant == "peeled" and not _peels(problem):
        raise PerfcliError(
            f"{family(problem)}: peeled is for rows that start between multiples of 16 bytes "
            f"and are written as they are read; {problem.columns} columns {problem.stride} "
            "elements apart are not: use register-tiled"
        )
    return launches(problem, target, choice._forward_of(problem, target, variant), "asked for")


def _backward(problem: Problem, target: Target, variant: str | None) -> LaunchPlan:
    found = choice._fused_choice(problem, target, _streams(problem))
    if variant == "fused" and found is None:
        raise PerfcliError(
            f"{family(problem)}: fused keeps whole rows and their weight gradient in registers, "
            f"up to {FUSED[-1].row_bytes} bytes per row; these have {choice.row_bytes(problem)}: "
            "use unfused"
        )
    if found is not None and variant != "unfused":
        return launches(problem, target, *found)
    why = "asked for" if variant else "rows too long to be fused"
    return launches(problem, target, choice._unfused_choice(problem), why)
