"""``compare --with-kernel``: a scenario by Inductor, and by the hand-written kernels for it."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from perfcli import units
from perfcli.console.notes import Notes, Reporter
from perfcli.diff.beside import totals_of
from perfcli.diff.compare import gather_evidence
from perfcli.errors import CompileFailed, PerfcliError, WorkerFailed
from perfcli.handwritten.contenders import COPY
from perfcli.loading import registry
from perfcli.machine import targets
from perfcli.model import (
    Beside,
    KernelFamily,
    LaunchPlan,
    Raced,
    Scalar,
    Scenario,
    ScenarioProblem,
    Target,
)
from perfcli.model.kernel_work import BenchAsk, Benched, BenchRequest, Contender, DescribeRequest
from perfcli.stats.paired import median
from perfcli.workbench.as_run import CompiledProblem, _make_run
from perfcli.workbench.bench import BUDGET_SECONDS, OURS, ROUNDS, time_problem
from perfcli.workbench.facts import Planned, compile_plans, plan_problems
from perfcli.workbench.problems import write_problem
from perfcli.workbench.request import KernelsOptions, open_worker
from perfcli.worker.roles import KernelWorker
from perfcli.workflow.context import Context
from perfcli.workflow.obtain import Obtained, keep_run, obtain
from perfcli.workflow.pair import Pair
from perfcli.workflow.request import Question, Side, order_jobs
from perfcli.workflow.setting import MeasuringOptions

INDUCTOR = "inductor"
FITTING = ("--budget", "--seed")
"""Options for measuring that this one knows."""


@dataclass(frozen=True, slots=True)
class _Measured:
    """Says whether both are timed, and how."""

    untimed: str
    """Why not; empty where they are."""
    budget: float
    """Seconds for each problem's rounds."""
    seed: int


def _settle(question: Question, side: Side, asked: MeasuringOptions, context: Context) -> _Measured:
    """Raise PerfcliError for options that say nothing to this measurement."""
    others = [name for name in asked.typed if name not in FITTING]
    if others:
        raise PerfcliError(
            f"--with-kernel times by events, L2 flushed, on the first GPU: leave out "
            f"{', '.join(others)}"
        )
    untimed = _name_obstacle(question, side, asked, context)
    if untimed:
        asked.refuse(untimed)
    seed = secrets.randbelow(2**31) if asked.seed is None else asked.seed
    return _Measured(untimed, asked.budget or BUDGET_SECONDS, seed)


def _name_obstacle(
    question: Question, side: Side, asked: MeasuringOptions, context: Context
) -> str:
    if asked.no_time:
        return "--no-time measures nothing"
    if question.target:
        return f"--target {question.target} compiles without a device, and measures nothing"
    if not context.fake_plan and not targets.has_gpu():
        return "no GPU here to measure on"
    if side.assignments:
        return "Inductor is timed with its default options alone, not with -a"
    if question.dynamic:
        return "Inductor is timed with sizes that it knows, not with --dynamic"
    return ""


def _race(
    answers: Sequence[CompiledProblem], how: _Measured, worker: KernelWorker, notes: Notes
) -> tuple[Raced, ...]:
    """Return a race for each problem; what fails is told and left out."""
    if how.untimed:
        return ()
    found = []
    for answer in answers:
        name = write_problem(answer.asked.problem)
        try:
            found.append(_race_problem(name, _time_problems(answer, how, worker, notes)))
        except WorkerFailed as error:
            notes.warn(f"{name} is not timed: {error}")
    return tuple(found)


def _time_problems(
    answer: CompiledProblem, how: _Measured, worker: KernelWorker, notes: Notes
) -> Benched:
    problem = answer.asked.problem
    contenders = (Contender(COPY), Contender(OURS, answer.plan), Contender(INDUCTOR))
    ask = BenchAsk(problem, answer.family.moved_bytes(problem), contenders, ROUNDS, how.budget)
    return time_problem(BenchRequest(answer.asked.family, how.seed), ask, worker, notes)


def _race_problem(name: str, benched: Benched) -> Raced:
    """Raise WorkerFailed where one of them was not timed, or computes something else."""
    seconds = {}
    for timed in benched.timed:
        middle = median(timed.seconds)
        if timed.error or timed.wrong or middle is None:
            why = timed.error or timed.wrong or "no round was through"
            raise WorkerFailed(f"{timed.name}: {units.printable(why)}")
        seconds[timed.name] = middle.value
    return Raced(name, seconds[INDUCTOR], seconds[OURS], seconds[COPY], benched.rounds)


@dataclass(frozen=True, slots=True)
class _Planned:
    """Holds one problem of the scenario, and how its family computes it."""

    asked: ScenarioProblem
    family: KernelFamily
    plan: LaunchPlan
    facts: Planned
    """The same, to be compiled."""


def check_alone(given: Mapping[str, object]) -> None:
    """Raise PerfcliError where what says how the head is compiled was typed: the head are kernels
    that nobody compiles otherwise."""
    typed = [name for name, value in given.items() if value]
    if typed:
        raise PerfcliError(
            f"--with-kernel: the head are hand-written kernels, leave out {', '.join(typed)} "
            "(-a and --a-python are Inductor's)"
        )


def compile_pair(question: Question, side: Side, asked: MeasuringOptions, context: Context) -> Pair:
    """Return Inductor's run as the base, the hand-written kernels as the head; no findings yet.
    Raises PerfcliError where nobody wrote kernels for the scenario, or not for these parameters.
    Raises CompileFailed where Triton refuses one of them."""
    scenario = _find_scenario(question.scenario)
    measured, notes = _settle(question, side, asked, context), context.notes
    (job,) = order_jobs(question, [side], context)
    request = job.request
    if request.target is None:
        raise PerfcliError("hand-written kernels are for GPUs: leave out --device cpu")
    planned = _plan_all(scenario, request.params, request.target)
    (base,) = obtain([job], context)
    options = KernelsOptions(python=side.python, timeout=context.timeout, fake=context.fake)
    with open_worker(options) as worker:
        answers = [_compile_problem(each, worker, context) for each in planned]
        head = _store(base, answers, notes)
        raced = _race(answers, measured, worker, notes)
    shown = Beside(
        kernels=tuple(answer.name for answer in answers),
        why=tuple(answer.why for answer in answers),
        inductor=totals_of(base.run),
        ours=totals_of(head.run),
        left_out=tuple(each.asked.left_out for each in answers if each.asked.left_out),
        raced=raced,
        untimed=measured.untimed,
    )
    comparison = gather_evidence(base.run, head.run)
    return Pair(base, head, replace(comparison, beside=shown))


def _find_scenario(name: str) -> Scenario:
    """Raise PerfcliError where it has no hand-written kernels; those that have are named."""
    if registry.is_user_file(name):
        raise PerfcliError(
            f"{name} is a file of your own: --with-kernel is for shipped scenarios, "
            f"{_list_scenarios()}"
        )
    scenario = registry.scenario(name)
    if scenario.handwritten is None:
        raise PerfcliError(
            f"nobody wrote kernels for the scenario {scenario.name}: --with-kernel is for "
            f"{_list_scenarios()}"
        )
    return scenario


def _list_scenarios() -> str:
    found = (registry.scenario(name) for name in registry.names("scenarios"))
    return ", ".join(each.name for each in found if each.handwritten is not None)


def _plan_all(scenario: Scenario, params: Mapping[str, Scalar], target: Target) -> list[_Planned]:
    """Return a plan for each of the scenario's problems. Raises PerfcliError where the family
    cannot compute one with these parameters."""
    problems = scenario.handwritten(params) if scenario.handwritten else ()
    return [_plan_problem(asked, target) for asked in problems]


def _plan_problem(asked: ScenarioProblem, target: Target) -> _Planned:
    family = registry.family(asked.family)
    (facts,) = plan_problems(family, [asked.problem], [target], [None])
    if facts.plan is None:
        raise PerfcliError(f"the hand-written kernels can't do these parameters: {facts.refusal}")
    if not facts.plan.launches:
        raise PerfcliError(f"{asked.family} has nothing to launch: {facts.plan.why}")
    return _Planned(asked, family, facts.plan, facts)


def _compile_problem(planned: _Planned, worker: KernelWorker, context: Context) -> CompiledProblem:
    name = planned.asked.family
    with Reporter([name], context.notes) as progress:
        told = progress.count("kernels", "compiling launches")
        (facts,) = compile_plans(planned.family, name, [planned.facts], worker, context.jobs, told)
    if facts.faults:
        raise CompileFailed(f"a hand-written kernel can't be launched: {facts.faults[0]}")
    described = worker.described(DescribeRequest(name, planned.asked.problem, planned.plan))
    return CompiledProblem(planned.asked, planned.family, planned.plan, facts.compiled, described)


def _store(base: Obtained, answers: Sequence[CompiledProblem], notes: Notes) -> Obtained:
    known = (base.run.fingerprint, *(repr((a.plan, a.described)) for a in answers))
    fingerprint = hashlib.sha256("\0".join(known).encode()).hexdigest()
    return keep_run(_make_run(base.run, answers), fingerprint, notes)
