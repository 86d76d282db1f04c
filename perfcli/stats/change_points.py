"""Finds where the level of a series changed, in noise that may have outliers and a memory.

Machines have good and bad days: the noise of a series of times is correlated, and a test that takes
it for independent calls every other such series changed. Here the noise is a first-order
autoregression of unknown correlation and size. What is asked is how much likelier a series is with
one change of level or two than with none, each averaged over all correlations, sizes of the noise,
levels and places: a Bayes factor. A slow ramp counts as none, so that a drift is not cut to steps.
The correlations have one set of weights where there is a change and another where there is none;
they and the factor from which a change counts were chosen so that series without a change are
called changed about equally rarely whatever their correlation is, up to 0.7
(``bench/change_points.py``).

Outliers count as missing: points that are far from what their neighbours on both sides make likely,
and clusters at an end that are no more of one level than they are outliers. A level that lasts for
two points is none.

Sources: weights that make a test's errors equal are least favourable distributions (Lehmann,
Romano, *Testing Statistical Hypotheses*, chapter 3.8); several changes are found by binary
segmentation (Scott, Knott, *Biometrics* 30, 1974); the likelihoods are those of
``autoregression.py``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from perfcli.stats.autoregression import Autoregression

ALARM = 0.015
"""How often a series without a change has one nevertheless, at most."""
LEAST_POINTS = 3
"""Points on each side of a change: two of three in a row may be outliers."""
FEWEST = 8
"""Points that a series needs before its noise is known."""
_NEIGHBOURS = 3
_CUT = 3.5
"""Standard deviations beyond its neighbours at which a point is an outlier."""
_OF_MAD = 1.4826
"""A standard deviation over a median absolute deviation, of a normal distribution."""
_CORRELATIONS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
_WITHOUT = (0.06, 0.06, 0.1, 0.13, 0.12, 0.11, 0.1, 0.24, 0.04, 0.02, 0.02)
_WITH = (0.38, 0.16, 0.1, 0.03, 0.03, 0.09, 0.05, 0.05, 0.06, 0.04, 0.01)
"""Weights of the correlations where there is no change, and where there is one."""
_SIZE = 4.0
"""Standard deviations of the noise that changes have, by the root of their mean square."""


@dataclass(frozen=True, slots=True)
class Shift:
    """Says that the level of a series changed."""

    index: int
    """The first point of the new level."""
    before: float
    after: float
    p: float
    """How often a series without a change has one that is as clear."""

    @property
    def size(self) -> float:
        return self.after - self.before


def find_shifts(values: Sequence[float], alarm: float = ALARM) -> list[Shift]:
    """Return the changes of level, in order.

    ``values`` have noise that does not depend on the level: of times and ratios take logarithms.
    """
    import numpy as np

    series = np.asarray(values, dtype=float)
    if len(series) > _LONG:
        return _describe(series, _find_in_windows(series, alarm))
    places: dict[int, float] = {}
    todo = [(0, len(series))]
    while todo:
        first, last = todo.pop()
        found = _find_one(series[first:last], alarm)
        if found is not None:
            place, p = first + found[0], found[1]
            places[place] = p
            todo += [(first, place), (place, last)]
    return _describe(series, places)


_LONG = 400
"""Points from which a series is searched in windows of so many, which overlap by half: what is not
seen in one is too small to matter, and the search takes as long as the series is."""
_SAME_PLACE = 10
"""Points within which two windows mean the same change, and that are the edge of one."""


def _find_in_windows(series: Any, alarm: float) -> dict[int, float]:
    """Return the changes of a long series, with their p values: small enough for so many windows
    together."""
    stride = _LONG // 2
    starts = [*range(0, len(series) - _LONG, stride), len(series) - _LONG]
    found: list[tuple[float, int, int]] = []
    todo = [(start, start, start + _LONG) for start in starts]
    while todo:
        window, first, last = todo.pop()
        one = _find_one(series[first:last], alarm / len(starts))
        if one is not None:
            place, p = first + one[0], one[1]
            if _is_inside(place, window, len(series)):
                found.append((p, place, window))
            todo += [(window, first, place), (window, place, last)]
    places: dict[int, tuple[float, int]] = {}
    for p, place, window in sorted(found):
        known = (each for each, (_, where) in places.items() if where != window)
        if all(abs(place - each) > _SAME_PLACE for each in known):
            places[place] = p, window
    return {place: p for place, (p, _) in places.items()}


def _is_inside(place: int, window: int, n: int) -> bool:
    """Return whether a place is not at an edge of its window, where three outliers are as good as a
    level: another window has it in its middle, but at the ends of the series."""
    after, before = place - window, window + _LONG - place
    return (not window or after > _SAME_PLACE) and (window + _LONG == n or before > _SAME_PLACE)


def _describe(series: Any, places: dict[int, float]) -> list[Shift]:
    import numpy as np

    if not places:
        return []
    edges = [0, *sorted(places), len(series)]
    levels = [float(np.median(series[a:b])) for a, b in pairwise(edges)]
    shifts = [
        Shift(place, before, after, places[place])
        for place, before, after in zip(edges[1:-1], levels, levels[1:], strict=False)
    ]
    for first, second in pairwise(shifts):
        if second.index - first.index < _BETWEEN and first.size * second.size < 0:
            rest = places.keys() - {first.index, second.index}
            return _describe(series, {place: places[place] for place in rest})
    return shifts


def _find_one(series: Any, alarm: float) -> tuple[int, float] | None:
    """Return the clearest change of a series, and its p value; None where there is none."""
    n = len(series)
    if n < FEWEST or float(series.max() - series.min()) <= _EQUAL * float(abs(series).max()):
        return None
    kept = cut_outliers(series) == series
    while kept.sum() >= FEWEST:
        place, last, factor = _weigh_change(series, kept)
        p = _find_p(factor, n)
        if p > alarm:
            return None
        outliers = _find_cluster(series[:last], kept[:last], place)
        if not outliers.any():
            return place, p
        kept[:last] &= ~outliers
    return None


_EQUAL = 1e-12
"""Differences of so small a part of the values are those of rounding."""


def _find_p(factor: float, n: int) -> float:
    """Return how often a series of so many points without a change has one of at least this
    logarithm of the Bayes factor, by those that were made up: at most as often as the factor's
    reciprocal, times a constant. Lengths for which the weights were not chosen need more."""
    longer = math.log(n / _WEIGHED)
    more = _LONGER * longer if longer > 0 else _SHORTER * -longer
    return min(1.0, math.exp(_AT_ONE + more - factor))


_AT_ONE = math.log(0.015) + 1.22
"""The logarithm of p at a Bayes factor of one: 1.5 % have a logarithm of 1.22."""
_WEIGHED = 60
"""Points of the series for which the weights were chosen."""
_SHORTER, _LONGER = 1.0, 0.5


def _weigh_change(series: Any, kept: Any) -> tuple[int, int, float]:
    """Return the place of a likely change, where the next one is or the series ends, and the
    logarithm of the Bayes factor of one change or two anywhere to none, or to a slow ramp."""
    import numpy as np

    n = len(series)
    at = np.flatnonzero(kept)
    noisy = Autoregression(series[at], at, _CORRELATIONS, _SIZE)
    steps, ramps = noisy.list_steps(), noisy.multiply(_draw_ramps(at, n))
    without = np.logaddexp(
        _mix(noisy.weigh_level(), _WITHOUT)[0],
        np.logaddexp.reduce(_mix(noisy.weigh(ramps), _WITH)) + math.log(_RAMPS / ramps.count),
    )
    begins, old = at[1:], at[:-1]  # of a new level the first point, of an old one the last
    places = np.flatnonzero((begins >= LEAST_POINTS) & (old < n - LEAST_POINTS))
    single = _mix(noisy.weigh(steps.take(places)), _WITH)
    factors = [np.logaddexp.reduce(single) - math.log(n)]
    place, last = int(begins[places[single.argmax()]]), n
    stride = math.ceil(len(places) / _PLACES)
    some = places[::stride]
    first, second = (some[each] for each in np.triu_indices(len(some), 1))
    apart = begins[second] - begins[first] >= _BETWEEN
    first, second = first[apart], second[apart]
    if len(first):
        double = _mix(noisy.weigh_both(steps.take(first), steps.take(second)), _WITH)
        factors.append(np.logaddexp.reduce(double) - math.log(len(first) / _TWO))
        if factors[1] > factors[0]:
            found, other = first[double.argmax()], second[double.argmax()]
            near = places[abs(places - found) < stride]
            pairs = noisy.weigh_both(steps.take(near), steps.take(np.full_like(near, other)))
            place, last = int(begins[near[_mix(pairs, _WITH).argmax()]]), int(begins[other])
    return place, last, float(np.logaddexp.reduce(factors) - without)


_BETWEEN = 5
"""Points of a level that comes back, which outliers are likelier to make than one at an end."""
_TWO = 0.2
"""How likely two changes are, relative to one: a level that goes up and comes back looks like noise
with a long memory if only one change is thought of."""
_PLACES = 60
"""Places at which two changes are looked for, which are refined afterwards."""
_RAMPS = 0.003
"""How likely a slow ramp is, relative to no change: a drift is not to be cut to steps."""
_KNOTS = 7


def _mix(likelihoods: Any, weights: Sequence[float]) -> Any:
    """Return the logarithms of likelihoods that are mixed over all correlations."""
    import numpy as np

    return np.logaddexp.reduce(likelihoods + np.log(weights)[:, None], axis=0)


def _draw_ramps(at: Any, n: int) -> Any:
    """Return ramps from 0 to 1 that take a third of so many points or more, at these points."""
    import numpy as np

    knots = np.linspace(0, n - 1, _KNOTS)
    begin, end = (knots[each] for each in np.triu_indices(_KNOTS, 2))
    return np.clip((at - begin[:, None]) / (end - begin)[:, None], 0.0, 1.0)


def _find_cluster(series: Any, kept: Any, place: int) -> Any:
    """Return which points of the shorter side of a change are outliers of the longer side's level,
    where that explains them about as well as a level of their own does."""
    import numpy as np

    after = np.arange(len(series)) >= place
    shorter = after if 2 * place > len(series) else ~after
    level = np.median(series[~shorter & kept])
    away = series - np.where(shorter, np.median(series[shorter & kept]), level)
    sigma = _OF_MAD * np.median(np.abs(away[kept]))
    if sigma == 0:
        return np.zeros_like(kept)
    side = series[shorter]
    own = np.append(side, np.median(side))
    costs = np.minimum(((side[None, :] - own[:, None]) / sigma) ** 2 / 2, _OUTLIER)
    cost = np.minimum(((side - level) / sigma) ** 2 / 2, _OUTLIER).sum()
    if cost - costs.sum(axis=1).min() >= _CLEARLY:
        return np.zeros_like(kept)
    return shorter & kept & (np.abs(series - level) > _CUT * sigma)


_OUTLIER = 5.0
"""What the likeliest outlier costs, as a logarithm of its likelihood: about one point in 50 is one,
anywhere within ten standard deviations."""
_CLEARLY = 6.0
"""More than one outlier costs: a point of a level of three may be one."""


def cut_outliers(series: Any) -> Any:
    """Return a series with each point cut down to ``_CUT`` standard deviations beyond the levels
    before and after it: a point of a new level is near one of them."""
    import numpy as np

    if len(series) < 2 * _NEIGHBOURS:
        return series
    before = _find_levels_before(series)
    after = _find_levels_before(series[::-1])[::-1]
    low, high = np.minimum(before, after), np.maximum(before, after)
    away = series - (before + after) / 2
    reach = _CUT * _OF_MAD * np.median(np.abs(away - np.median(away)))
    return np.clip(series, low - reach, high + reach)


def _find_levels_before(series: Any) -> Any:
    """Return the median of the three points before each point. Of the first three, it is the one of
    them that is nearest to the median of the next three: if these are outliers, it is no level."""
    import numpy as np

    n = _NEIGHBOURS
    windows = np.lib.stride_tricks.sliding_window_view(series, n)
    a, b, c = windows[:, 0], windows[:, 1], windows[:, 2]
    medians = np.maximum(np.minimum(a, b), np.minimum(np.maximum(a, b), c))
    edge = series[:n][np.abs(series[:n] - medians[n]).argmin()]
    return np.concatenate([np.repeat(edge, n), medians[:-1]])
