"""Plans norms: from problem and target to launches. Pure."""

from __future__ import annotations

from dataclasses import replace

from perfcli.errors import PerfcliError
from perfcli.model import LaunchPlan, Problem, Target

from .._clusters import why_none
from .._elements import without_gap
from . import choice
from .backward_plan import backward, fused
from .blocks import (
    Blocks,
    _misfit,
    _peels,
    check_problem,
    family,
    has_mean,
    has_residual,
    is_backward,
)
from .forward_plan import BUILDERS, MEAN_BUILDERS, forward


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
    known = ("fused", "ring", "cluster", "split") if is_backward(problem) else forward
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


def launches(problem: Problem, target: Target, blocks: Blocks, why: str) -> LaunchPlan:
    """Return the launches of blocks that somebody chose.

    Raises:
        PerfcliError: they do not fit the target.
    """
    if is_backward(problem):
        return fused(problem, target, blocks, why)
    made = forward(problem, target, blocks, why)
    if reason := _misfit(problem, target, blocks, 1 + has_residual(problem)):
        raise PerfcliError(
            f"{family(problem)}: {blocks.variant} of {problem.rows} × {problem.columns} "
            f"{problem.dtype} takes {reason}: leave the variant to the plan, or take another"
        )
    return made


def _forward(problem: Problem, target: Target, variant: str | None) -> LaunchPlan:
    if variant is None:
        return _without_gluon(problem, target, *choice._forward_choice(problem, target))
    if variant == "peeled" and not _peels(problem):
        raise PerfcliError(
            f"{family(problem)}: peeled is for rows that start between multiples of 16 bytes "
            f"and are written as they are read; {problem.columns} columns {problem.stride} "
            "elements apart are not: use register-tiled"
        )
    blocks = choice._forward_of(problem, target, variant)
    return _without_gluon(problem, target, blocks, "asked for")


def _without_gluon(problem: Problem, target: Target, blocks: Blocks, why: str) -> LaunchPlan:
    """Return the launches, and those that do it without Gluon if they need that."""
    made = launches(problem, target, blocks, why)
    if blocks.variant != "cluster":
        return made
    others = choice._forward_choice(problem, target, clusters=False)
    return replace(made, portable=launches(problem, target, *others))


def _backward(problem: Problem, target: Target, variant: str | None) -> LaunchPlan:
    if variant == "cluster" and (reason := why_none(target)):
        raise PerfcliError(f"{family(problem)}: {reason}, leave the variant to the plan")
    made = backward(without_gap(problem), target, variant)
    if made is None:
        raise PerfcliError(
            f"{family(problem)}: {variant} cuts no row of {problem.columns} columns of "
            f"{problem.dtype} into programs that fit {target.name}: leave the variant to the plan"
        )
    return made
