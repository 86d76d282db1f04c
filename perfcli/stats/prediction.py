"""How far the next pair of identical variants may go astray, from the few pairs that were seen.

Estimates of pairs of identical variants scatter about a ratio of 1, which is known, so the spread
of their logarithms d is their root mean square, with as many degrees of freedom as there are pairs.
The next one over that is Student's t: |d_next| stays below t(pairs, (1 + confidence)/2) · RMS with
this confidence, the uncertainty of the spread included (prediction interval of one future value of
a normal distribution: Hahn and Meeker, *Statistical Intervals*, 1991, 4.3 and 4.8, here with the
mean known, which saves a degree of freedom and the factor √(1 + 1/pairs)).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

CONFIDENCE = 0.99
LEAST_PAIRS = 2
"""One pair would give 64 times its own difference."""


def factor(pairs: int, confidence: float = CONFIDENCE) -> float:
    """By how much the root mean square is multiplied: 5.84 for 3 pairs, 3.17 for 10."""
    from scipy.special import stdtrit

    return float(stdtrit(pairs, (1 + confidence) / 2))


def bound(ratios: Sequence[float], confidence: float = CONFIDENCE) -> float | None:
    """The relative difference (0.01: one percent) that the next pair stays below. ``ratios`` are
    head over base of identical variants, one per fresh pair of processes.

    None where there are fewer than ``LEAST_PAIRS``, or a ratio is not a positive number.
    """
    if len(ratios) < LEAST_PAIRS or not all(math.isfinite(r) and r > 0 for r in ratios):
        return None
    spread = math.sqrt(math.fsum(math.log(r) ** 2 for r in ratios) / len(ratios))
    return math.expm1(min(factor(len(ratios), confidence) * spread, 700.0))
