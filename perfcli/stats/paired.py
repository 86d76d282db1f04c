"""Pairs the times of both sides by round: the ratio head/base with an interval.

Each round times both sides one right after the other, in the order of a fair coin. Whatever slows
the machine, and however it hangs together in time, the coin decides which side it hits: the log
ratios are symmetric about the true one, and their signs are independent. That is all that the
Hodges–Lehmann estimate and the signed-rank interval ask for; no distribution is assumed.

Both are order statistics of the Walsh averages, the means of all pairs of values (each with itself
too): the estimate is their median, and the interval ends at two of them (Hollander, Wolfe, Chicken,
*Nonparametric Statistical Methods*, 3rd edition, sections 3.2, 3.3).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from perfcli.model import Turn


@dataclass(frozen=True, slots=True)
class Estimate:
    """``ratio`` is head over base; ``low`` and ``high`` hold it at the confidence asked for.
    None where it cannot be computed, and ``why``, in a clause."""

    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    rounds: int = 0
    why: str = ""

    @property
    def half_width(self) -> float | None:
        """Return half the interval's width, relative: half the difference of the logarithms of its
        ends."""
        if self.low is None or self.high is None:
            return None
        return (math.log(self.high) - math.log(self.low)) / 2


def _is_time(seconds: float) -> bool:
    """Return whether a clock that did not jump can have given this."""
    return math.isfinite(seconds) and seconds > 0


def _turn_value(turn: Turn, *, wall: bool = False) -> float | None:
    """Return median seconds of a turn's steps, of the calm ones if there are any, or None where
    there are none at all or the clock jumped."""
    values = turn.wall if wall else turn.seconds
    if not values or not all(_is_time(value) for value in values):
        return None
    return statistics.median(values if wall else turn.calm or values)


def _launches_value(turn: Turn) -> float | None:
    """Return the seconds that all launches of a step take on the device, or on the devices of a
    process group, the median over the steps of a profiled turn; None where there are none, or the
    clock jumped."""
    sums = turn.busy or [sum(launches) for launches in turn.launches if launches]
    return statistics.median(sums) if sums and all(map(_is_time, sums)) else None


def _log_ratios(base: Sequence[float], head: Sequence[float]) -> list[float]:
    """log(head / base) of each round. Raises ValueError for unlike lengths."""
    return [math.log(h) - math.log(b) for b, h in zip(base, head, strict=True)]


def compare(base: Sequence[float], head: Sequence[float], confidence: float = 0.95) -> Estimate:
    """Return the ratio head/base from seconds per round, in the same order on both sides.

    Hodges–Lehmann estimate of the log ratios, interval between the Walsh averages that the
    signed-rank distribution names (Hollander, Wolfe, Chicken, 3.2 and 3.3): counted up to
    ``EXACT_UP_TO`` rounds, normal above.
    """
    if not all(_is_time(value) for values in (base, head) for value in values):
        return Estimate(rounds=len(base), why="a time is not a positive number")
    return estimate_logs(_log_ratios(base, head), confidence)


def estimate_logs(logs: Sequence[float], confidence: float = 0.95) -> Estimate:
    """Estimate as ``compare``, from log ratios."""
    n = len(logs)
    if n == 0:
        return Estimate(why="no round was measured")
    ratio = math.exp(_location(logs))
    rank = _interval_rank(n, confidence)
    if rank is None:
        few = f"{n} {'round is' if n == 1 else 'rounds are'} too few"
        return Estimate(ratio, rounds=n, why=f"{few} for {confidence * 100:g} %")
    if min(logs) == max(logs):
        return Estimate(ratio, rounds=n, why="every round gave the same ratio to the last digit")
    last = n * (n + 1) // 2 - 1
    low, high = _order_statistics(logs, (rank, last - rank))
    return Estimate(ratio, math.exp(low), math.exp(high), n)


def _location(logs: Sequence[float]) -> float:
    """Return the Hodges–Lehmann estimate: the median of the means of all pairs of values."""
    return sum(_order_statistics(logs, _middle_ranks(len(logs)))) / 2


def _p_value(logs: Sequence[float]) -> float | None:
    """Return the two-sided p value of the signed-rank test that the ratio is 1
    (``scipy.stats.wilcoxon``: exact up to 50 rounds without ties). None where there are no rounds,
    or none differs from 1."""
    if not any(logs):
        return None
    from scipy.stats import wilcoxon

    return float(wilcoxon(logs).pvalue)


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


# --- Walsh averages -------------------------------------------------------------------------

EXACT_UP_TO = 100
"""Rounds up to which the null distribution is counted; above, the normal approximation is off by
less than one part in a thousand of the tail."""
LISTED_UP_TO = 64
"""Values up to which all averages are listed; above, they are narrowed down by counting."""


def _order_statistics(values: Sequence[float], ranks: Sequence[int]) -> list[float]:
    """Return the Walsh averages of the given ranks, from 0 (the smallest) on.

    Above ``LISTED_UP_TO`` values, a bisection counts the averages below a bound, which takes
    n log n, until few are left to be sorted: 2000 values have two million averages.
    """
    import numpy as np

    x = np.sort(np.asarray(values, dtype=float))
    if len(x) <= LISTED_UP_TO:
        first, second = np.triu_indices(len(x))
        averages = np.sort(x[first] + x[second]) / 2
        return [float(averages[rank]) for rank in ranks]
    found = {rank: _select(x, rank) for rank in set(ranks)}
    return [found[rank] for rank in ranks]


def _select(x: Any, rank: int) -> float:
    """Return the average of this rank; ``x`` is sorted. Sums are compared, and halved at the
    end."""
    import numpy as np

    own = np.arange(len(x))

    def partners(bound: float) -> Any:
        """For each value the index past its last partner (itself or later) with a sum ≤ bound."""
        return np.maximum(np.searchsorted(x, bound - x, side="right"), own)

    low, high = float(2 * x[0]) - 1.0, float(2 * x[-1])
    below, upto = own, np.full(len(x), len(x))
    while (upto - below).sum() > 4 * len(x):
        middle = (low + high) / 2
        if not low < middle < high:
            return high / 2
        ends = partners(middle)
        if (ends - own).sum() > rank:
            high, upto = middle, ends
        else:
            low, below = middle, ends
    sizes = upto - below
    starts = np.cumsum(sizes) - sizes
    first = np.repeat(own, sizes)
    second = np.arange(int(sizes.sum())) - np.repeat(starts - below, sizes)
    left = rank - int((below - own).sum())
    return float(np.partition(x[first] + x[second], left)[left]) / 2


def _middle_ranks(n: int) -> tuple[int, int]:
    """Return ranks of the one or two averages in the middle of n values' averages."""
    count = n * (n + 1) // 2
    return (count - 1) // 2, count // 2


@lru_cache(maxsize=512)
def _interval_rank(n: int, confidence: float) -> int | None:
    """Return rank of the average at which the interval begins (it ends at the mirrored one), or
    None where n values cannot give this confidence."""
    tail = (1 - confidence) / 2
    if n > EXACT_UP_TO:
        from scipy.special import ndtri

        spread = (n * (n + 1) * (2 * n + 1) / 24) ** 0.5
        return int(n * (n + 1) / 4 + float(ndtri(tail)) * spread)
    total, rank = 0.0, 0
    for probability in _signed_rank(n):
        total += probability
        if total > tail:
            break
        rank += 1
    return rank - 1 if rank else None


@lru_cache(maxsize=128)
def _signed_rank(n: int) -> tuple[float, ...]:
    """P(W = w) for w = 0 … n(n+1)/2 where every sign is a fair coin."""
    import numpy as np

    chances = np.ones(1)
    for rank in range(1, n + 1):
        longer = np.zeros(len(chances) + rank)
        longer[: len(chances)] += chances / 2
        longer[rank:] += chances / 2
        chances = longer
    return tuple(float(c) for c in chances)


def share_of(value: float | None, whole: float | None) -> float | None:
    """Return the part of the whole, or None where either is not known."""
    return None if value is None or not whole else value / whole
