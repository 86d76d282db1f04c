"""The searches of bisect-config, over variants that a forge compiles: exact metrics."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from typing import Generic

from perfcli.bisect.answer import Ends, NumericFlip
from perfcli.bisect.forge import Forge
from perfcli.bisect.knowledge import _name_of
from perfcli.bisect.space import Settings
from perfcli.diff.compare import compare
from perfcli.errors import CompileFailed, Interrupted, PerfcliError
from perfcli.search.culprits import find_culprits
from perfcli.search.drive import Code, Ledger, Stop, Watch, Width, budget, drive
from perfcli.search.improve import find_best
from perfcli.search.numeric import Flip, Value, search_float, search_integer
from perfcli.search.question import Answer, K, OptionChange, Query, Search, Subset, T
from perfcli.search.result import Culprits, Direction, Improvement

REMAINDER = 0.1
"""What is left of the difference, after culprits were found, that is worth another search. Half
of the difference decides each search: of two culprits the smaller one alone has less."""


Judge = Callable[[Settings, str, bool], Answer]
"""Answers for the settings of a variant, its class, and whether it is to be asked afresh."""


@dataclass(frozen=True, slots=True)
class _Halfway:
    """Judges a value by the middle between two exact values, ``bad`` above ``good``."""

    good: float
    bad: float

    def judge(self, value: float) -> Answer:
        return Answer("bad" if self.share(value) >= 0.5 else "good", value)

    def judging(self, forge: Forge) -> Judge:
        """Return what judges a class of code by an exact metric."""
        return lambda settings, code, fresh: self.judge(forge.value(settings, code))

    def share(self, value: float) -> float:
        """Return 0 at the good end, 1 at the bad one."""
        return (value - self.good) / (self.bad - self.good)


MOST_PAIRS = 30
"""Of a catalogue: what does harm alone is tried on top of the best set first, then pairs."""

MOST_MORE = 6
"""The same where no pairs are tried: these do the least harm alone."""

SKIMMED = "not estimated: its code does no less"

MOST_TOGETHER = 12
"""Changes that did nothing to other models, tried at once: where 1 in 40 does something to this one
three sets of four leave its code as it is."""

CERTAIN = frozenset({"each change alone"})
"""Steps of the search of a catalogue in which all that may be asked will be: it is compiled at one
go, so that what it has in common is compiled once."""


@dataclass(frozen=True, slots=True)
class SearchLimits:
    width: int
    """Variants compiled at once."""
    stops: tuple[Stop[object], ...]
    watch: Callable[..., None]
    most: int | None = None
    """Variants that may be compiled in all."""


def list_stops(
    forge: Forge, most_runs: int | None, budget_seconds: float | None
) -> tuple[Stop[object], ...]:
    """Return the reasons to stop, counted over all searches of a forge, unlike those of
    ``drive``."""
    stops: list[Stop[object]] = []
    if most_runs is not None:
        reason = f"after {most_runs} runs (--max-runs)"
        stops.append(lambda _: reason if forge.compiled >= most_runs else "")
    if budget_seconds is not None:
        stops.append(budget(budget_seconds, time.monotonic))
    return tuple(stops)


@dataclass(frozen=True, slots=True)
class Tests(Generic[K]):
    """A ``drive.Oracle``: ``settings_of`` says what a key compiles with, ``answer_of`` what its
    class means."""

    forge: Forge
    settings_of: Callable[[K], Settings]
    answer_of: Judge

    def compile(self, wanted: Sequence[K]) -> Generator[tuple[K, Code], None, None]:
        for number, code in self.forge.arriving([self.settings_of(key) for key in wanted]):
            yield wanted[number], code

    def judge(self, key: K, code: str, fresh: bool) -> Answer:
        try:
            return self.answer_of(self.settings_of(key), code, fresh)
        except PerfcliError as error:
            self.forge.failures[_name_of(self.settings_of(key))] = str(error)
            return Answer("unresolved", reason=str(error))


def _run(
    search: Search[K, T],
    tests: Tests[K],
    limits: SearchLimits,
    width: int | Width[K] | None = None,
    at_hand: Callable[[str], bool] = lambda code: False,
) -> T:
    """Drive a search to its end, or to a limit."""
    stops: Sequence[Stop[K]] = limits.stops  # type: ignore[assignment]  # they look at no key
    watch: Watch[K] = limits.watch
    wide = width or limits.width
    ledger = Ledger[K]()
    return drive(search, tests, ledger, width=wide, stops=stops, watch=watch, at_hand=at_hand)


def _ends(forge: Forge) -> tuple[str, str]:
    """Return the classes of both ends, compiled at once. Raises CompileFailed, naming the side,
    where one does not compile, Interrupted on Ctrl-C."""
    space = forge.space
    sides = [space.settings(frozenset()), space.settings(space.everything)]
    try:
        good, bad = forge.codes(sides)
    except KeyboardInterrupt as error:
        raise Interrupted("interrupted before either side was compiled") from error
    if good.name is None and bad.name is None:
        raise CompileFailed(f"neither the good nor the bad side compiles: {good.failure}")
    for side, code in (("good", good), ("bad", bad)):
        if code.name is None:
            raise CompileFailed(f"the {side} side does not compile: {code.failure}")
    assert good.name is not None
    assert bad.name is not None
    return good.name, bad.name


def _exact_ends(forge: Forge) -> Ends:
    """Raise as ``ends``, and PerfcliError where the metric is not known of one."""
    space = forge.space
    good, bad = _ends(forge)
    sides = ((space.settings(frozenset()), good), (space.settings(space.everything), bad))
    if not forge.metric.is_estimated or good == bad:
        before, after = (forge.value(settings, code) for settings, code in sides)
        return Ends(before, after)
    # Kernels that are the same on both sides have the same error: the interval is of what differs.
    base, head = (forge.compile(settings, code) for settings, code in sides)
    change = compare(base, head).estimate
    if change is None:
        raise PerfcliError("estimated-time is not known of both sides")
    before, after = (forge.value(settings, code) for settings, code in sides)
    return Ends(before, after, change.ratio, change.low, change.high, estimated=change.verdict)


def _culprits_of(forge: Forge, known: Ends, limits: SearchLimits) -> Culprits:
    """Return all culprits between two ends, the bad one worse.

    Half of the difference decides; where less than that is left, but not nothing, what is left is
    searched in the same way.
    """
    found = _pass(forge, forge.space.changes, _Halfway(known.good, known.bad), limits)
    whole = found
    while found.status == "explained" and found.left is not None and not found.stopped:
        share = whole.share(found.left)
        taken = {change.key for culprit in whole.sets for change in culprit.options}
        rest = tuple(change for change in forge.space.changes if change.key not in taken)
        left = found.left.value
        if share is None or share < REMAINDER or not rest or left is None:
            break
        found = _pass(forge, rest, _Halfway(known.good, left), limits)
        whole = _joined(whole, found)
    return whole


def _pass(
    forge: Forge, changes: Sequence[OptionChange], halfway: _Halfway, limits: SearchLimits
) -> Culprits:
    tests: Tests[Subset] = Tests(forge, forge.space.settings, halfway.judging(forge))
    return _run(find_culprits(changes), tests, limits)


def _joined(first: Culprits, then: Culprits) -> Culprits:
    """Return the sets of both; the ends are those of the first."""
    explained = then.status == "explained"
    return replace(
        first,
        status="explained" if explained else "partly explained",
        sets=(*first.sets, *then.sets),
        left=then.left if then.sets else first.left,
        suspects=then.suspects,
        stopped=then.stopped,
        contradictions=first.contradictions + then.contradictions,
    )


# --- a number ----------------------------------------------------------------------------------


def _flips_of(
    forge: Forge, culprits: Culprits, known: Ends, limits: SearchLimits
) -> list[NumericFlip]:
    """Return, for each culprit of its own that is a number, the value at which the metric flips."""
    found = []
    for culprit in culprits.sets:
        if len(culprit.options) > 1 or culprit.with_it.value is None:
            continue
        (option,) = culprit.options
        search = _values(option)
        if search is None:
            continue
        before = forge.compiled
        halfway = _Halfway(known.good, culprit.with_it.value)
        flip = _flip(forge, option, search, halfway, limits)
        found.append(NumericFlip(option.name, flip, forge.compiled - before))
        if flip.stopped:
            break
    return found


def _values(option: OptionChange) -> Search[Value, Flip] | None:
    good, bad = option.good, option.bad
    if isinstance(good, bool) or isinstance(bad, bool) or good == bad:
        return None
    if isinstance(good, int) and isinstance(bad, int):
        return search_integer(good, bad)
    if isinstance(good, int | float) and isinstance(bad, int | float):
        finite = math.isfinite(good) and math.isfinite(bad)
        return search_float(good, bad) if finite else None
    return None


def _flip(
    forge: Forge,
    option: OptionChange,
    search: Search[Value, Flip],
    halfway: _Halfway,
    limits: SearchLimits,
) -> Flip:
    base = forge.space.settings(frozenset())

    def settings(value: Value) -> Settings:
        # The ends as they are known: where a side does not set the option, it is not set.
        if value == option.good:
            return base
        if value == option.bad:
            return forge.space.settings(frozenset({option.key}))
        return dict(sorted({**base, option.name: value}.items()))

    # One at a time: what is compiled beside it would be half wasted.
    return _run(search, Tests(forge, settings, halfway.judging(forge)), limits, width=1)


# --- a catalogue -------------------------------------------------------------------------------


def best_of(
    forge: Forge, direction: Direction, limits: SearchLimits, *, sums_only: bool = False
) -> Improvement:
    """Return the best, or worst, set of a catalogue, searched as ``find_best`` says. Raises
    CompileFailed where nothing compiles."""

    def answer(settings: Settings, code: str, fresh: bool) -> Answer:
        value = forge.value(settings, code)
        return Answer("good", value, reason=SKIMMED if code in forge.skimmed else "")

    def may_matter(base: Subset, name: str) -> bool:
        return forge.awakes(forge.space.settings(base), name)

    tests: Tests[Subset] = Tests(forge, forge.space.settings, answer)
    search = find_best(
        forge.space.changes,
        direction,
        most_pairs=MOST_MORE if sums_only else MOST_PAIRS,
        sums_only=sums_only,
        first=forge.space.helped,
        together=forge.space.group(_list_idle(forge), MOST_TOGETHER),
        may_matter=may_matter,
    )

    def width(question: Query[Subset]) -> int:
        if question.step not in CERTAIN:
            return limits.width
        return (
            len(forge.space.changes)
            if limits.most is None
            else max(limits.most - forge.compiled, 1)
        )

    found = _run(search, tests, limits, width, forge.has_value)
    baseline = found.baseline
    if baseline is not None and baseline.outcome == "unresolved":
        raise CompileFailed(f"without any change it does not compile: {baseline.reason}")
    return found


def _list_idle(forge: Forge) -> list[str]:
    """Return changes that left the kernels of other models as they were, and may be read in this
    one."""
    space = forge.space
    keys = (change.key for change in space.changes if change.key in space.idle)
    return [key for key in keys if not forge.can_infer(space.settings(frozenset({key})))]
