"""``compare --with-kernel``: a scenario by Inductor, and by the hand-written kernels for it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from perfcli import registry
from perfcli.commands import _kernels_facts, _obtain, _with_kernel_times
from perfcli.commands._hand_written_run import Answer, run_of
from perfcli.commands._kernels_asked import Asked as KernelOptions
from perfcli.commands._kernels_workers import opened_worker
from perfcli.commands._measuring_options import Asked
from perfcli.commands._obtain import How, Obtained
from perfcli.commands._pair import Pair
from perfcli.commands._progress import Notes, Reporter
from perfcli.commands._request import Question, Side
from perfcli.diff.beside import totals_of
from perfcli.diff.compare import compare
from perfcli.errors import CompileFailed, PerfcliError
from perfcli.model import (
    Beside,
    KernelFamily,
    LaunchPlan,
    Scalar,
    Scenario,
    ScenarioProblem,
    Target,
)
from perfcli.model.kernel_work import DescribeRequest
from perfcli.worker.executor import Progress
from perfcli.worker.kernel_worker import KernelWorker


@dataclass(frozen=True, slots=True)
class Planned:
    """One problem of the scenario, and how its family computes it."""

    asked: ScenarioProblem
    family: KernelFamily
    plan: LaunchPlan
    facts: _kernels_facts.Planned
    """The same, to be compiled."""


def check_alone(given: Mapping[str, object]) -> None:
    """Raises PerfcliError where what says how the head is compiled was typed: the head are kernels
    that nobody compiles otherwise."""
    typed = [name for name, value in given.items() if value]
    if typed:
        raise PerfcliError(
            f"--with-kernel: the head are hand-written kernels, leave out {', '.join(typed)} "
            "(-a and --a-python are Inductor's)"
        )


def of_scenario(question: Question, side: Side, how: How, asked: Asked, notes: Notes) -> Pair:
    """Inductor's run as the base, the hand-written kernels as the head; no findings yet.

    Raises:
        PerfcliError: nobody wrote kernels for the scenario, or not for these parameters.
        CompileFailed: Triton refuses one of them.
    """
    scenario = _scenario(question.scenario)
    measured = _with_kernel_times.settle(question, side, asked, how)
    order = _obtain.ordered(question, [side], how, notes)
    request = order.jobs[0].request
    if request.target is None:
        raise PerfcliError("hand-written kernels are for GPUs: leave out --device cpu")
    planned = plans(scenario, request.params, request.target)
    (base,) = _obtain.obtain(order.jobs, order.executor, how.fresh, notes)
    options = KernelOptions(python=side.python, timeout=how.timeout, fake=how.fake)
    with opened_worker(options) as worker:
        answers = [_answer(each, worker, question.jobs, notes) for each in planned]
        head = _stored(base, answers, notes)
        raced = _with_kernel_times.race(answers, measured, worker, notes)
    shown = Beside(
        kernels=tuple(answer.name for answer in answers),
        why=tuple(answer.why for answer in answers),
        inductor=totals_of(base.run),
        ours=totals_of(head.run),
        left_out=tuple(each.asked.left_out for each in answers if each.asked.left_out),
        raced=raced,
        untimed=measured.untimed,
    )
    comparison = compare(base.run, head.run)
    return Pair(base, head, replace(comparison, beside=shown))


def _scenario(name: str) -> Scenario:
    """Raises PerfcliError where it has no hand-written kernels; those that have are named."""
    if registry.is_user_file(name):
        raise PerfcliError(
            f"{name} is a file of your own: --with-kernel is for shipped scenarios, {_those_with()}"
        )
    scenario = registry.scenario(name)
    if scenario.hand_written is None:
        raise PerfcliError(
            f"nobody wrote kernels for the scenario {scenario.name}: --with-kernel is for "
            f"{_those_with()}"
        )
    return scenario


def _those_with() -> str:
    found = (registry.scenario(name) for name in registry.names("scenarios"))
    return ", ".join(each.name for each in found if each.hand_written is not None)


def plans(scenario: Scenario, params: Mapping[str, Scalar], target: Target) -> list[Planned]:
    """A plan for each of the scenario's problems.

    Raises:
        PerfcliError: the family cannot compute one with these parameters.
    """
    problems = scenario.hand_written(params) if scenario.hand_written else ()
    return [_planned(asked, target) for asked in problems]


def _planned(asked: ScenarioProblem, target: Target) -> Planned:
    family = registry.family(asked.family)
    (facts,) = _kernels_facts.plans(family, [asked.problem], [target], [None])
    if facts.plan is None:
        raise PerfcliError(f"the hand-written kernels can't do these parameters: {facts.refusal}")
    if not facts.plan.launches:
        raise PerfcliError(f"{asked.family} has nothing to launch: {facts.plan.why}")
    return Planned(asked, family, facts.plan, facts)


def _answer(planned: Planned, worker: KernelWorker, jobs: int | None, notes: Notes) -> Answer:
    name = planned.asked.family
    with Reporter([name], notes) as progress:

        def told(done: int, total: int) -> None:
            progress(Progress(0, "kernels", done, total, "compiling launches"))

        (facts,) = _kernels_facts.compile_plans(
            planned.family, name, [planned.facts], worker, jobs, told
        )
    if facts.faults:
        raise CompileFailed(f"a hand-written kernel can't be launched: {facts.faults[0]}")
    described = worker.described(DescribeRequest(name, planned.asked.problem, planned.plan))
    return Answer(planned.asked, planned.family, planned.plan, facts.compiled, described)


def _stored(base: Obtained, answers: Sequence[Answer], notes: Notes) -> Obtained:
    known = (base.run.fingerprint, *(repr((a.plan, a.described)) for a in answers))
    fingerprint = hashlib.sha256("\0".join(known).encode()).hexdigest()
    return _obtain.kept(run_of(base.run, answers), fingerprint, notes)
