"""Inductor's code and hand-written kernels for the same problem, timed in turns on the GPU here."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from perfcli import targets, units
from perfcli.commands._hand_written_run import Answer
from perfcli.commands._kernels_bench import BUDGET_SECONDS, OURS, ROUNDS
from perfcli.commands._kernels_problems import named
from perfcli.commands._measuring_options import Asked
from perfcli.commands._obtain import How, fake_plan
from perfcli.commands._progress import Notes, Reporter
from perfcli.commands._request import Question, Side
from perfcli.errors import PerfcliError, WorkerFailed
from perfcli.handwritten.contenders import COPY
from perfcli.model import Raced
from perfcli.model.kernel_work import BenchAsk, Benched, BenchRequest, Contender
from perfcli.stats.median import median
from perfcli.worker.executor import Progress
from perfcli.worker.kernel_worker import KernelWorker

INDUCTOR = "inductor"
FITTING = ("--budget", "--seed")
"""Options for measuring that this one knows."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Whether both are timed, and how."""

    untimed: str
    """Why not; empty where they are."""
    budget: float
    """Seconds for each problem's rounds."""
    seed: int


def settle(question: Question, side: Side, asked: Asked, how: How) -> Measured:
    """Raises PerfcliError for options that say nothing to this measurement."""
    others = [name for name in asked.typed if name not in FITTING]
    if others:
        raise PerfcliError(
            f"--with-kernel times by events, L2 flushed, on the first GPU: leave out "
            f"{', '.join(others)}"
        )
    untimed = _untimed(question, side, asked, how)
    if untimed:
        asked.refuse(untimed)
    seed = secrets.randbelow(2**31) if asked.seed is None else asked.seed
    return Measured(untimed, asked.budget or BUDGET_SECONDS, seed)


def _untimed(question: Question, side: Side, asked: Asked, how: How) -> str:
    if asked.no_time:
        return "--no-time measures nothing"
    if question.target:
        return f"--target {question.target} compiles without a device, and measures nothing"
    if not fake_plan(how) and not targets.has_gpu():
        return "no GPU here to measure on"
    if side.assignments:
        return "Inductor is timed with its default options alone, not with -a"
    if question.dynamic:
        return "Inductor is timed with sizes that it knows, not with --dynamic"
    return ""


def race(
    answers: Sequence[Answer], how: Measured, worker: KernelWorker, notes: Notes
) -> tuple[Raced, ...]:
    """A race for each problem; what fails is told and left out."""
    if how.untimed:
        return ()
    found = []
    for answer in answers:
        name = named(answer.asked.problem)
        try:
            found.append(_of(name, _timed(answer, name, how, worker, notes)))
        except WorkerFailed as error:
            notes.warn(f"{name} is not timed: {error}")
    return tuple(found)


def _timed(answer: Answer, name: str, how: Measured, worker: KernelWorker, notes: Notes) -> Benched:
    problem = answer.asked.problem
    contenders = (Contender(COPY), Contender(OURS, answer.plan), Contender(INDUCTOR))
    ask = BenchAsk(problem, answer.family.moved_bytes(problem), contenders, ROUNDS, how.budget)
    with Reporter([name], notes) as progress:
        steps = 0

        def preparing(who: str) -> None:
            nonlocal steps
            text = f"getting {who} ready" if who else "timing"
            progress(Progress(0, "warm" if who else "done", steps, len(contenders), text))
            steps += 1

        return worker.benched(BenchRequest(answer.asked.family, how.seed), ask, preparing)


def _of(name: str, benched: Benched) -> Raced:
    """Raises WorkerFailed where one of them was not timed, or computes something else."""
    seconds = {}
    for timed in benched.timed:
        middle = median(timed.seconds)
        if timed.error or timed.wrong or middle is None:
            why = timed.error or timed.wrong or "no round was through"
            raise WorkerFailed(f"{timed.name}: {units.printable(why)}")
        seconds[timed.name] = middle.value
    return Raced(name, seconds[INDUCTOR], seconds[OURS], seconds[COPY], benched.rounds)
