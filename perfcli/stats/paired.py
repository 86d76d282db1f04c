"""Pairs the times of both sides by round: the ratio head/base with an interval.

Each round times both sides one right after the other, in the order of a fair coin. Whatever slows
the machine, and however it hangs together in time, the coin decides which side it hits: the log
ratios are symmetric about the true one, and their signs are independent. That is all that the
Hodges–Lehmann estimate and the signed-rank interval ask for; no distribution is assumed.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from perfcli.model import Turn
from perfcli.stats import walsh


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


def is_time(seconds: float) -> bool:
    """Return whether a clock that did not jump can have given this."""
    return math.isfinite(seconds) and seconds > 0


def turn_value(turn: Turn, *, wall: bool = False) -> float | None:
    """Return median seconds of a turn's steps, of the calm ones if there are any, or None where
    there are none at all or the clock jumped."""
    values = turn.wall if wall else turn.seconds
    if not values or not all(is_time(value) for value in values):
        return None
    return statistics.median(values if wall else turn.calm or values)


def log_ratios(base: Sequence[float], head: Sequence[float]) -> list[float]:
    """log(head / base) of each round.

    Raises:
        ValueError: unlike lengths.
    """
    return [math.log(h) - math.log(b) for b, h in zip(base, head, strict=True)]


def compare(base: Sequence[float], head: Sequence[float], confidence: float = 0.95) -> Estimate:
    """Return the ratio head/base from seconds per round, in the same order on both sides.

    Hodges–Lehmann estimate of the log ratios, interval between the Walsh averages that the
    signed-rank distribution names (Hollander, Wolfe, Chicken, 3.2 and 3.3): counted up to
    ``walsh.EXACT_UP_TO`` rounds, normal above.
    """
    if not all(is_time(value) for values in (base, head) for value in values):
        return Estimate(rounds=len(base), why="a time is not a positive number")
    return estimate_logs(log_ratios(base, head), confidence)


def estimate_logs(logs: Sequence[float], confidence: float = 0.95) -> Estimate:
    """Estimate as ``compare``, from log ratios."""
    n = len(logs)
    if n == 0:
        return Estimate(why="no round was measured")
    ratio = math.exp(location(logs))
    rank = walsh.interval_rank(n, confidence)
    if rank is None:
        few = f"{n} {'round is' if n == 1 else 'rounds are'} too few"
        return Estimate(ratio, rounds=n, why=f"{few} for {confidence * 100:g} %")
    if min(logs) == max(logs):
        return Estimate(ratio, rounds=n, why="every round gave the same ratio to the last digit")
    last = n * (n + 1) // 2 - 1
    low, high = walsh.order_statistics(logs, (rank, last - rank))
    return Estimate(ratio, math.exp(low), math.exp(high), n)


def location(logs: Sequence[float]) -> float:
    """Return the Hodges–Lehmann estimate: the median of the means of all pairs of values."""
    return sum(walsh.order_statistics(logs, walsh.middle_ranks(len(logs)))) / 2


def p_value(logs: Sequence[float]) -> float | None:
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
