"""The searches of bisect-config for timed metrics: sequential tests against the good end."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from perfcli.bisect.answer import Ends
from perfcli.bisect.exact import SearchLimits, Tests, _ends, _run
from perfcli.bisect.file import Record
from perfcli.bisect.forge import Forge
from perfcli.bisect.knowledge import _name_of, _pair_of
from perfcli.bisect.metrics import SearchMetric
from perfcli.bisect.space import Settings
from perfcli.console.notes import Notes, Reporter
from perfcli.errors import CompileFailed, PerfcliError
from perfcli.interleave import environments
from perfcli.model import Clocks, Prepared, Round, RoundKind
from perfcli.search.culprits import find_culprits
from perfcli.search.drive import Code
from perfcli.search.improve import find_best
from perfcli.search.question import Answer, Evidence, Subset
from perfcli.search.result import Culprits, Direction, Improvement
from perfcli.search.sequential import OVERCONFIDENT, Sequential
from perfcli.search.weighing import LogRatio, Reading
from perfcli.workflow.bench import Bench, Watch, begin, open_bench, race
from perfcli.workflow.context import Context
from perfcli.workflow.fingerprint import Job
from perfcli.workflow.setting import Setting, why_not

COMPILE_FLOOR = 0.03
"""Of compile-time, relative; assumed: compiling has no controls that would tell."""
COMPILES = 4
"""Pairs of compilations in one reading of compile-time."""
NORMAL_95 = 1.96
LEAST_ERROR = 1e-6
"""Of a log ratio: no clock is better, and a standard error of 0 would be believed for ever."""


@dataclass(frozen=True, slots=True)
class _Paired:
    """``good`` and ``other`` are seconds, medians."""

    reading: Reading
    good: float
    other: float


Measure = Callable[[Settings], _Paired]


@dataclass(frozen=True, slots=True)
class Stopwatch:
    """Measures steps. ``job`` is the base's, from which both sides are made. ``place`` serves all
    measurements of a search: what one of them compiled and tuned the next ones find."""

    forge: Forge
    setting: Setting
    job: Job
    place: Bench

    @classmethod
    def of(cls, forge: Forge, setting: Setting, job: Job, context: Context) -> Stopwatch:
        """Make one, which is to be closed. Raises PerfcliError where this torch can't use the
        device."""
        if reason := why_not([job], setting):
            raise PerfcliError(f"nothing can be measured: {reason}")
        return cls(forge, setting, job, open_bench(setting, [job, job], context.timeout))

    def close(self) -> None:
        self.place.close()

    def job_of(self, settings: Settings) -> Job:
        return replace(self.job, request=self.forge.request_of(settings))

    def paired(self, settings: Settings) -> _Paired:
        """Measure once, and store the raw values. Raises what measuring raises."""
        good = self.forge.space.settings(frozenset())
        jobs = [self.job_of(good), self.job_of(settings)]
        plan = self.setting.plan(jobs)
        metric = self.forge.metric
        of_device = metric.name == "device-time"
        clocks: Clocks = "device" if of_device else "step"
        base, head = (replace(side, clocks=clocks) for side in (plan.base, plan.head))
        plan = replace(plan, base=base, head=head, kernels=of_device)
        opening = begin(plan, self.job.request.scenario)
        silent = Notes(quiet=True)
        variants = (jobs[0].request.variant, jobs[1].request.variant)

        def ready(base: Prepared, head: Prepared) -> None:
            environments.check(base, head, variants, self.setting.asked.allow_env)

        with Reporter(["good", "bad", "both"], silent) as progress:
            watch = Watch(opening, progress, silent)
            measured = race(plan, self.place, watch, self._enough, ready)
            watch.end(measured.stopped, measured.method)
        if measured.stopped == "interrupted":
            raise KeyboardInterrupt
        return _paired(metric, measured.rounds)

    def _enough(self, rounds: Sequence[Round], kind: RoundKind) -> str | None:
        from perfcli.stats import stopping

        return stopping.reason_to_stop(rounds, self.floor(), kind)

    def floor(self) -> float:
        """Return the relative floor, below which nothing is told from noise."""
        from perfcli.stats import floor

        return floor.find_floor(self.setting.device, ()).inside

    def memory(self, settings: Settings) -> float:
        """Return the peak bytes allocated in one warm step. Raises PerfcliError where it is not
        known."""
        job = self.job_of(settings)
        worker = self.place.start(self.setting.plan([job, job]).head, lambda phase: None)
        try:
            peak = worker.prepare().memory
        finally:
            worker.close()
        if peak is None or peak.peak_allocated_bytes is None:
            raise PerfcliError("the device does not tell its peak memory")
        return float(peak.peak_allocated_bytes)


def _paired(metric: SearchMetric, rounds: Sequence[Round]) -> _Paired:
    """Raise PerfcliError where the rounds are too few for an interval."""
    from perfcli.stats import series

    if metric.name == "device-time":
        replayed = series.clock_series(rounds, "device")
        steps = replayed if replayed.base else series.clock_series(rounds, "kernels")
    else:
        steps = series.step_series(rounds)
    found = series.estimate(steps)
    if found.ratio is None or found.half_width is None:
        raise PerfcliError(f"measured, and not enough for an interval: {found.why or 'few rounds'}")
    error = max(found.half_width / NORMAL_95, LEAST_ERROR)
    reading = Reading(math.log(found.ratio), error)
    return _Paired(reading, statistics.median(steps.base), statistics.median(steps.head))


def _compile_paired(forge: Forge, settings: Settings) -> _Paired:
    """Generate code for the good end and for a variant in turns, with nothing beside it."""
    good = forge.space.settings(frozenset())
    times = [(forge.generate_again(good), forge.generate_again(settings)) for _ in range(COMPILES)]
    logs = [math.log(other / base) for base, other in times]
    error = statistics.stdev(logs) / math.sqrt(len(logs))
    bases, others = zip(*times, strict=True)
    reading = Reading(statistics.fmean(logs), max(error, LEAST_ERROR))
    return _Paired(reading, statistics.median(bases), statistics.median(others))


END_MEASUREMENTS = 4
"""At most, of the bad end: what it differs by is what all else is held against."""
LEAST = 2
"""Measurements before a set is judged, but where one says it three times over: between processes
they scatter by more than they say."""
SURE = 3.0
"""Standard errors."""


@dataclass(slots=True)
class Clock:
    """Measures variants, and keeps what was measured. ``floor`` is relative."""

    forge: Forge
    measure: Measure
    floor: float
    changed: Callable[[], None] = lambda: None
    measurements: int = 0
    last: _Paired | None = None

    def reading(self, settings: Settings) -> Reading:
        """Take a new reading, and keep it at once. Raises what measuring raises."""
        self.last = self.measure(settings)
        self.measurements += 1
        self.kept(self._class(settings)).append(self.last.reading)
        self.changed()
        return self.last.reading

    def kept(self, code: str) -> list[Reading]:
        key = _pair_of(self.good, code, self.forge.metric)
        return self.forge.known.readings.setdefault(key, [])

    @property
    def good(self) -> str:
        """Return the class of no change."""
        return self._class(self.forge.space.settings(frozenset()))

    def _class(self, settings: Settings) -> str:
        (code,) = self.forge.codes([settings])
        return _named(code)

    def earlier(self) -> dict[str, list[Reading]]:
        """Return copies: ``Sequential`` appends what it measures to its own."""
        found = self.forge.known.readings_against(self.good, self.forge.metric)
        return {code: list(made) for code, made in found.items()}

    def until_sure(self, settings: Settings, code: str, most: int) -> Evidence:
        """Return all readings of a class together, once they are surely apart from the good end and
        its noise, or there are ``most``."""
        while True:
            found = _together(self.kept(code))
            sure = SURE if found.measurements >= LEAST else SURE * OVERCONFIDENT
            if found.measurements >= most or self.is_apart(found, sure):
                return found
            self.reading(settings)

    def is_apart(self, found: Evidence, sure: float = SURE) -> bool:
        """Return whether they differ by ``sure`` standard errors, and as surely by more than
        noise."""
        if found.mean is None or found.standard_error is None:
            return False
        noise = sure / SURE * math.log1p(self.floor)
        return abs(found.mean) > max(sure * found.standard_error, noise)


def start_clock(
    forge: Forge, setting: Setting | None, job: Job, context: Context, record: Record
) -> tuple[Clock | None, Stopwatch | None]:
    """Return what measures, where something is measured by the forge's metric: ratios on a clock,
    or memory. The stopwatch is to be closed."""
    if forge.metric.kind == "compile":
        measure = lambda settings: _compile_paired(forge, settings)  # noqa: E731
        return Clock(forge, measure, COMPILE_FLOOR, record.save), None
    if setting is None:
        return None, None
    stopwatch = Stopwatch.of(forge, setting, job, context)
    if forge.metric.kind == "memory":
        forge.measured = stopwatch.memory
        return None, stopwatch
    return Clock(forge, stopwatch.paired, stopwatch.floor(), record.save), stopwatch


def _named(code: Code) -> str:
    if code.name is None:
        raise CompileFailed(code.failure)
    return code.name


def _together(readings: list[Reading]) -> Evidence:
    """Return their weighted mean."""
    return LogRatio(1.0).weigh(readings)


def _timed_ends(clock: Clock) -> Ends:
    """Measure both ends against each other. Raises CompileFailed where one does not compile."""
    good, bad = _ends(clock.forge)
    settings = clock.forge.space.settings(clock.forge.space.everything)
    if good == bad:
        raise PerfcliError(
            "both sides generate the same code and run it in the same way: there is nothing to "
            "measure"
        )
    found = clock.until_sure(settings, bad, END_MEASUREMENTS)
    if clock.last is None:  # all of it was known: seconds are wanted, too
        clock.reading(settings)
        found = _together(clock.kept(bad))
    assert clock.last is not None
    assert found.mean is not None
    assert found.standard_error is not None
    half = NORMAL_95 * found.standard_error
    return Ends(
        clock.last.good,
        clock.last.other,
        math.exp(found.mean),
        math.exp(found.mean - half),
        math.exp(found.mean + half),
        clock.floor,
    )


def _timed_culprits(clock: Clock, known: Ends, limits: SearchLimits) -> Culprits:
    """Return the culprits between two ends, the bad one surely slower."""
    forge = clock.forge
    assert known.ratio is not None
    assert known.low is not None
    error = (math.log(known.ratio) - math.log(known.low)) / NORMAL_95
    weighing = LogRatio(math.log(known.ratio), error, math.log1p(clock.floor) / 2)
    good = clock.good

    def measure(settings: str) -> Reading:
        return clock.reading(json.loads(settings))

    judge = Sequential(measure, weighing, least=LEAST, earlier=clock.earlier())

    def answer(settings: Settings, code: str, fresh: bool) -> Answer:
        if code == good:
            return Answer("good", 1.0)
        return judge.judge(_name_of(settings), code, fresh)

    tests: Tests[Subset] = Tests(forge, forge.space.settings, answer)
    return _run(find_culprits(forge.space.changes), tests, limits)


def timed_best(clock: Clock, direction: Direction, limits: SearchLimits) -> Improvement:
    """Return the best or worst set of a catalogue, as a ratio to no change; what is not surely
    apart from it counts as no change."""
    forge = clock.forge

    def answer(settings: Settings, code: str, fresh: bool) -> Answer:
        if code == clock.good:
            return Answer("good", 1.0)
        found = clock.until_sure(settings, code, LEAST + 1)
        apart = clock.is_apart(found) and found.mean is not None
        return Answer("good", math.exp(found.mean or 0.0) if apart else 1.0)

    tests: Tests[Subset] = Tests(forge, forge.space.settings, answer)
    found = _run(find_best(forge.space.changes, direction), tests, limits)
    if found.baseline is not None and found.baseline.outcome == "unresolved":
        raise CompileFailed(
            f"without any change it does not compile: {found.baseline.reason}",
            forge.detail_of(forge.space.settings(frozenset())),
        )
    return found
