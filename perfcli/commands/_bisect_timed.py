"""The searches of bisect-config for timed metrics: sequential tests against the good end."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass

from perfcli.bisect.answer import Ends
from perfcli.bisect.knowledge import name_of, pair_of
from perfcli.bisect.space import Settings
from perfcli.commands._bisect_clock import NORMAL_95, Measure, Paired
from perfcli.commands._bisect_forge import Forge
from perfcli.commands._bisect_search import Limits, Tests, ends, run
from perfcli.errors import CompileFailed, PerfcliError
from perfcli.search.answer import Answer, Evidence
from perfcli.search.culprits import find_culprits
from perfcli.search.improve import find_best
from perfcli.search.improvement import Direction, Improvement
from perfcli.search.ledger import Code
from perfcli.search.options import Subset
from perfcli.search.result import Culprits
from perfcli.search.sequential import OVERCONFIDENT, Sequential
from perfcli.search.weighing import LogRatio, Reading

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
    last: Paired | None = None

    def reading(self, settings: Settings) -> Reading:
        """A new one, kept at once. Raises what measuring raises."""
        self.last = self.measure(settings)
        self.measurements += 1
        self.kept(self._class(settings)).append(self.last.reading)
        self.changed()
        return self.last.reading

    def kept(self, code: str) -> list[Reading]:
        key = pair_of(self.good, code, self.forge.metric)
        return self.forge.known.readings.setdefault(key, [])

    @property
    def good(self) -> str:
        """The class of no change."""
        return self._class(self.forge.space.settings(frozenset()))

    def _class(self, settings: Settings) -> str:
        (code,) = self.forge.codes([settings])
        return _named(code)

    def earlier(self) -> dict[str, list[Reading]]:
        """Copies: ``Sequential`` appends what it measures to its own."""
        found = self.forge.known.readings_against(self.good, self.forge.metric)
        return {code: list(made) for code, made in found.items()}

    def until_sure(self, settings: Settings, code: str, most: int) -> Evidence:
        """All readings of a class together, once they are surely apart from the good end and its
        noise, or as many as ``most``."""
        while True:
            found = together(self.kept(code))
            sure = SURE if found.measurements >= LEAST else SURE * OVERCONFIDENT
            if found.measurements >= most or self.is_apart(found, sure):
                return found
            self.reading(settings)

    def is_apart(self, found: Evidence, sure: float = SURE) -> bool:
        """By ``sure`` standard errors, and as surely more than noise."""
        if found.mean is None or found.standard_error is None:
            return False
        noise = sure / SURE * math.log1p(self.floor)
        return abs(found.mean) > max(sure * found.standard_error, noise)


def _named(code: Code) -> str:
    if code.name is None:
        raise CompileFailed(code.failure)
    return code.name


def together(readings: list[Reading]) -> Evidence:
    """Their weighted mean."""
    return LogRatio(1.0).weigh(readings)


def timed_ends(clock: Clock) -> Ends:
    """Both ends measured against each other. Raises CompileFailed where one does not compile."""
    good, bad = ends(clock.forge)
    settings = clock.forge.space.settings(clock.forge.space.everything)
    if good == bad:
        raise PerfcliError(
            "both sides generate the same code and run it in the same way: there is nothing to "
            "measure"
        )
    found = clock.until_sure(settings, bad, END_MEASUREMENTS)
    if clock.last is None:  # all of it was known: seconds are wanted, too
        clock.reading(settings)
        found = together(clock.kept(bad))
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


def timed_culprits(clock: Clock, known: Ends, limits: Limits) -> Culprits:
    """Between two ends, the bad one surely slower."""
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
        return judge.judge(name_of(settings), code, fresh)

    tests: Tests[Subset] = Tests(forge, forge.space.settings, answer)
    return run(find_culprits(forge.space.changes), tests, limits)


def timed_best(clock: Clock, direction: Direction, limits: Limits) -> Improvement:
    """The best or worst set of a catalogue, as a ratio to no change; what is not surely apart from
    it counts as no change."""
    forge = clock.forge

    def answer(settings: Settings, code: str, fresh: bool) -> Answer:
        if code == clock.good:
            return Answer("good", 1.0)
        found = clock.until_sure(settings, code, LEAST + 1)
        apart = clock.is_apart(found) and found.mean is not None
        return Answer("good", math.exp(found.mean or 0.0) if apart else 1.0)

    tests: Tests[Subset] = Tests(forge, forge.space.settings, answer)
    found = run(find_best(forge.space.changes, direction), tests, limits)
    if found.baseline is not None and found.baseline.outcome == "unresolved":
        raise CompileFailed(f"without any change it does not compile: {found.baseline.reason}")
    return found
