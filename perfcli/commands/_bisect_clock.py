"""Readings of timed metrics: a variant against the good end, both measured in turns."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from perfcli.bisect.metrics import Metric
from perfcli.bisect.space import Settings
from perfcli.commands import _bench
from perfcli.commands._bench import Bench
from perfcli.commands._bisect_forge import Forge
from perfcli.commands._measuring_options import Setting, why_not
from perfcli.commands._obtain import How
from perfcli.commands._progress import Notes, Reporter
from perfcli.commands._request import Job
from perfcli.commands._watch import Watch
from perfcli.errors import PerfcliError
from perfcli.interleave import environments
from perfcli.model import Prepared, Round
from perfcli.search.weighing import Reading

COMPILES = 4
"""Pairs of compilations in one reading of compile-time."""
NORMAL_95 = 1.96
LEAST_ERROR = 1e-6
"""Of a log ratio: no clock is better, and a standard error of 0 would be believed for ever."""


@dataclass(frozen=True, slots=True)
class Paired:
    """``good`` and ``other`` are seconds, medians."""

    reading: Reading
    good: float
    other: float


Measure = Callable[[Settings], Paired]


@dataclass(frozen=True, slots=True)
class Stopwatch:
    """Measures steps. ``job`` is the base's, from which both sides are made. ``place`` serves all
    measurements of a search: what one of them compiled and tuned the next ones find."""

    forge: Forge
    setting: Setting
    job: Job
    how: How
    place: Bench

    @classmethod
    def of(cls, forge: Forge, setting: Setting, job: Job, how: How) -> Stopwatch:
        """To be closed. Raises PerfcliError where this torch can't use the device."""
        if reason := why_not([job], setting):
            raise PerfcliError(f"nothing can be measured: {reason}")
        return cls(forge, setting, job, how, _bench.bench(setting, [job, job], how))

    def close(self) -> None:
        self.place.close()

    def job_of(self, settings: Settings) -> Job:
        return replace(self.job, request=self.forge.request_of(settings))

    def paired(self, settings: Settings) -> Paired:
        """One measurement, raw values stored. Raises what measuring raises."""
        good = self.forge.space.settings(frozenset())
        jobs = [self.job_of(good), self.job_of(settings)]
        plan = self.setting.plan(jobs)
        metric = self.forge.metric
        plan = replace(plan, kernels=metric.name == "device-time")
        opening = _bench.begun(plan, self.job.request.scenario)
        silent = Notes(quiet=True)
        variants = (jobs[0].request.variant, jobs[1].request.variant)

        def ready(base: Prepared, head: Prepared) -> None:
            environments.check(base, head, variants, self.setting.asked.allow_env)

        with Reporter(["good", "bad", "both"], silent) as progress:
            watch = Watch(opening, progress, silent)
            measured = _bench.raced(plan, self.place, watch, self._enough, ready)
            watch.end(measured.stopped, measured.method)
        if measured.stopped == "interrupted":
            raise KeyboardInterrupt
        return _paired(metric, measured.rounds)

    def _enough(self, rounds: Sequence[Round]) -> str | None:
        from perfcli.stats import stopping

        return stopping.enough(rounds, self.floor())

    def floor(self) -> float:
        """Relative; below it nothing is told from noise."""
        from perfcli.stats import floor

        return floor.find(self.setting.device, ()).inside

    def memory(self, settings: Settings) -> float:
        """Peak bytes allocated in one warm step. Raises PerfcliError where it is not known."""
        job = self.job_of(settings)
        worker = self.place.start(self.setting.plan([job, job]).head, lambda phase: None)
        try:
            peak = worker.prepare().memory
        finally:
            worker.close()
        if peak is None or peak.peak_allocated_bytes is None:
            raise PerfcliError("the device does not tell its peak memory")
        return float(peak.peak_allocated_bytes)


def _paired(metric: Metric, rounds: Sequence[Round]) -> Paired:
    """Raises PerfcliError where the rounds are too few for an interval."""
    from perfcli.stats import hierarchy, series

    if metric.name == "device-time":
        profiled = [r for r in rounds if r.kind == "kernels"]
        steps = series.join(profiled, lambda r: _busy(r, "base"), lambda r: _busy(r, "head"))
    else:
        steps = series.of_steps(rounds)
    found = hierarchy.estimate(steps)
    if found.ratio is None or found.half_width is None:
        raise PerfcliError(f"measured, and not enough for an interval: {found.why or 'few rounds'}")
    error = max(found.half_width / NORMAL_95, LEAST_ERROR)
    reading = Reading(math.log(found.ratio), error)
    return Paired(reading, statistics.median(steps.base), statistics.median(steps.head))


def _busy(measured: Round, side: str) -> float | None:
    """Seconds that all launches of a step take on the device, its median over the steps."""
    turn = measured.base if side == "base" else measured.head
    steps = [sum(launches) for launches in turn.launches if launches]
    return statistics.median(steps) if steps else None


def compile_paired(forge: Forge, settings: Settings) -> Paired:
    """Code generated for the good end and for a variant in turns, nothing beside it."""
    good = forge.space.settings(frozenset())
    times = [(forge.generate_again(good), forge.generate_again(settings)) for _ in range(COMPILES)]
    logs = [math.log(other / base) for base, other in times]
    error = statistics.stdev(logs) / math.sqrt(len(logs))
    bases, others = zip(*times, strict=True)
    reading = Reading(statistics.fmean(logs), max(error, LEAST_ERROR))
    return Paired(reading, statistics.median(bases), statistics.median(others))
