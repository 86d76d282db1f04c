"""bisect-config from its plan to its answer."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace

from perfcli.bisect.answer import Across, Bisection, Cost, Ends
from perfcli.commands import _bisect_search, _bisect_timed
from perfcli.commands._bisect_across import across_of
from perfcli.commands._bisect_asked import Asked, compare_command, title
from perfcli.commands._bisect_clock import Stopwatch, compile_paired
from perfcli.commands._bisect_file import Record
from perfcli.commands._bisect_forge import Forge
from perfcli.commands._bisect_progress import Watcher
from perfcli.commands._bisect_search import Limits
from perfcli.commands._bisect_timed import Clock
from perfcli.commands._progress import Notes
from perfcli.search.drive import budget
from perfcli.search.ledger import Ledger
from perfcli.search.result import Culprits, Status
from perfcli.worker.generator import Generator

COMPILE_FLOOR = 0.03
"""Of compile-time, relative; assumed: compiling has no controls that would tell."""


def search(asked: Asked, record: Record, generator: Generator, notes: Notes) -> Bisection:
    """Searches to the end, or to a limit. Raises CompileFailed where an end does not compile, and
    PerfcliError where there is nothing to search."""
    plan = asked.plan
    forge = Forge(generator, plan.base.request, plan.space, asked.metric, record.known, record.save)
    with Watcher(forge, asked.metric, notes) as watcher:
        jobs, stops = plan.base.request.jobs, tuple(_stops(asked, forge))
        limits = Limits(jobs, stops, watcher, asked.max_runs)
        with closing(_Searched(asked, forge, limits, record)) as searched:
            found = searched.bisection()
        cost = Cost(
            forge.compiled,
            forge.classes,
            searched.measurements,
            watcher.seconds,
            len(found.failures),
            len(record.known.inferred),
        )
    return replace(found, cost=cost)


def _stops(asked: Asked, forge: Forge) -> list[Callable[[Ledger[object]], str]]:
    """Counted over all searches, unlike those of ``drive``."""
    stops: list[Callable[[Ledger[object]], str]] = []
    if (most := asked.max_runs) is not None:
        reason = f"after {most} runs (--max-runs)"
        stops.append(lambda _: reason if forge.compiled >= most else "")
    if asked.budget is not None:
        stops.append(budget(asked.budget, time.monotonic))
    return stops


class _Searched:
    def __init__(self, asked: Asked, forge: Forge, limits: Limits, record: Record) -> None:
        self._asked = asked
        self._forge = forge
        self._limits = limits
        self._record = record
        self._stopwatch: Stopwatch | None = None
        self._clock = self._made_clock()

    def close(self) -> None:
        if self._stopwatch is not None:
            self._stopwatch.close()

    @property
    def measurements(self) -> int:
        return self._clock.measurements if self._clock else 0

    def _made_clock(self) -> Clock | None:
        asked, forge = self._asked, self._forge
        if asked.metric.kind == "compile":
            measure = lambda settings: compile_paired(forge, settings)  # noqa: E731
            return Clock(forge, measure, COMPILE_FLOOR, self._record.save)
        if asked.setting is None:
            return None
        stopwatch = Stopwatch.of(forge, asked.setting, asked.plan.base, asked.how)
        self._stopwatch = stopwatch
        if asked.metric.kind == "memory":
            forge.measured = stopwatch.memory
            return None
        return Clock(forge, stopwatch.paired, stopwatch.floor(), self._record.save)

    def bisection(self) -> Bisection:
        asked = self._asked
        blank = Bisection(
            self._record.id,
            asked.question.scenario,
            asked.plan.base.request.params,
            asked.metric,
            asked.plan.space.changes,
            Cost(0, 0, 0, 0.0),
            title=title(asked),
        )
        found = self._catalogue(blank) if asked.direction else self._sides(blank)
        return replace(found, failures=dict(self._forge.failures))

    # --- a catalogue ---------------------------------------------------------------------------

    def _catalogue(self, blank: Bisection) -> Bisection:
        direction = self._asked.direction
        assert direction is not None
        if self._clock:
            best = _bisect_timed.timed_best(self._clock, direction, self._limits)
        else:
            best = _bisect_search.best_of(self._forge, direction, self._limits)
        found = replace(blank, direction=direction, improvement=best, stopped=best.stopped)
        if not best.best:
            return found
        subset = frozenset(change.key for change in best.best)
        settings = self._forge.space.settings(subset)
        base = self._forge.space.settings(frozenset())
        return replace(found, cure=settings, command=compare_command(self._asked, base, settings))

    # --- between two sides ---------------------------------------------------------------------

    def _sides(self, blank: Bisection) -> Bisection:
        forge, asked = self._forge, self._asked
        known = (
            _bisect_timed.timed_ends(self._clock)
            if self._clock
            else _bisect_search.exact_ends(forge)
        )
        found = replace(blank, ends=known, across=across_of(asked, forge))
        if status := nothing_to_search(known, found.across):
            return replace(found, culprits=Culprits(status))
        if self._clock:
            culprits = _bisect_timed.timed_culprits(self._clock, known, self._limits)
        else:
            culprits = _bisect_search.culprits_of(forge, known, self._limits)
        found = replace(found, culprits=culprits, stopped=culprits.stopped)
        if culprits.sets:
            found = self._cured(found, culprits)
        if asked.flip and not self._clock and not culprits.stopped:
            flips = _bisect_search.flips_of(forge, culprits, known, self._limits)
            stopped = next((f.flip.stopped for f in flips if f.flip.stopped), "")
            found = replace(found, flips=tuple(flips), stopped=stopped)
        return found

    def _cured(self, found: Bisection, culprits: Culprits) -> Bisection:
        space = self._forge.space
        blamed = {option.key for culprit in culprits.sets for option in culprit.options}
        bad = space.settings(space.everything)
        cured = space.settings(space.everything - blamed)
        return replace(found, cure=cured, command=compare_command(self._asked, bad, cured))


def nothing_to_search(known: Ends, across: Across | None) -> Status | None:
    """Between two installations the good torch itself counts: its options on the bad torch may be
    better than bad where the good torch is not."""
    if across is not None and across.good_value >= known.bad:
        return "not worse"
    if known.is_worse:
        return None
    return "not worse" if across is None else "not explained"
