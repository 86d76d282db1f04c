"""Works out what differs between good and bad from what was typed."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace

from perfcli import units
from perfcli.bisect import space as spaces
from perfcli.bisect.metrics import SearchMetric
from perfcli.bisect.space import Installations, Settings, Space
from perfcli.errors import PerfcliError
from perfcli.model import CompileRequest
from perfcli.options import assignments, performance
from perfcli.search.result import Direction
from perfcli.workflow.context import Context
from perfcli.workflow.fingerprint import Job, make_job
from perfcli.workflow.request import Question, Side, describe, make_jobs
from perfcli.workflow.setting import Setting


@dataclass(frozen=True, slots=True)
class BisectOptions:
    """The options of bisect-config alone, as typed."""

    metric: str
    good: tuple[str, ...] = ()
    """``OPT=VAL``, or files of them."""
    bad: tuple[str, ...] = ()
    good_python: str | None = None
    bad_python: str | None = None
    direction: str | None = None
    max_runs: int | None = None
    budget: float | None = None
    flip: bool = True
    resume: str | None = None

    @property
    def is_catalogue(self) -> bool:
        """Return whether nothing is said of a bad side: the catalogue is searched, on top of what
        is good."""
        return not self.bad and not self.bad_python


@dataclass(frozen=True, slots=True)
class _Plan:
    """Says what is searched.

    ``jobs`` compile both ends as compare does; of a catalogue the second is not there.
    """

    space: Space
    jobs: tuple[Job, ...]
    installations: Installations | None = None

    @property
    def base(self) -> Job:
        """Return the base, with whose interpreter all variants are compiled."""
        return self.jobs[-1]


def _plan(
    question: Question, options: BisectOptions, metric: SearchMetric, context: Context
) -> _Plan:
    """Return what is searched. Raises PerfcliError for what the user got wrong, and where nothing
    differs."""
    good = Side(options.good, options.good_python)
    bad = Side(options.bad, options.bad_python or options.good_python)
    probe = context.choose_probe(question.device)
    if options.is_catalogue:
        (job,) = make_jobs(question, [good], probe, context.jobs)
        return _plan_catalogue(job, metric)
    jobs = make_jobs(question, [good, bad], probe, context.jobs)
    ours, theirs = (job.request.variant for job in jobs)
    catalogues = [assignments.load_catalogue(job.interpreter.torch_dir) for job in jobs]
    if jobs[0].interpreter.torch_dir == jobs[1].interpreter.torch_dir:
        found = spaces._between(ours, theirs, catalogues[1])
        return _Plan(_check_differences(found), tuple(jobs))
    installations = spaces._installations(ours, theirs, catalogues[0], catalogues[1])
    return _Plan(installations.space, tuple(jobs), installations)


def _plan_catalogue(job: Job, metric: SearchMetric) -> _Plan:
    request = job.request
    catalogue = assignments.load_catalogue(job.interpreter.torch_dir)
    choices = performance.select_usable(
        performance.for_torch(catalogue.entries), request.device, has_device=metric.kind == "time"
    )
    return _Plan(_check_differences(spaces.of_catalogue(choices, request.variant)), (job,))


def _check_differences(space: Space) -> Space:
    if not space.changes:
        raise PerfcliError(
            "nothing differs between the good and the bad side: give --bad OPT=VAL something that "
            "is not the default, or leave both out to search the catalogue"
        )
    return space


@dataclass(frozen=True, slots=True)
class SearchScope:
    """Says what is searched, and how far."""

    question: Question
    plan: _Plan
    metric: SearchMetric
    options: BisectOptions
    context: Context
    direction: Direction | None = None
    """Of a catalogue."""
    setting: Setting | None = None
    """How to measure, where there is a device."""


def write_title(question: Question, request: CompileRequest) -> str:
    """Return ``gqa-transformer · layers=3 · h100``."""
    place = request.place
    preset = f"preset {question.preset}" if question.preset else ""
    given = " ".join([*question.params, *(f"--input {text}" for text in question.inputs)])
    return " · ".join(filter(None, [question.scenario, preset, given, place]))


def _ends_of(asked: SearchScope, cured: Settings | None) -> list[Job]:
    """Return the jobs whose comparison is shown: of two sides as they are; of a catalogue the base
    and its best set."""
    if asked.direction is None:
        return list(asked.plan.jobs)
    base = asked.plan.base
    variant = asked.plan.space.variant(cured or {}, base.request.variant.python)
    request = replace(base.request, variant=replace(variant, name=describe(variant)))
    return [base, make_job(request, base.interpreter)]


def write_compare(question: Question, python: str | None, a: Settings, b: Settings) -> str:
    """Return the command line that shows what the second settings do."""
    words = ["perfcli", "compare", question.scenario]
    for param in question.params:
        words += ["-p", param]
    for text in question.inputs:
        words += ["--input", text]
    typed: list[tuple[str, str | None]] = [
        ("--preset", question.preset),
        ("--target", question.target),
        ("--device", question.device),
        ("--a-python", python),
        ("--b-python", python),
    ]
    for option, given in typed:
        words += [option, given] if given else []
    words += ["--dynamic"] if question.dynamic else []
    for side, settings in (("-a", a), ("-b", b)):
        for name, value in settings.items():
            words += [side, f"{name}={units.setting(value)}"]
    return shlex.join(words)
