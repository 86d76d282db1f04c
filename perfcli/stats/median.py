"""The median of values of one side, with an interval that assumes nothing but that they are
independent: both ends are values, chosen by the binomial distribution of the sign test (Hollander,
Wolfe, Chicken, *Nonparametric Statistical Methods*, 3rd edition, section 3.6)."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Median:
    value: float
    low: float | None = None
    high: float | None = None
    """None where there are too few values for the confidence asked for."""


def median(values: Sequence[float], confidence: float = 0.95) -> Median | None:
    """None of no values."""
    if not values:
        return None
    ordered = sorted(values)
    rank = _rank(len(ordered), (1 - confidence) / 2)
    middle = statistics.median(ordered)
    if rank == 0:
        return Median(middle)
    return Median(middle, ordered[rank - 1], ordered[-rank])


def _rank(n: int, tail: float) -> int:
    """Return the most values that may be left out on each side, plus one: the largest k with
    P(Binomial(n, ½) < k) ≤ tail, or 0 where even the extremes are not enough."""
    rank, below = 0, 0.0
    while rank < n // 2:
        below += math.comb(n, rank) / 2.0**n
        if below > tail:
            break
        rank += 1
    return rank
