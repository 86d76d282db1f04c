"""Holds rounds as two columns of seconds, with the pair of processes that each round came from, and
estimates their ratio: what differs between processes belongs to the interval.

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

Where the sides exchange two devices half-way, the log ratio is L + d in the first half and L − d in
the second, if one device takes exp(d) times as long as the other. So the n-th rounds of both halves
are one: the geometric means of their times have the log ratio L, whatever d is, and the interval is
that of these.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from perfcli.model import Round, RoundKind
from perfcli.stats import paired
from perfcli.stats.paired import Estimate


@dataclass(frozen=True, slots=True)
class RoundSeconds:
    """One value per round and side, seconds; ``dropped`` rounds had a clock that jumped."""

    base: tuple[float, ...]
    head: tuple[float, ...]
    processes: tuple[int, ...]
    dropped: int = 0
    numbers: tuple[int, ...] = ()
    """Of the rounds; empty where nothing but their order is known."""

    @property
    def logs(self) -> list[float]:
        return paired._log_ratios(self.base, self.head)


CALM_ROUNDS = 20
CALM_SHARE = 0.25


def _calm_rounds(rounds: Sequence[Round]) -> Sequence[Round]:
    """Return the rounds in which each side had a step that nothing interrupted, if they are enough:
    at least 20 and a quarter. Whether a step is interrupted is decided by what else runs, for both
    sides alike."""
    found = [r for r in rounds if r.base.calm and r.head.calm]
    return found if len(found) >= max(CALM_ROUNDS, CALM_SHARE * len(rounds)) else rounds


def step_series(rounds: Iterable[Round], *, wall: bool = False) -> RoundSeconds:
    """Return the calm rounds of kind ``step``: a turn's value is the median of its steps."""
    return join(
        _calm_rounds([r for r in rounds if r.kind == "step"]),
        lambda r: paired._turn_value(r.base, wall=wall),
        lambda r: paired._turn_value(r.head, wall=wall),
    )


def clock_series(rounds: Iterable[Round], kind: RoundKind) -> RoundSeconds:
    """Return what one clock says: of rounds of kind ``kernels`` what all launches of a step take
    together, of the other kinds the median of a turn's steps."""
    if kind == "step":
        return step_series(rounds)
    value = paired._launches_value if kind == "kernels" else paired._turn_value
    ours = [r for r in rounds if r.kind == kind]
    return join(ours, lambda r: value(r.base), lambda r: value(r.head))


def waiting_shares(steps: RoundSeconds, busy: RoundSeconds) -> list[float]:
    """Return for each side the share of its step in which the device waits for the host; ``busy``:
    how long it is busy. Empty where one of them is not known."""
    if not steps.base or not busy.base:
        return []
    sides = ((busy.base, steps.base), (busy.head, steps.head))
    return [1 - statistics.median(own) / statistics.median(whole) for own, whole in sides]


def join(
    rounds: Iterable[Round],
    base: Callable[[Round], float | None],
    head: Callable[[Round], float | None],
) -> RoundSeconds:
    """Return one value of each side, of rounds of one kind; rounds where either is None are dropped
    and counted. Two rounds that match across an exchange of devices are one, that of the first."""
    kept: list[tuple[float, float, int, int]] = []
    dropped = 0
    for matching in _match_halves(list(rounds)):
        left, right = _combine(map(base, matching)), _combine(map(head, matching))
        if left is None or right is None:
            dropped += 1
        else:
            kept.append((left, right, matching[0].process, matching[0].number))
    columns = zip(*kept, strict=True) if kept else ((), (), (), ())
    left_column, right_column, processes, numbers = columns
    return RoundSeconds(left_column, right_column, processes, dropped, numbers)


def _match_halves(rounds: Sequence[Round]) -> Iterable[tuple[Round, ...]]:
    """Return each round alone, or with the one that has its place after the exchange of devices;
    one without such a partner is left out."""
    halves = [[r for r in rounds if r.half == half] for half in (1, 2)]
    return zip(*halves, strict=False) if any(halves) else ((r,) for r in rounds)


def _combine(values: Iterable[float | None]) -> float | None:
    """Return the geometric mean of one or two values; None where one is not known."""
    first, *others = values
    if first is None or None in others:
        return None
    return math.sqrt(first * others[0]) if others and others[0] else first


def device_ratio(rounds: Iterable[Round], kind: RoundKind) -> float | None:
    """Return how many times as long the head's first device takes as the base's first; None where
    they were not exchanged. That is exp(d): half the difference of both halves' log ratios."""
    made = list(rounds)
    logs = [
        clock_series([replace(r, half=0) for r in made if r.half == half], kind).logs
        for half in (1, 2)
    ]
    if not all(logs):
        return None
    return math.exp((paired._location(logs[0]) - paired._location(logs[1])) / 2)


def _align(several: Sequence[RoundSeconds]) -> list[RoundSeconds]:
    """Return each series reduced to the rounds that all of them have; as they are where rounds have
    no numbers and all have as many. Those without any value are left out."""
    filled = [each for each in several if each.base]
    if not all(each.numbers for each in filled):
        return filled if len({each.processes for each in filled}) == 1 else []
    shared = set.intersection(*(set(each.numbers) for each in filled)) if filled else set()
    return [_keep_only(each, shared) for each in filled] if shared else []


def _keep_only(whole: RoundSeconds, numbers: Container[int]) -> RoundSeconds:
    places = [place for place, number in enumerate(whole.numbers) if number in numbers]
    return RoundSeconds(
        tuple(whole.base[p] for p in places),
        tuple(whole.head[p] for p in places),
        tuple(whole.processes[p] for p in places),
        whole.dropped,
        tuple(whole.numbers[p] for p in places),
    )


def seconds_spent(rounds: Iterable[Round]) -> float:
    """Return the seconds until the last round was through."""
    return max((r.at + r.took for r in rounds), default=0.0)


RANKS_FROM = 8
STRETCHES, STRETCHES_FROM = 8, 64


def estimate(series: RoundSeconds, confidence: float = 0.95) -> Estimate:
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
        math.exp(paired._location(logs)),
        paired.estimate_logs(_stretches(logs), confidence),
    )
    if found.low is None or found.high is None:
        return Estimate(ratio, rounds=len(logs), why="every part gave the same ratio")
    return Estimate(ratio, min(found.low, ratio), max(found.high, ratio), len(logs))


def _stretches(logs: Sequence[float]) -> list[float]:
    """Return the Hodges–Lehmann estimate of each of 8 stretches of about as many rounds."""
    ends = [round(i * len(logs) / STRETCHES) for i in range(STRETCHES + 1)]
    return [paired._location(logs[a:b]) for a, b in pairwise(ends)]


def _estimate_pairs(logs: Sequence[float], processes: Sequence[int]) -> list[float]:
    """Return the Hodges–Lehmann estimate of each pair of processes, as log ratios."""
    parts: dict[int, list[float]] = defaultdict(list)
    for value, process in zip(logs, processes, strict=True):
        parts[process].append(value)
    return [paired._location(part) for part in parts.values()]


def _p_value(series: RoundSeconds) -> float | None:
    """Return the two-sided p value that the ratio is 1, by the test that belongs to the interval;
    for stretches by Student's t: ranks of eight say 0.8 % at best, too much for the best of a
    hundred kernels."""
    logs = series.logs
    pairs = _estimate_pairs(logs, series.processes)
    if len(pairs) <= 1 and len(logs) < STRETCHES_FROM:
        return paired._p_value(logs)
    if len(pairs) <= 1:
        pairs = _stretches(logs)
        return _t_test(pairs)
    if len(pairs) >= RANKS_FROM:
        return paired._p_value(pairs)
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
