"""Carries out a claim over hand-written kernels: compiles their launches, holds what they need
against published formulas, and lets them race torch's kernels where there is a device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from perfcli import units
from perfcli.console.notes import Reporter
from perfcli.errors import CompileFailed, WorkerFailed
from perfcli.handwritten.contenders import COPY
from perfcli.loading import registry
from perfcli.model import KernelFamily, KernelLaunch, TimeVerdict
from perfcli.model.kernel_work import BenchAsk, Benched, BenchRequest, Contender
from perfcli.reproduce.claim import Claim, Launches
from perfcli.reproduce.condition import Facts
from perfcli.reproduce.experiment import BUDGET, Conditions
from perfcli.reproduce.observation import Observation, TimeRatio
from perfcli.stats.paired import compare, median
from perfcli.workbench.bench import time_problem
from perfcli.workbench.facts import Planned, compile_plans, plan_problems
from perfcli.workbench.request import KernelsOptions, open_worker
from perfcli.worker.roles import KernelWorker
from perfcli.workflow.context import Context
from perfcli.workflow.request import Question, choose_device
from perfcli.workflow.setting import MeasuringOptions, settle

ROUNDS = 40
SEED = 1
OURS = "ours"
NOISE = 0.01
"""A race is called slower or faster where its whole interval is further from 1 than this."""


@dataclass(frozen=True, slots=True)
class _Race:
    """Says what is timed: a problem by one of its family's variants, against one of torch's."""

    reference: str
    family: KernelFamily
    planned: Planned
    against: str


def carry_out_launches(
    claim: Claim, asked: Launches, how: Conditions, context: Context
) -> Observation:
    """Return what planning, compiling and where possible racing the kernels shows. Raises
    WorkerFailed and what else a worker raises, CompileFailed where Triton refuses one."""
    _, target = choose_device(how.device, how.target)
    interpreter = context.choose_probe(how.device)(how.python)
    if target is None:
        return Observation(failure="hand-written kernels are for GPUs")
    family = registry.family(asked.family)
    planned = plan_problems(family, asked.problems, [target], [asked.variant])
    if refused := _find_refusal(planned, asked):
        return Observation(torch=interpreter.torch, failure=refused)
    options = KernelsOptions(python=how.python, timeout=context.timeout, fake=context.fake)
    with open_worker(options) as worker:
        compiled = _compile(family, asked.family, planned, worker, context)
        found = Observation(
            torch=interpreter.torch,
            place=target.name,
            sides={
                "good": _gather([_read_ours(each) for each in compiled]),
                "bad": _read_theirs(asked, compiled),
                "pair": {},
            },
            smoke=how.smoke,
        )
        if claim.effect is None or how.smoke or not _can_measure(how, context):
            return found
        raced = _Race(asked.family, family, compiled[0], asked.against)
        return _race(found, raced, how, worker, context)


def _find_refusal(planned: Sequence[Planned], asked: Launches) -> str:
    for each in planned:
        if each.plan is None:
            return each.refusal
        if each.plan.variant != asked.variant:
            return each.plan.instead_of or f"planned as {each.plan.variant}"
    return ""


def _can_measure(how: Conditions, context: Context) -> bool:
    question = Question("", target=how.target, device=how.device)
    return settle(question, MeasuringOptions(no_time=not how.times), context) is not None


def _race(
    found: Observation, raced: _Race, how: Conditions, worker: KernelWorker, context: Context
) -> Observation:
    """Return the observation with the times of the first problem, L2 flushed; ``place`` is the
    device that they are from. Raises WorkerFailed where one could not be timed."""
    problem, plan = raced.planned.problem, raced.planned.plan
    contenders = (Contender(COPY), Contender(OURS, plan), Contender(raced.against))
    ask = BenchAsk(
        problem, raced.family.moved_bytes(problem), contenders, ROUNDS, how.budget or BUDGET
    )
    benched = time_problem(BenchRequest(raced.reference, SEED), ask, worker, context.notes)
    ratio = _compare_times(benched, raced.against)
    return replace(found, place=benched.machine.device, measured=ratio)


def _compare_times(benched: Benched, against: str) -> TimeRatio:
    """Return theirs over ours."""
    timed = {each.name: each for each in benched.timed}
    for each in timed.values():
        if each.error or each.wrong or not each.seconds:
            why = each.error or each.wrong or "no round was through"
            raise WorkerFailed(f"{each.name}: {units.printable(why)}")
    ours, theirs = timed[OURS].seconds, timed[against].seconds
    both = compare(ours, theirs)
    if both.ratio is None or both.low is None or both.high is None:
        raise WorkerFailed(f"{against} can't be compared with ours: {both.why}")
    middle = median(ours)
    base = middle.value if middle else None
    head = None if base is None else base * both.ratio
    return TimeRatio(base, head, both.ratio, both.low, both.high, _judge(both.low, both.high))


def _judge(low: float, high: float) -> TimeVerdict:
    if low > 1 + NOISE:
        return "slower"
    if high < 1 / (1 + NOISE):
        return "faster"
    return "same" if low > 1 / (1 + NOISE) and high < 1 + NOISE else "unsure"


def _compile(
    family: KernelFamily,
    reference: str,
    planned: Sequence[Planned],
    worker: KernelWorker,
    context: Context,
) -> list[Planned]:
    with Reporter([reference], context.notes) as progress:
        told = progress.count("kernels", "compiling launches")
        made = compile_plans(family, reference, planned, worker, context.jobs, told)
    for each in made:
        if each.faults and any(candidate.error for candidate in each.compiled):
            raise CompileFailed(each.faults[0])
    return made


# --- facts ---------------------------------------------------------------------------------------


def _read_ours(planned: Planned) -> Facts:
    """Return the facts of one problem, of the launch that reads the inputs."""
    plan, made = planned.plan, planned.compiled
    assert plan is not None
    first = made[0]
    spilled = [candidate.spilled_words for candidate in made]
    return {
        "needed_bytes": first.shared_bytes,
        "limit_bytes": float(planned.target.shared_bytes_per_block_optin),
        "vector": _count_vector(plan.launches[0], planned),
        "registers": first.registers,
        "spilled_words": None if None in spilled else float(sum(w or 0 for w in spilled)),
    }


def _count_vector(launch: KernelLaunch, planned: Planned) -> float | None:
    """Return how many elements of a tile a thread has next to each other, up to 16 bytes."""
    constants = launch.constants
    if "TILE_R" not in constants or "TILE_I" not in constants:
        return None
    elements = int(str(constants["TILE_R"])) * int(str(constants["TILE_I"]))
    item = 4 if planned.problem.dtype == "float32" else 2
    return float(min(elements // (launch.num_warps * 32), 16 // item))


def _read_theirs(asked: Launches, planned: Sequence[Planned]) -> Facts:
    if asked.theirs is None:
        return {}
    return _gather([asked.theirs(each.problem, each.target) for each in planned])


def _gather(facts: Sequence[Facts]) -> Facts:
    """Return the facts of all problems: how many there are, how many fit into shared memory, and
    the worst of each number."""
    cases = [_fits(each) for each in facts]
    found: dict[str, float | None] = {
        "cases": float(len(facts)),
        "fitting": None if None in cases else float(sum(map(bool, cases))),
    }
    for name in facts[0]:
        known = [each[name] for each in facts]
        values = [value for value in known if value is not None]
        worst = min if name == "vector" else max
        found[name] = worst(values) if len(values) == len(known) else None
    return found


def _fits(facts: Facts) -> bool | None:
    needed, limit = facts["needed_bytes"], facts["limit_bytes"]
    return None if needed is None or limit is None else needed <= limit
