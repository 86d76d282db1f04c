"""Tunes a scenario: from what may be changed to what is recommended."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import get_args

from perfcli.bisect import exact, file, timed
from perfcli.bisect import space as spaces
from perfcli.bisect.answer import SearchCost
from perfcli.bisect.exact import SearchLimits, list_stops
from perfcli.bisect.file import Record
from perfcli.bisect.forge import Forge
from perfcli.bisect.metrics import METRICS, SearchMetric
from perfcli.bisect.progress import Watcher
from perfcli.bisect.sides import write_compare, write_title
from perfcli.bisect.space import Settings, Space
from perfcli.bisect.timed import Clock, Stopwatch
from perfcli.diagnosis import judge
from perfcli.diff.compare import gather_evidence
from perfcli.errors import CompileFailed, PerfcliError, wants_tracebacks
from perfcli.model import Change, Device
from perfcli.options import assignments, performance
from perfcli.options.performance import Alters, InstalledKnob
from perfcli.search.question import Subset
from perfcli.search.result import Improvement
from perfcli.tune.answer import SAME, Ratio, Share, Source, Tried, Tuned
from perfcli.tune.judging import LAUNCH_SEARCHES, LIKELY_TIME, Estimating, Judge, Measuring
from perfcli.tune.smallest import find_single, find_smallest, look_with
from perfcli.worker.roles import Generator
from perfcli.workflow.context import Context
from perfcli.workflow.fingerprint import Job, identify, make_job
from perfcli.workflow.obtain import obtain
from perfcli.workflow.pair import Pair
from perfcli.workflow.request import Question, Side, check_compiled, describe, make_jobs
from perfcli.workflow.setting import MeasuringOptions, Setting, settle, why_not
from perfcli.workflow.worktrees import Worktrees

MEASURED_AT_MOST = 3


@dataclass(frozen=True, slots=True)
class TuneOptions:
    """The options of tune alone, as typed."""

    assigned: tuple[str, ...] = ()
    """``OPT=VAL``, or files of them, that are set whatever is found."""
    python: str | None = None
    allowed: tuple[Alters, ...] = ()
    """What else than speed the options may change."""
    most_measured: int = MEASURED_AT_MOST
    max_runs: int | None = None
    budget: float | None = None


@dataclass(frozen=True, slots=True)
class _Scope:
    question: Question
    options: TuneOptions
    job: Job
    space: Space
    """What is searched."""
    wide: Space
    """The same, and what only a device can judge."""
    context: Context
    setting: Setting | None
    knobs: Mapping[str, InstalledKnob]
    left_out: Mapping[Alters, tuple[str, ...]]

    @property
    def device(self) -> Device:
        return self.job.request.device


def tune(
    question: Question, options: TuneOptions, timing: MeasuringOptions, context: Context
) -> tuple[Tuned, Pair | None]:
    """Return what is found, and the default compared with it; None where nothing is chosen. Raises
    PerfcliError for what the user got wrong and where no time is known, CompileFailed where the
    default does not compile."""
    scope = _plan(question, options, timing, context)
    record = file.find_or_begin(identify(scope.job.request, scope.job.interpreter))
    generator = context.start_generator()
    try:
        with Worktrees() as worktrees:
            found = _Tuning(scope, record, worktrees.search(generator)).run()
    finally:
        generator.close()
        record.save()
    pair = _compare_ends(scope, found) if found.verdict == "faster" else None
    if pair is not None:
        found = replace(found, costs=_list_costs(pair), compared=pair.comparison.estimate)
    return found, pair


def _plan(
    question: Question, options: TuneOptions, timing: MeasuringOptions, context: Context
) -> _Scope:
    check_compiled(question.scenario, context)
    setting = settle(question, timing, context)
    question = replace(question, threads=setting.threads if setting else None)
    probe = context.choose_probe(question.device)
    (job,) = make_jobs(question, [Side(options.assigned, options.python)], probe, context.jobs)
    if setting is not None and (reason := why_not([job], setting)):
        timing.refuse(reason)
        context.notes.warn(f"nothing is measured: {reason}")
        setting = None
    device = job.request.device
    if device == "cpu" and setting is None:
        raise PerfcliError(
            "times on the CPU are measured, not estimated, and nothing can be measured here: give "
            "a GPU with --target"
        )
    catalogue = assignments.load_catalogue(job.interpreter.torch_dir)
    knobs = performance.for_torch(catalogue.entries)
    usable = performance.select_usable(knobs, device, has_device=device == "cpu")
    left_out: dict[Alters, tuple[str, ...]] = {}
    for kind in get_args(Alters):
        if kind and kind not in options.allowed:
            left_out[kind] = tuple(c.knob.name for c in usable if c.knob.alters == kind)
    launch = [choice for choice in knobs if choice.knob.name in LAUNCH_SEARCHES]
    fit = [c for c in usable if c.knob.alters not in left_out and c not in launch]
    variant = job.request.variant
    return _Scope(
        *(question, options, job, spaces.of_catalogue(fit, variant)),
        spaces.of_catalogue([*fit, *launch], variant),
        *(context, setting, {choice.knob.name: choice for choice in knobs}, left_out),
    )


class _Tuning:
    """One search, with what it has found so far: an interrupt ends it, and loses none of it."""

    def __init__(self, scope: _Scope, record: Record, generator: Generator) -> None:
        self._scope = scope
        self._record = record
        self._generator = generator
        estimated = scope.device != "cpu"
        self._forge = self._make_forge(LIKELY_TIME if estimated else METRICS["time"])

    def _make_forge(self, metric: SearchMetric) -> Forge:
        scope, known = self._scope, self._record.known
        request = scope.job.request
        return Forge(self._generator, request, scope.space, metric, known, self._record.save)

    def run(self) -> Tuned:
        scope, forge = self._scope, self._forge
        with ExitStack() as stack:
            options, values = _count_candidates(scope.space)
            first = f"{options} options with {values} values to try: compiling without any"
            notes = scope.context.notes
            watcher = stack.enter_context(Watcher(forge, forge.metric, notes, first=first))
            most = scope.options.max_runs
            stops = list_stops(forge, most, scope.options.budget)
            limits = SearchLimits(scope.job.request.jobs, stops, watcher, most)
            clock = self._make_clock(stack) if scope.setting else None
            found = self._search(clock, limits)
            measured = clock.measurements if clock else 0
            inferred = len(self._record.known.inferred)
            cost = SearchCost(
                *(forge.compiled, forge.classes, measured, watcher.seconds),
                *(len(forge.failures), inferred),
            )
            return replace(found, cost=cost, failures=dict(forge.failures))

    def _make_clock(self, stack: ExitStack) -> Clock:
        scope = self._scope
        assert scope.setting is not None
        on_gpu = scope.device != "cpu"
        forge = self._make_forge(METRICS["device-time"]) if on_gpu else self._forge
        stopwatch = Stopwatch.of(forge, scope.setting, scope.job, scope.context)
        stack.callback(stopwatch.close)
        return Clock(forge, stopwatch.paired, stopwatch.floor(), self._record.save)

    def _search(self, clock: Clock | None, limits: SearchLimits) -> Tuned:
        judge: Estimating | Measuring
        if self._scope.device == "cpu":
            assert clock is not None
            judge = Measuring(clock)
            best = timed.timed_best(clock, "improve", limits)
        else:
            judge = Estimating(self._forge)
            try:
                judge.begin()
            except CompileFailed as error:
                if not self._forge.is_refused(self._settings(frozenset())):
                    raise
                raise self._blame_torch(error) from error
            best = exact.best_of(self._forge, "improve", limits, sums_only=True)
        blank = self._describe(best, judge)
        try:
            return self._conclude(blank, best, judge, clock)
        except KeyboardInterrupt:
            return replace(blank, stopped="interrupted")

    def _blame_torch(self, error: CompileFailed) -> CompileFailed:
        """Return in one line why there is no default to hold options against."""
        torch = f"torch {self._scope.job.interpreter.torch}"
        return CompileFailed(
            f"nothing to tune: {torch} can't compile the model as it is ({error}); try "
            "another torch with --python; PERFCLI_DEBUG=1 shows where it fails",
            detail=error.detail if wants_tracebacks() else "",
        )

    def _describe(self, best: Improvement, judge: Estimating | Measuring) -> Tuned:
        scope = self._scope
        request = scope.job.request
        return Tuned(
            self._record.id,
            write_title(scope.question, request),
            scope.question.scenario,
            scope.job.interpreter.torch or "",
            request.place,
            "default",
            "measured" if isinstance(judge, Measuring) else "estimated",
            scope.space.settings(frozenset()),
            seconds=judge.seconds if isinstance(judge, Estimating) else None,
            left_out=scope.left_out,
            searched=_count_candidates(scope.space),
            stopped=best.stopped,
        )

    def _conclude(
        self, blank: Tuned, best: Improvement, judge: Judge, clock: Clock | None
    ) -> Tuned:
        alone = self._compare_alone(best, judge)
        interrupted = best.stopped == "interrupted"
        chosen = frozenset() if interrupted else self._choose(best, alone, judge)
        near = [self._try(subset, judge) for subset in self._list_near(chosen, best, alone)]
        if clock is not None and isinstance(judge, Estimating):
            judge = Measuring(clock)
            near = [self._measure(tried, judge) for tried in near]
            sure = [t for t in near if t.measured is not None and judge.is_sure(t.measured)]
            fastest = min(sure, key=lambda t: t.measured.high if t.measured else 1.0, default=None)
            chosen = fastest.keys if fastest else frozenset()
        source: Source = "measured" if isinstance(judge, Measuring) else "estimated"
        found = replace(blank, source=source, tried=tuple(near), alone=tuple(alone))
        if not chosen:
            hopeful = bool(best.stopped) or any(tried.known.gain > 0 for tried in near)
            return replace(found, verdict="unsure" if hopeful else "default")
        options = self._settings(chosen)
        variant, python = self._scope.space.good, self._scope.job.request.variant.python
        patches = (n for n in options if n in self._scope.knobs and self._scope.knobs[n].entry.note)
        return replace(
            found,
            verdict="faster",
            options=options,
            patched=tuple(patches),
            against_default=judge.against_default(options),
            shares=tuple(self._share(key, chosen, judge, best.stopped) for key in sorted(chosen)),
            command=write_compare(self._scope.question, python, variant, options),
        )

    def _settings(self, subset: Subset) -> Settings:
        return self._scope.wide.settings(subset)

    def _choose(self, best: Improvement, alone: Sequence[Tried], judge: Judge) -> Subset:
        """Return the smallest set that keeps most of the best one's gain. Where that one is not
        surely faster: the single change that surely is, and gains most; empty where there is
        none."""
        keys = [change.key for change in best.best]
        settings = self._settings(frozenset(keys))
        whole = judge.against_default(settings) if keys else SAME
        if not judge.is_sure(whole):
            return find_single(alone, judge.is_sure)
        look = look_with(
            lambda subset: judge.against_default(self._settings(subset)),
            lambda subset: judge.between(self._settings(subset), settings),
            lambda subsets: judge.compile([self._settings(each) for each in subsets]),
            self._is_valued if best.stopped else lambda subset: True,
        )
        return find_smallest(keys, whole, look, judge.is_sure)

    def _is_valued(self, subset: Subset) -> bool:
        return self._forge.is_valued(self._settings(subset))

    def _list_near(self, chosen: Subset, best: Improvement, alone: Sequence[Tried]) -> list[Subset]:
        """Return the sets that are worth measuring, each with code of its own: the chosen one, the
        best one, and single changes that seem to help, those that gain most first."""
        whole = frozenset(change.key for change in best.best)
        singles = [tried.keys for tried in alone if tried.known.gain > 0]
        near = [each for each in dict.fromkeys([chosen, whole, *singles]) if each]
        most = self._scope.options.most_measured
        if self._scope.setting is None or self._scope.device == "cpu":
            return near[:most]
        wide = [c.key for c in self._scope.wide.changes if c.name in LAUNCH_SEARCHES]
        return [*near[:most], *(chosen | {key} for key in wide)]

    def _compare_alone(self, best: Improvement, judge: Judge) -> list[Tried]:
        """Return single changes with code of their own, those that gain most first."""
        found = []
        for effect in best.effects:
            if effect.same_as is None and effect.changes_code and effect.answer.value is not None:
                subset = frozenset({effect.change.key})
                try:
                    found.append(self._try(subset, judge))
                except PerfcliError as error:
                    found.append(Tried(self._settings(subset), subset, failure=str(error)))
        return sorted(found, key=lambda tried: -tried.known.gain)

    def _try(self, subset: Subset, judge: Judge) -> Tried:
        settings, default = self._settings(subset), self._settings(frozenset())
        if any(settings.get(name) != default.get(name) for name in LAUNCH_SEARCHES):
            return Tried(settings, subset)
        ratio = judge.against_default(settings)
        if isinstance(judge, Measuring):
            return Tried(settings, subset, measured=ratio)
        return Tried(settings, subset, ratio)

    def _measure(self, tried: Tried, judge: Measuring) -> Tried:
        """Return the set with its measured time, or why it has none: wrong results, for one."""
        try:
            return replace(tried, measured=judge.against_default(tried.options))
        except PerfcliError as error:
            return replace(tried, failure=str(error))

    def _share(self, key: str, chosen: Subset, judge: Judge, stopped: str) -> Share:
        """Return what an option does; after a stop nothing is compiled for it."""
        (change,) = (each for each in self._scope.wide.changes if each.key == key)
        alone, rest = self._settings(frozenset({key})), self._settings(chosen - {key})
        return Share(
            change,
            _known(lambda: judge.against_default(alone)),
            None
            if stopped and not self._is_valued(chosen - {key})
            else _known(lambda: judge.between(rest, self._settings(chosen))),
            self._scope.knobs[change.name].knob.alters,
        )


def _count_candidates(space: Space) -> tuple[int, int]:
    """Return how many options, and values of them, may be set."""
    return len({change.name for change in space.changes}), len(space.changes)


def _known(ask: Callable[[], Ratio]) -> Ratio | None:
    try:
        return ask()
    except PerfcliError:
        return None


# --- the end ----------------------------------------------------------------------------------


def _compare_ends(scope: _Scope, found: Tuned) -> Pair:
    """Return the default and what was chosen, both compiled to the end and stored."""
    job = scope.job
    variant = scope.wide.variant(found.options, job.request.variant.python)
    request = replace(job.request, variant=replace(variant, name=describe(variant)))
    base, head = obtain([job, make_job(request, job.interpreter)], scope.context, again="")
    comparison, broken = judge(gather_evidence(base.run, head.run))
    return Pair(base, head, comparison, fault=str(broken or ""))


def _list_costs(pair: Pair) -> tuple[Change, ...]:
    totals = [c for c in pair.comparison.totals if c.metric == "peak_memory_bytes"]
    compiled = pair.comparison.compiled
    return (*totals, *((compiled,) if compiled else ()))
