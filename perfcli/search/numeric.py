"""Finds the value of one option at which the metric flips."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from perfcli.errors import PerfcliError
from perfcli.search.question import Answer, K, Query, Search, Stopped

# Places without an answer that are passed over before what lies between is left as it is.
MOST_UNRESOLVED = 8

AskAt = Callable[[int, tuple[int, ...], int], Search[K, Answer]]
"""Asks for a place; then the places that may be next, and how many places are still suspected."""


def find_flip(low: int, high: int, ask: AskAt[K]) -> Search[K, tuple[int, int]]:
    """Find the last place known not to be bad and the first known to be bad, by bisection.

    ``low``, not bad, and ``high``, bad, are known and not asked. At most ceil(log2(high - low))
    tests where each has an answer. Where the places around the middle have none, others are tried,
    the nearest first; two places that are not neighbours mean that what is between is unresolved.
    Where it flips several times one of these places is found.
    """
    unresolved: set[int] = set()
    while (middle := next(_untried(low, high, unresolved), None)) is not None:
        quarters = ((low + middle) // 2, (middle + high) // 2)
        maybe = tuple(place for place in quarters if low < place < high)
        answer = yield from ask(middle, maybe, high - low)
        if answer.outcome == "bad":
            high = middle
        elif answer.outcome == "good":
            low = middle
        else:
            unresolved.add(middle)
            if sum(low < place < high for place in unresolved) >= MOST_UNRESOLVED:
                break
    return low, high


def _untried(low: int, high: int, unresolved: set[int]) -> Iterator[int]:
    middle = (low + high) // 2
    for distance in range(high - low):
        for place in (middle - distance, middle + distance):
            if low < place < high and place not in unresolved:
                yield place


RELATIVE_PRECISION = 0.01
Value = int | float | str

NumericStatus = Literal[
    "found",
    "between unresolved values",  # what lies between the two values has no answer
    "not worse",
    "good value is bad",
    "an end is unresolved",
]


@dataclass(frozen=True, slots=True)
class Flip:
    """Says where the metric flips: between ``last_good`` and ``first_bad`` it goes from good to
    bad; for integers and lists they are neighbours."""

    status: NumericStatus | None
    """``None``: stopped; the two values are as close as it came."""
    last_good: Value
    """The good end, where nothing was found."""
    first_bad: Value
    """The bad end, where nothing was found."""
    tested: tuple[tuple[Value, Answer], ...]
    """The tested values in their order, from the good end to the bad one."""
    back: tuple[Value, ...] = ()
    """Values that are nearer to the bad end than their neighbour in ``tested`` and yet have a
    metric that is nearer to the good end's: it is not monotone, and may flip elsewhere, too."""
    stopped: str = ""


def search_integer(good: int, bad: int) -> Search[Value, Flip]:
    """Search for the integer, exactly, in at most ceil(log2(abs(bad - good))) tests and the two
    ends. Either may be larger."""
    step = 1 if bad > good else -1
    return _search(abs(bad - good), lambda place: good + step * place)


def search_float(
    good: float, bad: float, relative_precision: float = RELATIVE_PRECISION
) -> Search[Value, Flip]:
    """Search until the two values differ by at most ``relative_precision`` of the larger one.

    Ends of one sign are halved by ratio, so that each power of ten gets its share: one between
    1e-6 and 1 is found to 1 % with 11 tests. Others are halved by difference, and the precision is
    of the larger end.
    """
    if not (math.isfinite(good) and math.isfinite(bad) and 0 < relative_precision < 1):
        raise PerfcliError("the ends are finite, and the precision is between 0 and 1")
    if min(good, bad) > 0 or max(good, bad) < 0:
        # Equal steps of the logarithm, none wider than the precision.
        distance = abs(math.log(abs(bad)) - math.log(abs(good)))
        steps = math.ceil(distance / -math.log1p(-relative_precision))
        return _search(steps, lambda place: _on_scale(good, bad, steps, place))
    steps = math.ceil(abs(bad - good) / (relative_precision * max(abs(good), abs(bad), 1e-300)))
    return _search(
        steps, lambda place: bad if place == steps else good + (bad - good) * place / steps
    )


def _on_scale(good: float, bad: float, steps: int, place: int) -> float:
    """Return the ends themselves without an error of rounding."""
    if place in (0, steps):
        return bad if place else good
    low, high = math.log(abs(good)), math.log(abs(bad))
    return math.copysign(math.exp(low + (high - low) * place / steps), good)


def _search(last: int, value: Callable[[int], Value]) -> Search[Value, Flip]:
    """Search over the places 0, good, to ``last``, bad."""
    if last < 1:
        raise PerfcliError("the good and the bad value are the same")
    return _bisect(last, value)


def _bisect(last: int, value: Callable[[int], Value]) -> Search[Value, Flip]:
    tested: dict[int, Answer] = {}
    low, high = 0, last
    try:
        good = tested[0] = yield Query(value(0), (value(last),), step="the good value")
        bad = tested[last] = yield Query(value(last), step="the bad value")
        status = _ends(good, bad)
        if status is None:
            low, high = yield from find_flip(0, last, _ask(tested, value))
            status = "found" if high - low == 1 else "between unresolved values"
    except Stopped as stop:
        return _result(None, tested, value, _closest(tested, last), stop.reason)
    return _result(status, tested, value, (low, high))


def _ask(tested: dict[int, Answer], value: Callable[[int], Value]) -> AskAt[Value]:
    def ask(place: int, maybe: tuple[int, ...], suspects: int) -> Search[Value, Answer]:
        later = tuple(value(near) for near in maybe)
        tested[place] = yield Query(value(place), later, step="flip", suspects=suspects)
        return tested[place]

    return ask


def _ends(good: Answer, bad: Answer) -> NumericStatus | None:
    if "unresolved" in (good.outcome, bad.outcome):
        return "an end is unresolved"
    if good.is_bad:
        return "good value is bad"
    return None if bad.is_bad else "not worse"


def _closest(tested: dict[int, Answer], last: int) -> tuple[int, int]:
    low = max((p for p, answer in tested.items() if answer.outcome == "good"), default=0)
    return low, min((p for p, answer in tested.items() if answer.is_bad), default=last)


def _result(
    status: NumericStatus | None,
    tested: dict[int, Answer],
    value: Callable[[int], Value],
    between: tuple[int, int],
    stopped: str = "",
) -> Flip:
    places = sorted(tested)
    back = tuple(value(place) for place in _back(tested))
    answers = tuple((value(place), tested[place]) for place in places)
    return Flip(status, value(between[0]), value(between[1]), answers, back, stopped)


def _back(tested: dict[int, Answer]) -> list[int]:
    known = [(place, a) for place, a in sorted(tested.items()) if a.value is not None]
    if not known:
        return []
    sign = 1 if _rise(known[0][1], known[-1][1]) >= 0 else -1
    return [
        place
        for (_, before), (place, after) in pairwise(known)
        if sign * _rise(before, after) < -_noise(before, after)
    ]


def _rise(before: Answer, after: Answer) -> float:
    assert before.value is not None
    assert after.value is not None
    return after.value - before.value


def _noise(before: Answer, after: Answer) -> float:
    """Return three standard errors of the difference of two timed values, which are ratios; 0 of
    exact ones."""
    errors = [
        (answer.value or 0.0) * (answer.evidence.standard_error or 0.0)
        for answer in (before, after)
        if answer.evidence
    ]
    return 3 * math.hypot(*errors)
