"""bisect-commits from its plan to its answer."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from perfcli.bisect import exact, file, metrics, timed
from perfcli.bisect.answer import Ends, SearchCost
from perfcli.bisect.exact import Judge, SearchLimits, Tests, _Halfway, _run, list_stops
from perfcli.bisect.knowledge import Knowledge, _name_of
from perfcli.bisect.metrics import SearchMetric
from perfcli.bisect.progress import Watcher
from perfcli.bisect.run import _setting, generating
from perfcli.bisect.space import Settings
from perfcli.bisect.timed import NORMAL_95, Clock, _together, start_clock
from perfcli.bisect.versions import view
from perfcli.bisect.versions.answer import VERSIONS, Proof, Status, VersionBlame, list_versions
from perfcli.bisect.versions.forge import VersionForge
from perfcli.bisect.versions.plan import VersionPlan, make_plan, settings_of
from perfcli.console import documents, output
from perfcli.console.documents import Wanted
from perfcli.diagnosis import judge
from perfcli.errors import Interrupted, NotComparable, PerfcliError
from perfcli.machine import targets
from perfcli.search.first_bad import find_first_bad
from perfcli.search.question import Answer
from perfcli.search.weighing import Doubted, LogRatio
from perfcli.worker.roles import Generator
from perfcli.workflow.context import Context
from perfcli.workflow.pair import compile_pair
from perfcli.workflow.request import Question, Side, choose_device
from perfcli.workflow.setting import MeasuringOptions, Setting


@dataclass(frozen=True, slots=True)
class CommitOptions:
    """The options of bisect-commits alone, as typed."""

    words: tuple[str, ...]
    """Revisions or interpreters, the good one first."""
    assignments: tuple[str, ...] = ()
    python: str | None = None
    metric: str | None = None
    first_parent: bool = False
    max_runs: int | None = None
    budget: float | None = None
    resume: str | None = None


@dataclass(frozen=True, slots=True)
class _Attempt:
    """Says by what a search goes: a metric and, of what is measured, how."""

    metric: SearchMetric
    setting: Setting | None


@dataclass(frozen=True, slots=True)
class _Asked:
    question: Question
    options: CommitOptions
    timing: MeasuringOptions
    plan: VersionPlan
    attempts: tuple[_Attempt, ...]
    context: Context


def bisect_commits(
    question: Question,
    options: CommitOptions,
    timing: MeasuringOptions,
    context: Context,
    wanted: Wanted,
    quiet: bool,
) -> int:
    """Return the exit code. Raises PerfcliError for what the user got wrong, and what compiling
    raises."""
    attempts = _choose_attempts(question, options, timing, context)
    threads = next((each.setting.threads for each in attempts if each.setting), None)
    question = replace(question, threads=threads)
    plan = make_plan(
        *(options.words, options.assignments, options.python, question),
        *(options.first_parent, context),
    )
    asked = _Asked(question, options, timing, plan, attempts, context)
    resumed = file._resume(options.resume, plan.about) if options.resume else None
    record = resumed or file.Record(plan.about, Knowledge())
    with generating(context, record) as generator:
        found = _search(asked, record, generator)
    proof = _prove(asked, found)
    if proof and found.cost.measured and proof.comparison.outcome != "worse":
        disputed = f"measured against {proof.parent.name}, it is {proof.comparison.outcome}"
        found = replace(found, disputed=disputed)
    try:
        output.write_document("commit-bisection", view.describe_blame(found, proof), wanted.json)
        documents.write_table(VERSIONS, list_versions(found), wanted)
    finally:
        view.show_blame(found, proof, wanted.stdout, quiet)
    return found.exit_code


def _choose_attempts(
    question: Question, options: CommitOptions, timing: MeasuringOptions, context: Context
) -> tuple[_Attempt, ...]:
    """Return what to search by: the metric that was typed; else of a GPU the estimated time, and
    where that says nothing the measured one. Raises PerfcliError for what the user got wrong."""
    device, _ = choose_device(question.device, question.target)
    if options.metric is not None:
        metric = metrics._find(options.metric, device)
        return (_Attempt(metric, _setting(question, metric, timing, context)),)
    measured = metrics._find("time" if device == "cpu" else "device-time", device)
    if device == "cpu":
        return (_Attempt(measured, _setting(question, measured, timing, context)),)
    attempts = [_Attempt(metrics._find("estimated-time", device), None)]
    if question.target is None and targets.has_gpu():
        attempts.append(_Attempt(measured, _setting(question, measured, timing, context)))
    else:
        timing.refuse("nothing is measured without a device")
    return tuple(attempts)


# --- the search --------------------------------------------------------------------------------


def _search(asked: _Asked, record: file.Record, generator: Generator) -> VersionBlame:
    """Search by one metric after the other, until one is worse at the bad end."""
    besides: list[str] = []
    found = None
    for number, attempt in enumerate(asked.attempts):
        last = number == len(asked.attempts) - 1
        try:
            found = _search_by(attempt, asked, record, generator)
        except (Interrupted, NotComparable):
            raise
        except PerfcliError as error:
            if last:
                raise
            besides.append(f"{attempt.metric.name}: {error}")
            continue
        if last or found.status not in ("not worse", "ends unsure"):
            break
        besides.append(f"{attempt.metric.name}: {view.write_verdict(found)}")
    assert found is not None
    return replace(found, besides=tuple(besides))


def _search_by(
    attempt: _Attempt, asked: _Asked, record: file.Record, generator: Generator
) -> VersionBlame:
    plan, notes, metric = asked.plan, asked.context.notes, attempt.metric
    forge = VersionForge(generator, plan, metric, record.known, record.save)
    clock, stopwatch = start_clock(forge, attempt.setting, plan.base, asked.context, record)
    try:
        with Watcher(forge, metric, notes, str) as watcher:
            stops = list_stops(forge, asked.options.max_runs, asked.options.budget)
            limits = SearchLimits(plan.base.request.jobs, stops, watcher)
            found = _blame(forge, clock, asked, limits, record)
            cost = SearchCost(
                *(forge.compiled, forge.classes, clock.measurements if clock else 0),
                *(watcher.seconds, len(forge.failures)),
            )
    finally:
        if stopwatch is not None:
            stopwatch.close()
    return replace(found, cost=cost, failures=forge.failures_by_version())


def _blame(
    forge: VersionForge,
    clock: Clock | None,
    asked: _Asked,
    limits: SearchLimits,
    record: file.Record,
) -> VersionBlame:
    plan, metric = asked.plan, forge.metric
    none = SearchCost(0, 0, 0, 0.0)
    blank = VersionBlame(record.id, _title(asked), plan, metric, "same code", none)
    good, bad = exact._ends(forge)
    if good == bad and (clock or _have_same_code(forge, plan)):
        return blank
    ends = timed._timed_ends(clock) if clock else exact._exact_ends(forge)
    blank = replace(blank, ends=ends)
    if not ends.is_worse:
        status: Status = "ends unsure" if ends.estimated == "unsure" else "not worse"
        return replace(blank, status=status)
    halfway = _Halfway(ends.good, ends.bad)
    judge_code = _judge_timed(clock, ends) if clock else halfway.judging(forge)

    def answer(settings: Settings, code: str, fresh: bool) -> Answer:
        if code == good:
            return Answer("good", ends.good if clock is None else 1.0)
        if code == bad:
            return Answer("bad", ends.bad if clock is None else ends.ratio)
        return judge_code(settings, code, fresh)

    tests: Tests[str] = Tests(forge, settings_of, answer)
    first = _run(find_first_bad(plan.history), tests, limits)
    return replace(blank, first=first, status=first.status)


def _have_same_code(forge: VersionForge, plan: VersionPlan) -> bool:
    names = (_name_of(settings_of(version.name)) for version in (plan.good, plan.bad))
    ours, theirs = (forge.known.codes[name].name for name in names)
    return ours == theirs


def _judge_timed(clock: Clock, ends: Ends) -> Judge:
    """Return what measures once, or once more, and weighs all measurements of a class together."""
    assert ends.ratio is not None
    assert ends.low is not None
    error = (math.log(ends.ratio) - math.log(ends.low)) / NORMAL_95
    weighing = Doubted(LogRatio(math.log(ends.ratio), error, math.log1p(clock.floor) / 2))

    def answer(settings: Settings, code: str, fresh: bool) -> Answer:
        kept = clock.kept(code)
        if fresh or not kept:
            clock.reading(settings)
        evidence = weighing.weigh(kept)
        value = math.exp(_together(kept).mean or 0.0)
        return Answer("bad" if evidence.log_odds > 0 else "good", value, evidence=evidence)

    return answer


def _title(asked: _Asked) -> str:
    """Return ``model.py:block · layers=3 · h100``."""
    question, request = asked.question, asked.plan.base.request
    place = request.place
    preset = f"preset {question.preset}" if question.preset else ""
    given = " ".join([*question.params, *(f"--input {text}" for text in question.inputs)])
    return " · ".join(filter(None, [question.scenario, preset, given, place]))


# --- the proof ---------------------------------------------------------------------------------


def _prove(asked: _Asked, found: VersionBlame) -> Proof | None:
    """Compare the first bad version with the one before it, as ``compare`` does: measured where the
    search measured. None where there is none, and where the two can't be compared."""
    culprit = found.culprit
    if culprit is None or found.stopped == "interrupted":
        return None
    parent = asked.plan.parent_of(culprit)
    sides = [
        Side(asked.options.assignments, each.python or asked.options.python, each.scenario)
        for each in (parent, culprit)
    ]
    if not asked.plan.of_commits:
        sides = [replace(side, scenario="") for side in sides]
    timing = asked.timing if found.cost.measured else MeasuringOptions(no_time=True)
    context = asked.context
    try:
        pair = compile_pair(asked.question, sides, timing, (), context)
        comparison, broken = judge(pair.comparison)
    except Interrupted:
        raise
    except PerfcliError as error:
        context.notes.warn(f"{parent.name} and {culprit.name} are not compared: {error}")
        return None
    if broken:
        context.notes.warn(str(broken))
    places = [(side.reference, side.shown_path) for side in (pair.base, pair.head)]
    return Proof(parent, culprit, comparison, places)
