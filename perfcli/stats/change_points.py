"""Finds where the level of a series changed, in noise that may have outliers and a memory.

Machines have good and bad days: the noise of a series of times is correlated, and a test that takes
it for independent calls every other such series changed. Here the noise is a first-order
autoregression, whose correlation is estimated beside the change, and a change counts only if it is
larger than nearly all of those that the same procedure finds in series without any, made up with
the correlation and the noise that were found in this one. Outliers are cut down to what their
neighbours on both sides make likely; a level that lasts for three points is none.

Sources: the likelihood ratio of a shift in autoregressive noise is that of generalised least
squares (Hamilton, *Time Series Analysis*, chapter 8); the bias of estimated correlations is that of
Marriott and Pope, *Biometrika* 41 (1954); the null distribution is a parametric bootstrap (Davison,
Hinkley, *Bootstrap Methods*, chapter 4); several changes are found by binary segmentation (Scott,
Knott, *Biometrics* 30, 1974).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

ALARM = 0.01
"""How often a series without a change has one nevertheless, at most."""
LEAST_POINTS = 3
"""Points on each side of a change: two of three in a row may be outliers."""
FEWEST = 8
"""Points that a series needs before its noise is known."""
_DRAWS = 499
_NEIGHBOURS = 3
_CUT = 2.5
"""Standard deviations beyond its neighbours at which an outlier is cut down."""
_MOST_CORRELATED = 0.95
_OF_MAD = 1.4826
"""A standard deviation over a median absolute deviation, of a normal distribution."""


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


def find_shifts(values: Sequence[float], alarm: float = ALARM, seed: int = 0) -> list[Shift]:
    """Return the changes of level, in order. The same series gives the same changes.

    ``values`` have noise that does not depend on the level: of times and ratios take logarithms.
    """
    import numpy as np

    series = np.asarray(values, dtype=float)
    random = np.random.default_rng(seed)
    if len(series) > _LONG:
        return _describe(series, _find_in_windows(series, alarm, random))
    places: dict[int, float] = {}
    todo = [(0, len(series))]
    while todo:
        first, last = todo.pop()
        found = _find_in_parts(series[first:last], alarm, random)
        if found is not None:
            place, p = first + found[0], found[1]
            places[place] = p
            todo += [(first, place), (place, last)]
    return _describe(series, places)


def _find_in_parts(series: Any, alarm: float, random: Any) -> tuple[int, float] | None:
    """Return the clearest change of a series, else of its first or last two thirds: a level that
    goes up and comes back looks like noise with a long memory, and each part has half of it. Parts
    have to be clearer, so that both together hardly add to the false alarms."""
    found = _find_one(series, alarm, random)
    third = len(series) // 3
    for first, last in ((0, len(series) - third), (third, len(series))):
        if found is None and third >= FEWEST:
            part = _find_one(series[first:last], alarm / 100, random)
            found = None if part is None else (first + part[0], part[1])
    return found


_LONG = 400
"""Points from which a series is searched in windows of so many, which overlap by half: what is not
seen in one is too small to matter, and the search takes as long as the series is."""
_SAME_PLACE = 10
"""Points within which two windows mean the same change."""


def _find_in_windows(series: Any, alarm: float, random: Any) -> dict[int, float]:
    """Return the changes of a long series, with their p values: small enough for so many windows
    together."""
    stride = _LONG // 2
    starts = [*range(0, len(series) - _LONG, stride), len(series) - _LONG]
    found: list[tuple[float, int]] = []
    todo = [(start, start + _LONG) for start in starts]
    while todo:
        first, last = todo.pop()
        one = _find_one(series[first:last], alarm / len(starts), random)
        if one is not None:
            place, p = first + one[0], one[1]
            found.append((p, place))
            todo += [(first, place), (place, last)]
    places: dict[int, float] = {}
    for p, place in sorted(found):
        if all(abs(place - known) > _SAME_PLACE for known in places):
            places[place] = p
    return places


def _describe(series: Any, places: dict[int, float]) -> list[Shift]:
    import numpy as np

    if not places:
        return []
    edges = [0, *sorted(places), len(series)]
    levels = [float(np.median(series[a:b])) for a, b in pairwise(edges)]
    return [
        Shift(place, before, after, places[place])
        for place, before, after in zip(edges[1:-1], levels, levels[1:], strict=False)
    ]


def _find_one(series: Any, alarm: float, random: Any) -> tuple[int, float] | None:
    """Return the clearest change of a series, and its p value; None where there is none."""
    n = len(series)
    if n < FEWEST or float(series.max() - series.min()) <= _EQUAL * float(abs(series).max()):
        return None
    scan = _scan(series[None, :])
    if not scan.largest[0] > _LEAST_CLEAR:
        return None
    if scan.residuals[0].std() <= 1e-9 * (series.max() - series.min()):  # there is no noise
        return int(scan.place[0]), 1 / (_DRAWS + 1)
    p = _find_p(_scan(_make_up(scan, n, random)).largest, float(scan.largest[0]), alarm)
    return (int(scan.place[0]), p) if p <= alarm else None


def _find_p(made_up: Any, clear: float, alarm: float) -> float:
    """Return how often a series without a change has one that is as clear. Where no count can be as
    small as the alarm that is asked for, the squares beyond the highest fifth are taken for
    exponential, as those of normal variables are."""
    import numpy as np

    counted = (int((made_up >= clear).sum()) + 1) / (_DRAWS + 1)
    if alarm * (_DRAWS + 1) >= 1:
        return counted
    squares = made_up**2
    bound = float(np.quantile(squares, 1 - _TAIL))
    scale = float((squares[squares > bound] - bound).mean())
    return counted if clear**2 <= bound else _TAIL * float(np.exp((bound - clear**2) / scale))


_TAIL = 0.2
_EQUAL = 1e-12
"""Differences of so small a part of the values are those of rounding."""
_LEAST_CLEAR = 2.8
"""Standard errors that a change needs at least: of 60 independent normal points without a change
one in five reaches it, so there is no need to look further below."""


@dataclass(frozen=True, slots=True)
class _Scan:
    """Holds the clearest change of each of some series: where, by how many standard errors, and
    with which noise."""

    place: Any
    largest: Any
    correlation: Any
    residuals: Any


def _make_up(scan: _Scan, n: int, random: Any) -> Any:
    """Return series without a change, with the noise of the first of a scan; its correlation is
    known no better than so many points tell, and differs from one to the next."""
    import numpy as np

    rho = float(scan.correlation[0])
    unsure = np.sqrt((1 - rho**2) / n)
    drawn = random.normal(rho * _CAUTION, unsure, _DRAWS)
    rhos = np.clip(drawn, 0.0, _MOST_CORRELATED)
    innovations = scan.residuals[0]
    noise = random.choice(innovations, size=(_DRAWS, n + _RUN_IN))
    noise += innovations.std() * _SMOOTHING * random.standard_normal(noise.shape)
    made = np.empty_like(noise)
    made[:, 0] = noise[:, 0] / np.sqrt(1 - rhos**2)
    for t in range(1, n + _RUN_IN):
        made[:, t] = rhos * made[:, t - 1] + noise[:, t]
    return made[:, _RUN_IN:]


_CAUTION = 1.2
"""Times the estimated correlation, which falls short where a change that is none is fitted."""
_RUN_IN = 30
_SMOOTHING = 0.2
"""Standard deviations by which drawn innovations vary, so that few points make many series."""


def _scan(series: Any) -> _Scan:
    """Return the clearest change of each row."""
    import numpy as np

    calm = cut_outliers(series)
    independent = np.zeros(len(calm))
    place = _fit(calm, independent)[0]
    for _ in range(2):
        correlation = _estimate_correlation(calm, place)
        place, statistic, residuals = _fit(calm, correlation)
    return _Scan(place, statistic, correlation, residuals)


def cut_outliers(series: Any) -> Any:
    """Return the rows with each point cut down to ``_CUT`` standard deviations beyond the levels
    before and after it: a point of a new level is near one of them."""
    import numpy as np

    before = _find_levels_before(series)
    after = _find_levels_before(series[:, ::-1])[:, ::-1]
    low, high = np.minimum(before, after), np.maximum(before, after)
    away = series - (before + after) / 2
    sigma = _OF_MAD * np.median(np.abs(away - np.median(away, axis=1, keepdims=True)), axis=1)
    reach = _CUT * sigma[:, None]
    return np.clip(series, low - reach, high + reach)


def _find_levels_before(series: Any) -> Any:
    """Return the median of the three points before each point. Of the first three, it is the one of
    them that is nearest to the median of the next three: if these are outliers, it is no level."""
    import numpy as np

    n = _NEIGHBOURS
    windows = np.lib.stride_tricks.sliding_window_view(series, n, axis=1)
    a, b, c = windows[..., 0], windows[..., 1], windows[..., 2]
    medians = np.maximum(np.minimum(a, b), np.minimum(np.maximum(a, b), c))
    away = np.abs(series[:, :n] - medians[:, n : n + 1])
    edge = np.take_along_axis(series[:, :n], away.argmin(1)[:, None], axis=1)
    return np.concatenate([np.repeat(edge, n, axis=1), medians[:, :-1]], axis=1)


def _estimate_correlation(calm: Any, place: Any) -> Any:
    """Return the first-order correlation of each row around its two levels, with its bias
    removed."""
    import numpy as np

    n = calm.shape[1]
    after = np.arange(n)[None, :] >= place[:, None]
    sizes = np.stack([n - place, place]).T
    sums = np.stack([np.where(after, calm, 0.0).sum(1), np.where(after, 0.0, calm).sum(1)]).T
    means = sums / sizes
    rest = calm - np.where(after, means[:, :1], means[:, 1:])
    power = (rest**2).sum(1)
    product = (rest[:, 1:] * rest[:, :-1]).sum(1)
    raw = np.divide(product, power, out=np.zeros_like(power), where=power > 0)
    # Each of two levels that were fitted takes (1 + rho) / n, and the ratio itself 2 rho / n.
    corrected = (raw + 2 / n) / (1 - 4 / n)
    return np.clip(corrected, 0.0, _MOST_CORRELATED)


def _fit(calm: Any, correlation: Any) -> tuple[Any, Any, Any]:
    """Return for each row the place of the clearest change, its size in standard errors, and the
    innovations that are left, by generalised least squares with the given correlation."""
    import numpy as np

    n = calm.shape[1]
    rho = correlation[:, None]
    start = np.sqrt(1 - rho**2)
    e = np.concatenate([start * calm[:, :1], calm[:, 1:] - rho * calm[:, :-1]], axis=1)
    one = np.concatenate([start, np.broadcast_to(1 - rho, (len(calm), n - 1))], axis=1)
    places = np.arange(LEAST_POINTS, n - LEAST_POINTS + 1)
    later = n - 1 - places
    # Of the step at k: 1 at k, and 1 - rho from there on.
    square = 1 + later * (1 - rho) ** 2
    cross = (1 - rho) + later * (1 - rho) ** 2
    total = (one * one).sum(1, keepdims=True)
    level = (one * e).sum(1, keepdims=True)
    tails = e[:, ::-1].cumsum(1)[:, ::-1]
    following = np.concatenate([tails, np.zeros((len(calm), 1))], axis=1)[:, places + 1]
    product = e[:, places] + (1 - rho) * following
    top = product - cross / total * level
    bottom = square - cross**2 / total
    gain = top**2 / bottom
    best = gain.argmax(1)
    rows = np.arange(len(calm))
    place, most = places[best], gain[rows, best]
    size = top[rows, best] / bottom[rows, best]
    left = ((e - level / total * one) ** 2).sum(1) - most
    variance = np.maximum(left, 0.0) / (n - 3)
    clear = np.sqrt(np.divide(most, variance, out=np.zeros_like(most), where=variance > 0))
    clear = np.where((variance <= 0) & (most > 0), np.inf, clear)
    return place, clear, _residuals(e, one, rho, place, size, total)


def _residuals(e: Any, one: Any, rho: Any, place: Any, size: Any, total: Any) -> Any:
    import numpy as np

    index = np.arange(e.shape[1])[None, :]
    step = np.where(index == place[:, None], 1.0, np.where(index > place[:, None], 1 - rho, 0.0))
    rest = e - size[:, None] * step
    return rest - (rest * one).sum(1, keepdims=True) / total * one
