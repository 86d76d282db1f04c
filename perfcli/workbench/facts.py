"""Plans and compiles launches of hand-written kernels for devices that are not there."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from perfcli.errors import PerfcliError
from perfcli.machine import environment
from perfcli.model import Candidate, KernelFamily, KernelLaunch, LaunchPlan, Problem, Target
from perfcli.model.kernel_work import LaunchesRequest, LaunchToCompile
from perfcli.worker.roles import KernelWorker


@dataclass(frozen=True, slots=True)
class Planned:
    """Holds one problem on one target, and what its launches became once they are compiled."""

    problem: Problem
    target: Target
    plan: LaunchPlan | None
    refusal: str = ""
    compiled: tuple[Candidate, ...] = ()

    @property
    def faults(self) -> tuple[str, ...]:
        """Return what keeps it from being launched."""
        return tuple(
            fault
            for launch, made in zip(self._launches, self.compiled, strict=False)
            if (fault := _name_fault(launch, made, self.target))
        )

    @property
    def mispredicted(self) -> tuple[str, ...]:
        """Return the launches whose shared memory is not what the plan said."""
        return tuple(
            f"{launch.function}: the plan says {launch.shared_bytes:,} B of shared memory, "
            f"compiled it takes {made.shared_bytes:,} B"
            for launch, made in zip(self._launches, self.compiled, strict=False)
            if None not in (launch.shared_bytes, made.shared_bytes)
            and launch.shared_bytes != made.shared_bytes
        )

    @property
    def _launches(self) -> tuple[KernelLaunch, ...]:
        return self.plan.launches if self.plan else ()


def _name_fault(launch: KernelLaunch, made: Candidate, target: Target) -> str:
    if made.error:
        return f"{launch.function} does not compile for {target.name}: {made.error}"
    if made.blocks_per_sm == 0:
        return (
            f"{launch.function} does not fit on {target.name}: {made.occupancy_limit} "
            f"({made.registers} registers, {made.shared_bytes:,} B of shared memory, "
            f"{launch.num_warps} warps)"
        )
    return ""


def plan_problems(
    family: KernelFamily,
    problems: Sequence[Problem],
    targets: Sequence[Target],
    variants: Sequence[str | None],
) -> list[Planned]:
    """Return each problem on each target by each variant; None: the one that the family picks.

    A variant that falls back to one that is there already is left out.
    """
    found: list[Planned] = []
    for target in targets:
        for problem in problems:
            there: set[str] = set()
            for variant in variants:
                planned = _plan(family, problem, target, variant)
                if planned.plan is None or planned.plan.variant not in there:
                    found.append(planned)
                if planned.plan is not None:
                    there.add(planned.plan.variant)
    return found


def _plan(family: KernelFamily, problem: Problem, target: Target, variant: str | None) -> Planned:
    try:
        return Planned(problem, target, family.plan(problem, target, variant))
    except PerfcliError as error:
        return Planned(problem, target, None, str(error))


def compile_plans(
    family: KernelFamily,
    reference: str,
    planned: Sequence[Planned],
    worker: KernelWorker,
    jobs: int | None,
    told: Callable[[int, int], None],
) -> list[Planned]:
    """Return the plans with each launch compiled, equal ones once.

    ``told`` hears how many are done of how many.
    """
    distinct: list[LaunchToCompile] = []
    for each in planned:
        for launch in each.plan.launches if each.plan else ():
            # The grid decides nothing about the code.
            asked = LaunchToCompile(family.code, replace(launch, grid=(1, 1, 1)), each.target)
            if asked not in distinct:
                distinct.append(asked)
    if not distinct:
        return list(planned)
    request = LaunchesRequest(
        tuple(distinct),
        jobs or len(os.sched_getaffinity(0)),
        str(environment.cache_dir()),
        reference if reference.endswith(".py") else "",
    )
    made: dict[int, Candidate] = {}
    told(0, len(distinct))
    for number, candidate in worker.compiled(request):
        made[number] = candidate
        told(len(made), len(distinct))
    return [
        replace(each, compiled=_list_compiled(family, each, distinct, made)) for each in planned
    ]


def _list_compiled(
    family: KernelFamily,
    planned: Planned,
    distinct: Sequence[LaunchToCompile],
    made: dict[int, Candidate],
) -> tuple[Candidate, ...]:
    launches = planned.plan.launches if planned.plan else ()
    asked = (
        LaunchToCompile(family.code, replace(launch, grid=(1, 1, 1)), planned.target)
        for launch in launches
    )
    return tuple(made[distinct.index(each)] for each in asked)
