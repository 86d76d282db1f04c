"""Estimates from rounds of several pairs of processes: what differs between processes belongs to
the interval.

Rounds of one pair share the layout of memory that their processes happened to get; a thousand of
them are one sample of it. So with several pairs each pair gives one Hodges–Lehmann estimate, and
the interval is over pairs alone (Kalibera and Jones, *Rigorous benchmarking in reasonable time*,
ISMM 2013, section 9: with equal numbers of rounds, the means of the highest level carry all that
the levels below add to the variance):

* up to 7 pairs: mean ± t(pairs − 1) · s / √pairs. With 2 pairs that is 12.7 · s / √2 at 95 %: wide,
  and right;
* from 8 pairs on: the signed-rank interval of the pairs' estimates, which a pair that went astray
  does not widen; 8 is the least number that reaches 99 %.

With one pair the interval says what *these two processes* differ by, and the floor has to cover
the rest. It is over rounds where they are few. From 64 on they are taken as 8 stretches of time:
what one process has and the other has not also changes while they live (on a shared machine by 1 to
4 % within seconds), and the rounds of such a while are no independent samples. Each stretch gives
one estimate, and the interval is the signed-rank one of these eight (96.1 % where 95 % is asked
for, 99.2 % for 99 %: ranks come in steps), whatever their distribution: in bursts of load some are
far more uncertain than others, and ± t(7) · s / √8, as of batch means, was too wide by then. The
ratio is that of all rounds. ``bench/coverage.py`` simulates all of these.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise

from perfcli.stats import paired
from perfcli.stats.paired import Estimate
from perfcli.stats.series import Series

RANKS_FROM = 8
STRETCHES, STRETCHES_FROM = 8, 64


def estimate(series: Series, confidence: float = 0.95) -> Estimate:
    """Return the ratio head/base with its interval; ``rounds`` are those of all pairs."""
    logs = series.logs
    pairs = _estimate_pairs(logs, series.processes)
    if len(pairs) <= 1:
        return estimate_one_pair(logs, confidence)
    if len(pairs) >= RANKS_FROM:
        found = paired.estimate_logs(pairs, confidence)
        return Estimate(found.ratio, found.low, found.high, len(logs), found.why)
    return _student(pairs, len(logs), confidence)


def estimate_one_pair(logs: Sequence[float], confidence: float = 0.95) -> Estimate:
    """Estimate from the log ratios of one pair of processes, in the order of time."""
    if len(logs) < STRETCHES_FROM:
        return paired.estimate_logs(logs, confidence)
    ratio, found = (
        math.exp(paired.location(logs)),
        paired.estimate_logs(_stretches(logs), confidence),
    )
    if found.low is None or found.high is None:
        return Estimate(ratio, rounds=len(logs), why="every part gave the same ratio")
    return Estimate(ratio, min(found.low, ratio), max(found.high, ratio), len(logs))


def _stretches(logs: Sequence[float]) -> list[float]:
    """Return the Hodges–Lehmann estimate of each of 8 stretches of about as many rounds."""
    ends = [round(i * len(logs) / STRETCHES) for i in range(STRETCHES + 1)]
    return [paired.location(logs[a:b]) for a, b in pairwise(ends)]


def _estimate_pairs(logs: Sequence[float], processes: Sequence[int]) -> list[float]:
    """Return the Hodges–Lehmann estimate of each pair of processes, as log ratios."""
    parts: dict[int, list[float]] = defaultdict(list)
    for value, process in zip(logs, processes, strict=True):
        parts[process].append(value)
    return [paired.location(part) for part in parts.values()]


def p_value(series: Series) -> float | None:
    """Return the two-sided p value that the ratio is 1, by the test that belongs to the interval;
    for stretches by Student's t: ranks of eight say 0.8 % at best, too much for the best of a
    hundred kernels."""
    logs = series.logs
    pairs = _estimate_pairs(logs, series.processes)
    if len(pairs) <= 1 and len(logs) < STRETCHES_FROM:
        return paired.p_value(logs)
    if len(pairs) <= 1:
        pairs = _stretches(logs)
        return _t_test(pairs)
    if len(pairs) >= RANKS_FROM:
        return paired.p_value(pairs)
    return _t_test(pairs)


def _t_test(values: Sequence[float]) -> float | None:
    if min(values) == max(values):
        return None
    from scipy.stats import ttest_1samp

    return float(ttest_1samp(values, 0.0).pvalue)


def _student(pairs: Sequence[float], rounds: int, confidence: float) -> Estimate:
    import numpy as np
    from scipy.special import stdtrit

    mean, spread = float(np.mean(pairs)), float(np.std(pairs, ddof=1))
    if spread == 0:
        return Estimate(math.exp(mean), rounds=rounds, why="every part gave the same ratio")
    width = float(stdtrit(len(pairs) - 1, (1 + confidence) / 2)) * spread / math.sqrt(len(pairs))
    if width > 50:
        return Estimate(math.exp(mean), rounds=rounds, why="the pairs of processes do not agree")
    return Estimate(math.exp(mean), math.exp(mean - width), math.exp(mean + width), rounds)
