"""What the launches are made of that `launch` picks for every benchmark problem of every family,
on four architectures; none of them may spill more than a few words, or not fit. No GPU is needed;
what was compiled once is kept. Exits with 1 where one does.

    python bench/kernel_facts.py [NAME…] [--target h200]… [--jobs 2]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence

from perfcli import units
from perfcli.loading import registry
from perfcli.machine import targets
from perfcli.model import Candidate, KernelLaunch
from perfcli.workbench.facts import Planned, compile_plans, plan_problems
from perfcli.workbench.problems import write_problem
from perfcli.worker.kernels import KernelProcess

TARGETS = ("a100", "h200", "b200", "mi300x")
"""One of each architecture: sm_80, sm_90, sm_100, gfx942."""
FEW_WORDS = 24
"""What may be spilled by a launch that has all 255 registers, as rings have: ptxas 12.8 spills up
to 18 words of some of them, depending on the width."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("families", nargs="*")
    parser.add_argument("--target", action="append")
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    bad = 0
    for name in given.families or registry.names("kernels"):
        for each in compiled(name, given.target or TARGETS, given.jobs):
            lines = list(rows(each))
            sys.stdout.writelines(f"{line}\n" for line in lines)
            sys.stdout.flush()
            bad += sum(line.endswith("!") for line in lines)
    sys.stdout.write(f"{bad} launches spill, are refused or do not fit\n" if bad else "all fit\n")
    return 1 if bad else 0


def compiled(name: str, chosen: Sequence[str], jobs: int) -> list[Planned]:
    family = registry.family(name)
    devices = [targets.get_for_kernels(target) for target in chosen]
    planned = plan_problems(family, family.benchmarks, devices, [None])
    worker = KernelProcess()
    try:
        return compile_plans(family, name, planned, worker, jobs, lambda *_: None)
    finally:
        worker.close()


def rows(each: Planned) -> Iterator[str]:
    """A line for each launch; what may not be ends with an exclamation mark."""
    problem = f"{each.target.name:7} {write_problem(each.problem):52}"
    if each.plan is None:
        yield f"{problem} refused: {each.refusal} !"
        return
    for launch, made in zip(each.plan.launches, each.compiled, strict=True):
        yield f"{problem} {each.plan.variant:15} {launch.function:24} {facts(launch, made)}"


def facts(launch: KernelLaunch, made: Candidate) -> str:
    if made.error:
        return f"refused: {made.error} !"
    allowed = FEW_WORDS if launch.maxnreg == 255 else 0
    bad = (made.spilled_words or 0) > allowed or made.blocks_per_sm == 0
    return (
        f"{launch.num_warps:>2} warps {units.count(made.registers):>4} registers "
        f"{units.count(made.spilled_words):>4} spilled {units.exact_bytes(made.shared_bytes):>10} "
        f"{units.percent(made.occupancy):>6}{' !' if bad else ''}"
    )


if __name__ == "__main__":
    sys.exit(main())
