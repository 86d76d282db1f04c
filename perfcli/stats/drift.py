"""Says whether the level at a series' end is another one than at its best time before, whatever way
it took: steps too small to be seen one by one add up.

The noise is that of ``change_points``: a first-order autoregression, whose correlation makes means
less sure. It is estimated around a ramp between two levels, which a step and a slow drift both are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from perfcli.stats.change_points import FEWEST, cut_outliers, find_shifts

_LEAST, _MOST = 3, 10
"""Points of a level that are averaged."""


@dataclass(frozen=True, slots=True)
class Drift:
    """Holds the change from the best level of a series to its end, in the unit of the values."""

    size: float | None = None
    low: float | None = None
    high: float | None = None
    """Its 95 % interval."""
    surely_low: float | None = None
    surely_high: float | None = None
    """Its 99 % interval."""
    begins: int = 0
    ends: int = 0
    """The points between which the ramp lies that fits best: neighbours where it is one step."""
    reference: int = 0
    """The first point of the best level."""
    why: str = ""
    """Why it is not known, in a clause."""


def measure_drift(values: Sequence[float]) -> Drift:
    """Return the change from the lowest level that the series had to its last points."""
    import numpy as np
    from scipy.special import stdtrit

    n = len(values)
    if n < FEWEST:
        return Drift(why=f"{n} points are too few, {FEWEST} are needed")
    series = cut_outliers(np.asarray(values, dtype=float))
    shifts = find_shifts(values)
    edges = [0, *(shift.index for shift in shifts), n]
    means = [float(series[a:b].mean()) for a, b in pairwise(edges)]
    lowest = int(np.argmin(means))
    rest = series[edges[lowest] :]
    size = _LEAST if len(rest) < 2 * _LEAST else min(max(len(rest) // 6, _LEAST), _MOST)
    if len(rest) < 2 * size:  # the best level is the last one
        return Drift(0.0, 0.0, 0.0, 0.0, 0.0, n - 1, n - 1, edges[lowest])
    change = float(rest[-size:].mean() - rest[:size].mean())
    begins, ends, residuals = _fit_ramp(rest)
    error = math.sqrt(2) * _error_of_mean(residuals, size)
    free = max(len(rest) - 4, 1)
    half, surely = (float(stdtrit(free, p)) * error for p in (0.975, 0.995))
    return Drift(
        change,
        change - half,
        change + half,
        change - surely,
        change + surely,
        edges[lowest] + begins,
        edges[lowest] + ends,
        edges[lowest],
    )


def _fit_ramp(series: Any) -> tuple[int, int, Any]:
    """Return the ramp between two levels that fits best: its last point before, its first point
    after, and what is left."""
    import numpy as np

    n = len(series)
    index = np.arange(n)
    stride = max(1, n // 60)
    knots = range(1, n - 1, stride)
    best: tuple[float, int, int, Any] | None = None
    for begins in range(0, n - 1, stride):
        ends = [begins + 1, *(k for k in knots if k > begins + 1)]
        widths = np.asarray(ends) - begins
        ramps = np.clip((index[None, :] - begins) / widths[:, None], 0.0, 1.0)
        away = ramps - ramps.mean(axis=1, keepdims=True)
        centred = series - series.mean()
        power = (away**2).sum(axis=1)
        gain = (away @ centred) ** 2 / np.maximum(power, 1e-300)
        most = int(gain.argmax())
        if best is None or gain[most] > best[0] * (1 + 1e-9):
            slope = (away[most] @ centred) / max(power[most], 1e-300)
            best = (float(gain[most]), begins, ends[most], centred - slope * away[most])
    assert best is not None
    return best[1], best[2], best[3]


def _error_of_mean(residuals: Any, size: int) -> float:
    """Return the standard error of a mean of so many neighbours."""
    n = len(residuals)
    power = float((residuals**2).sum())
    if power == 0:
        return 0.0
    raw = float((residuals[1:] * residuals[:-1]).sum()) / power
    rho = min(max((raw + 2 / n) / (1 - 5 / n), 0.0), 0.9) if n > 5 else 0.5
    variance = power / max(n - 4, 1)
    shared = 1 + 2 * sum((1 - k / size) * rho**k for k in range(1, size))
    return math.sqrt(variance * shared / size)
