"""bisect-config from its plan to its answer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import get_args

from perfcli.bisect import exact, file, metrics, timed
from perfcli.bisect.across import _across_of, _check_comparable
from perfcli.bisect.answer import Across, Bisection, Ends, SearchCost
from perfcli.bisect.ends import Shown, _compare_ends, _show, _worth_comparing
from perfcli.bisect.exact import SearchLimits, list_stops
from perfcli.bisect.file import Record
from perfcli.bisect.forge import Forge
from perfcli.bisect.knowledge import Knowledge
from perfcli.bisect.metrics import SearchMetric
from perfcli.bisect.progress import Watcher
from perfcli.bisect.sides import (
    BisectOptions,
    SearchScope,
    _ends_of,
    _plan,
    write_compare,
    write_title,
)
from perfcli.bisect.space import Settings
from perfcli.bisect.timed import start_clock
from perfcli.errors import PerfcliError
from perfcli.machine import environment
from perfcli.search.result import Culprits, Direction, Status
from perfcli.worker.roles import Generator
from perfcli.workflow.context import Context
from perfcli.workflow.fingerprint import identify
from perfcli.workflow.request import Question, check_compiled, choose_device, read_reference
from perfcli.workflow.setting import MeasuringOptions, Setting, settle
from perfcli.workflow.worktrees import Worktrees


def _search(asked: SearchScope, record: Record, generator: Generator) -> Bisection:
    """Search to the end, or to a limit. Raises CompileFailed where an end does not compile, and
    PerfcliError where there is nothing to search."""
    plan = asked.plan
    forge = Forge(generator, plan.base.request, plan.space, asked.metric, record.known, record.save)
    with Watcher(forge, asked.metric, asked.context.notes) as watcher:
        options = asked.options
        jobs, stops = plan.base.request.jobs, list_stops(forge, options.max_runs, options.budget)
        limits = SearchLimits(jobs, stops, watcher, options.max_runs)
        with closing(_Searched(asked, forge, limits, record)) as searched:
            found = searched.bisection()
        cost = SearchCost(
            forge.compiled,
            forge.classes,
            searched.measurements,
            watcher.seconds,
            len(found.failures),
            len(record.known.inferred),
        )
    return replace(found, cost=cost)


class _Searched:
    def __init__(
        self, asked: SearchScope, forge: Forge, limits: SearchLimits, record: Record
    ) -> None:
        self._asked = asked
        self._forge = forge
        self._limits = limits
        self._record = record
        base, context = asked.plan.base, asked.context
        self._clock, self._stopwatch = start_clock(forge, asked.setting, base, context, record)

    def close(self) -> None:
        if self._stopwatch is not None:
            self._stopwatch.close()

    @property
    def measurements(self) -> int:
        return self._clock.measurements if self._clock else 0

    def bisection(self) -> Bisection:
        asked = self._asked
        blank = Bisection(
            self._record.id,
            asked.question.scenario,
            asked.plan.base.request.params,
            asked.metric,
            asked.plan.space.changes,
            SearchCost(0, 0, 0, 0.0),
            title=write_title(asked.question, asked.plan.base.request),
        )
        found = self._catalogue(blank) if asked.direction else self._sides(blank)
        return replace(found, failures=dict(self._forge.failures))

    # --- a catalogue ---------------------------------------------------------------------------

    def _catalogue(self, blank: Bisection) -> Bisection:
        direction = self._asked.direction
        assert direction is not None
        if self._clock:
            best = timed.timed_best(self._clock, direction, self._limits)
        else:
            best = exact.best_of(self._forge, direction, self._limits)
        found = replace(blank, direction=direction, improvement=best, stopped=best.stopped)
        if not best.best:
            return found
        subset = frozenset(change.key for change in best.best)
        settings = self._forge.space.settings(subset)
        base = self._forge.space.settings(frozenset())
        return replace(found, cure=settings, command=self._command(base, settings))

    # --- between two sides ---------------------------------------------------------------------

    def _sides(self, blank: Bisection) -> Bisection:
        forge, asked = self._forge, self._asked
        known = timed._timed_ends(self._clock) if self._clock else exact._exact_ends(forge)
        found = replace(blank, ends=known, across=_across_of(asked, forge))
        if status := _nothing_to_search(known, found.across):
            return replace(found, culprits=Culprits(status))
        if self._clock:
            culprits = timed._timed_culprits(self._clock, known, self._limits)
        else:
            culprits = exact._culprits_of(forge, known, self._limits)
        found = replace(found, culprits=culprits, stopped=culprits.stopped)
        if culprits.sets:
            found = self._cured(found, culprits)
        if asked.options.flip and not self._clock and not culprits.stopped:
            flips = exact._flips_of(forge, culprits, known, self._limits)
            stopped = next((f.flip.stopped for f in flips if f.flip.stopped), "")
            found = replace(found, flips=tuple(flips), stopped=stopped)
        return found

    def _cured(self, found: Bisection, culprits: Culprits) -> Bisection:
        space = self._forge.space
        blamed = {option.key for culprit in culprits.sets for option in culprit.options}
        bad = space.settings(space.everything)
        cured = space.settings(space.everything - blamed)
        return replace(found, cure=cured, command=self._command(bad, cured))

    def _command(self, a: Settings, b: Settings) -> str:
        python = self._asked.plan.base.request.variant.python
        return write_compare(self._asked.question, python, a, b)


def _nothing_to_search(known: Ends, across: Across | None) -> Status | None:
    """Return why there is nothing to search; between two installations the good torch itself
    counts: its options on the bad torch may be better than bad where the good torch is not."""
    if across is not None and across.good_value >= known.bad:
        return "not worse"
    if known.is_worse:
        return None
    if known.estimated == "unsure":
        return "unsure"
    return "not worse" if across is None else "not explained"


def bisect(
    question: Question,
    options: BisectOptions,
    timing: MeasuringOptions,
    context: Context,
    shown: Shown,
) -> int:
    """Return the exit code. Raises PerfcliError for what the user got wrong, and what compiling
    raises."""
    device, _ = choose_device(question.device, question.target)
    metric = metrics._find(options.metric, device)
    direction = _direction(options)
    check_compiled(question.scenario, context)
    setting = _setting(question, metric, timing, context)
    question = replace(question, threads=setting.threads if setting else None)
    plan = _plan(question, options, metric, context)
    notes = context.notes
    for job in {job.interpreter.torch: job for job in plan.jobs}.values():
        if warning := environment.torch_warning(job.interpreter.torch):
            notes.warn(warning)
    asked = SearchScope(question, plan, metric, options, context, direction, setting)
    _check_comparable(asked)
    about = identify(plan.base.request, plan.base.interpreter)
    resumed = file._resume(options.resume, about) if options.resume else None
    record = resumed or file.Record(about, Knowledge())
    found = _search_recorded(asked, record)
    jobs = _ends_of(asked, found.cure)
    ends = _compare_ends(jobs, context) if _worth_comparing(found) else None
    _show(found, ends, shown)
    return found.exit_code


def _search_recorded(asked: SearchScope, record: Record) -> Bisection:
    """Search to the end, or to a limit; what is known by then is stored, however it ends."""
    with generating(asked.context, record) as generator:
        return _search(asked, record, generator)


@contextmanager
def generating(context: Context, record: Record) -> Iterator[Generator]:
    """Have code generated in the block; what is known at its end is stored, however it ends."""
    generator = context.start_generator()
    try:
        with Worktrees() as worktrees:
            yield worktrees.search(generator)
    finally:
        generator.close()
        record.save()
        if record.failure:
            context.notes.warn(f"{record.failure}; the search can't be resumed")


def find_culprits(question: Question, options: BisectOptions, context: Context) -> Bisection:
    """Search between two sides of one torch by a metric that needs no clock, and show nothing. Ask
    the same again, and it goes on from what is known. Raises PerfcliError for what the user got
    wrong, and what compiling raises."""
    device, _ = choose_device(question.device, question.target)
    metric = metrics._find(options.metric, device)
    plan = _plan(question, options, metric, context)
    about = identify(plan.base.request, plan.base.interpreter)
    record = file.find_or_begin(about)
    return _search_recorded(SearchScope(question, plan, metric, options, context), record)


def _direction(options: BisectOptions) -> Direction | None:
    if not options.is_catalogue:
        if options.direction:
            raise PerfcliError(
                "--direction is for the catalogue: leave it out, or leave out the bad side"
            )
        return None
    chosen = options.direction or "worsen"
    for known in get_args(Direction):
        if chosen == known:
            return chosen  # type: ignore[return-value]  # one of the two
    raise PerfcliError(f"--direction is improve or worsen, not {chosen!r}")


def _setting(
    question: Question, metric: SearchMetric, timing: MeasuringOptions, context: Context
) -> Setting | None:
    """Return how to measure; None for metrics that need no device. Raises PerfcliError where the
    metric needs one that is not there."""
    if metric.kind not in ("time", "memory"):
        timing.refuse(f"{metric.name} is not measured on a device")
        return None
    if metric.kind == "memory" and not timing.typed and question.device == "cpu":
        return None
    if read_reference(question.scenario).script is not None and metric.kind == "time":
        raise PerfcliError(
            f"{metric.name} is measured, and steps of scripts are not timed: estimated-time says "
            "how long they take by estimate, or name what is compiled, path/to/file.py:name"
        )
    setting = settle(question, timing, context)
    if metric.kind == "memory":
        return setting if setting and setting.device == "cuda" else None
    if setting is None:
        where = f"--target {question.target} is no device" if question.target else "none is here"
        raise PerfcliError(
            f"{metric.name} is measured on a device, and {where}: give --device cpu, or call "
            "perfcli where the GPU is; spills, bytes, lower-bound and others need none"
        )
    return setting
