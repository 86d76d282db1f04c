"""The planner of RMSNorm: from problem and target to launches. Pure."""

from __future__ import annotations

from perfcli.errors import PerfcliError
from perfcli.model import LaunchPlan, Problem, Target

from . import _rmsnorm_choice as choice
from ._rmsnorm_backward_plan import fused, unfused
from ._rmsnorm_blocks import Blocks, checked, misfit
from ._rmsnorm_forward_plan import BUILDERS, forward
from ._rmsnorm_steps import peels
from ._rmsnorm_table import FUSED

FORWARD_OPERATIONS = ("rmsnorm", "rmsnorm-residual")
BACKWARD_OPERATIONS = ("rmsnorm-backward", "rmsnorm-residual-backward")
OPERATIONS = (*FORWARD_OPERATIONS, *BACKWARD_OPERATIONS)


def plan(problem: Problem, target: Target, variant: str | None = None) -> LaunchPlan:
    """How ``problem`` is computed on ``target``, by ``variant`` or by what the table picks.

    Raises:
        PerfcliError: nothing computes the problem, or not the variant that was asked for.
    """
    checked(problem)
    if problem.operation not in OPERATIONS:
        raise PerfcliError(
            f"rmsnorm has no operation {problem.operation!r}: expected one of "
            f"{', '.join(OPERATIONS)}"
        )
    known = tuple(BUILDERS) if problem.operation in FORWARD_OPERATIONS else ("fused", "unfused")
    if variant is not None and variant not in known:
        raise PerfcliError(
            f"rmsnorm: no variant {variant!r} of {problem.operation}: expected one of "
            f"{', '.join(known)}"
        )
    if problem.elements == 0:
        return LaunchPlan(variant or known[0], (), "no elements: nothing is launched")
    if problem.operation in FORWARD_OPERATIONS:
        return _forward(problem, target, variant)
    return _backward(problem, target, variant)


def streams(problem: Problem) -> int:
    """Matrices that a kernel reads."""
    return {"rmsnorm": 1, "rmsnorm-residual-backward": 3}.get(problem.operation, 2)


def launches(problem: Problem, target: Target, blocks: Blocks, why: str) -> LaunchPlan:
    """The launches of blocks that somebody chose.

    Raises:
        PerfcliError: they do not fit the target.
    """
    if blocks.variant == "fused":
        made = fused(problem, target, blocks, why)
    elif blocks.variant == "unfused":
        made = unfused(problem, target, blocks, why)
    else:
        made = forward(problem, target, blocks, why)
    if reason := misfit(problem, target, blocks, streams(problem)):
        raise PerfcliError(
            f"rmsnorm: {blocks.variant} of {problem.rows} × {problem.columns} {problem.dtype} "
            f"takes {reason}: leave the variant to the plan, or take another"
        )
    return made


def _forward(problem: Problem, target: Target, variant: str | None) -> LaunchPlan:
    if variant is None:
        blocks, why = choice.forward_choice(problem, target)
        return launches(problem, target, blocks, why)
    if variant == "peeled" and not peels(problem):
        raise PerfcliError(
            f"rmsnorm: peeled is for rows that start between multiples of 16 bytes and are "
            f"written as they are read; {problem.columns} columns {problem.stride} elements "
            "apart are not: use register-tiled"
        )
    return launches(problem, target, choice.forward_of(problem, target, variant), "asked for")


def _backward(problem: Problem, target: Target, variant: str | None) -> LaunchPlan:
    found = choice.fused_choice(problem, target, streams(problem))
    if variant == "fused" and found is None:
        raise PerfcliError(
            f"rmsnorm: fused keeps whole rows and their weight gradient in registers, up to "
            f"{FUSED[-1].row_bytes} bytes per row; these have {choice.row_bytes(problem)}: "
            "use unfused"
        )
    if found is not None and variant != "unfused":
        return launches(problem, target, *found)
    why = "asked for" if variant else "rows too long to be fused"
    return launches(problem, target, choice.unfused_choice(problem), why)
