"""Order statistics of Walsh averages, the means of all pairs of values (each with itself too).

Their median is the Hodges–Lehmann estimate; the signed-rank interval ends at two of them
(Hollander, Wolfe, Chicken, *Nonparametric Statistical Methods*, 3rd edition, sections 3.2, 3.3).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

EXACT_UP_TO = 100
"""Rounds up to which the null distribution is counted; above, the normal approximation is off by
less than one part in a thousand of the tail."""
LISTED_UP_TO = 64
"""Values up to which all averages are listed; above, they are narrowed down by counting."""


def order_statistics(values: Sequence[float], ranks: Sequence[int]) -> list[float]:
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


def middle_ranks(n: int) -> tuple[int, int]:
    """Return ranks of the one or two averages in the middle of n values' averages."""
    count = n * (n + 1) // 2
    return (count - 1) // 2, count // 2


@lru_cache(maxsize=512)
def interval_rank(n: int, confidence: float) -> int | None:
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
