"""Derives times from the traces of two sessions, which nobody interleaved.

Two things differ between them: the code, and everything else that two sessions differ by: clocks,
temperature, the power that other kernels leave, another GPU of the same kind, and what the profiler
costs the host. So an interval has to hold more than the steps of each trace can tell:

* what the steps tell is the interval of two independent samples: Hodges and Lehmann's shift of the
  logarithms with the rank-sum interval (Hollander, Wolfe, Chicken, *Nonparametric Statistical
  Methods*, 3rd edition, 4.2 and 4.3), and Welch's where there are too few steps for ranks. More
  than twelve steps are taken as twelve stretches of neighbours, which are no independent samples
  either;
* what the sessions may differ by is added, each end by itself. Kernels that look the same on both
  sides (name, grid, block, registers, shared memory) show it: it may be all that they changed by,
  or nothing. Gaps between kernels are the host's: all that they changed by may be the session's,
  or nothing. ``LEAST`` is added to both ends for what neither shows, ``ASSUMED`` where too few
  kernels look the same.

On an H200 (torch 2.11, a transformer's training step, 2026-11-23) three sessions of the same code
had steps of 12.0, 12.1 and 12.8 ms, of which kernels made 11.7, 11.8 and 11.6 ms: the rest were
gaps that the profiler made.

So where the device is idle for a small part of a step, the time in which it is busy decides, and
the time from step to step is held against it; else the time from step to step.

SLOWER and FASTER need the widened interval to exclude no change, SAME needs it within ``MARGIN``.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeVar

from perfcli.model import (
    Floor,
    GroupTiming,
    KernelGroup,
    Observed,
    ObservedWork,
    Run,
    TimeChange,
    Timing,
)
from perfcli.names import stem
from perfcli.stats.paired import share_of

METHOD = "two traces, each recorded in a session of its own"
ASSUMED = 0.03
"""What two sessions of one program on one kind of GPU differ by, where nothing shows it."""
LEAST = 0.01
"""What they differ by at least."""
MARGIN = 0.05
"""SAME asks for an interval within this."""
_START = 0.3e-6
"""Seconds that a launch's recorded time is uncertain by: launches of a microsecond take 0.86 in one
session and 1.02 in another."""
MOST_IDLE = 0.15
"""Where the device is idle for no longer than this part of a step, the time in which it is busy
decides: it waits for itself, and what gaps there are the profiler makes."""
LEAST_LOOKALIKES = 8
_STRETCHES = 12
T = TypeVar("T", bound=Hashable)
_SHOWN, _DECIDING = 0.95, 0.99


@dataclass(frozen=True, slots=True)
class _Part:
    """Holds the seconds per step of one group of kernels, or of what an operator launches."""

    group: int | None
    name: str
    base: tuple[float, ...]
    head: tuple[float, ...]
    launches: int
    alike: bool
    """Whether both sides look the same."""


def derive_traced(base: Run, head: Run, groups: Sequence[KernelGroup]) -> Timing | None:
    """Return the times of two runs that were each traced; None where one was not."""
    ours, theirs = base.observed, head.observed
    if ours is None or theirs is None or not ours.steps or not theirs.steps:
        return None
    parts = [*_time_groups(base, head, ours, theirs, groups), *_time_others(ours, theirs)]
    sessions = _compare_sessions(parts)
    coarse = max(ours.resolution, theirs.resolution) + _START
    changes = [_judge_part(part, sessions.of_kernel, coarse) for part in parts]
    total = _judge(_sum_works(ours), _sum_works(theirs), sessions.of_all)
    of_step = sessions.of_all.widen(*_compare_gaps(ours, theirs))
    period = _judge(ours.step_seconds, theirs.step_seconds, of_step)
    by_busy = _is_busy(ours) and _is_busy(theirs)
    step = period
    if by_busy:
        busy = _judge(ours.busy_seconds, theirs.busy_seconds, sessions.of_all)
        step = _hold_against(busy, period)
    allowed = sessions.of_all if by_busy else of_step
    told = step.verdict in ("slower", "faster")
    return Timing(
        step=step,
        floor=Floor(
            allowed.largest,
            sessions.source if by_busy else f"{sessions.source}, and gaps",
            sessions.of_kernel.largest,
            margin=MARGIN,
        ),
        wall=period if by_busy else None,
        kernels_total=None if by_busy and _are_alike(step, total) else total,
        groups=tuple(
            GroupTiming(
                part.group,
                part.name,
                change,
                share_of_step=share_of(change.base or change.head, total.base),
                share_of_change=share_of(_added(change), step.delta) if told else None,
            )
            for part, change in zip(parts, changes, strict=True)
        ),
        unexplained=None if by_busy else _subtract(step, changes),
        method=METHOD,
        joined=_count_joined(base, head),
        notes=tuple(_describe(ours, theirs)),
        traced="busy" if by_busy else "step",
    )


def _is_busy(observed: Observed) -> bool:
    """Return whether the device decides a step's time, and the gaps are the profiler's."""
    idle = observed.idle_share
    return idle is not None and idle <= MOST_IDLE


def _hold_against(busy: TimeChange, period: TimeChange) -> TimeChange:
    """Return the change of the time in which the device was busy, unsure where that from step to
    step says the contrary: a change of code can make gaps, too."""
    moved = period.ratio or 1.0
    contrary = (busy.verdict == "slower" and period.verdict == "faster") or (
        busy.verdict in ("same", "faster") and moved > 1 + MARGIN
    )
    if not contrary:
        return busy
    why = f"kernels say {busy.verdict}, but the time from step to step {_write_moved(moved)}"
    return replace(busy, verdict="unsure", why=f"{why}: gaps may be the profiler's, or the code's")


def _write_moved(ratio: float) -> str:
    return f"{'grew' if ratio > 1 else 'shrank'} by {abs(ratio - 1) * 100:.2g} %"


def _are_alike(busy: TimeChange, total: TimeChange) -> bool:
    """Return whether kernels ran one after the other, so that their sum says nothing more."""
    sides = ((busy.base, total.base), (busy.head, total.head))
    return all(a is not None and b is not None and abs(a / b - 1) < 0.01 for a, b in sides)


# --- what the sessions differ by ----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Allowance:
    """Holds what the session alone may have changed a time by: logarithms of head over base."""

    low: float
    high: float

    @property
    def largest(self) -> float:
        """Return the larger end, as a part."""
        return math.expm1(max(-self.low, self.high))

    def widen(self, low: float, high: float) -> _Allowance:
        """Return the same with so much more at each end."""
        return _Allowance(self.low + min(low, 0.0), self.high + max(high, 0.0))


@dataclass(frozen=True, slots=True)
class _Sessions:
    """Holds what two sessions may differ by, and where that is from."""

    of_all: _Allowance
    """In the sum of many kernels."""
    of_kernel: _Allowance
    """In a single one."""
    source: str


def _compare_sessions(parts: Sequence[_Part]) -> _Sessions:
    """Return what the kernels that look the same on both sides show."""
    timed = [p for p in parts if p.alike and _is_timed(p.base) and _is_timed(p.head)]
    if len(timed) < LEAST_LOOKALIKES:
        assumed = _Allowance(-math.log1p(ASSUMED), math.log1p(ASSUMED))
        return _Sessions(assumed, assumed, "assumed for traces of two sessions")
    logs = [_log_ratio(part) for part in timed]
    weights = [statistics.median(part.base) for part in timed]
    middles = (statistics.median(logs), _weigh_median(logs, weights))
    least = _Allowance(-math.log1p(LEAST), math.log1p(LEAST))
    tenths = statistics.quantiles(logs, n=10)
    return _Sessions(
        least.widen(min(middles), max(middles)),
        least.widen(tenths[0], tenths[-1]),
        f"{len(timed)} kernels that look the same on both sides",
    )


def _log_ratio(part: _Part) -> float:
    return math.log(statistics.median(part.head) / statistics.median(part.base))


def _weigh_median(values: Sequence[float], weights: Sequence[float]) -> float:
    """Return the value below which half of the weight lies."""
    left = sum(weights) / 2
    for value, weight in sorted(zip(values, weights, strict=True)):
        left -= weight
        if left <= 0:
            return value
    return 0.0


def _compare_gaps(ours: Observed, theirs: Observed) -> tuple[float, float]:
    """Return what the change of gaps alone changes the step by, as a logarithm; once for each
    end."""
    steps = [statistics.median(o.step_seconds) if o.step_seconds else 0.0 for o in (ours, theirs)]
    if not all(steps):
        return 0.0, 0.0
    gaps = [s * (o.idle_share or 0.0) for s, o in zip(steps, (ours, theirs), strict=True)]
    moved = math.log(max(steps[0] + gaps[1] - gaps[0], 0.01 * steps[0]) / steps[0])
    return moved, moved


def _is_timed(seconds: Sequence[float]) -> bool:
    return bool(seconds) and statistics.median(seconds) > 0


# --- parts of a step ----------------------------------------------------------------------------


def _time_groups(
    base: Run, head: Run, ours: Observed, theirs: Observed, groups: Sequence[KernelGroup]
) -> Iterator[_Part]:
    """Yield each group of kernels with its times."""
    sides = [{(w.graph, w.name): w for w in o.works if w.generated} for o in (ours, theirs)]
    for number, group in enumerate(groups):
        kernels = [
            [run.kernels[n] for n in indices]
            for run, indices in ((base, group.match.base), (head, group.match.head))
        ]
        works = [
            [w for k in some if (w := known.get((k.graph, k.name))) is not None]
            for some, known in zip(kernels, sides, strict=True)
        ]
        named = (kernels[1] or kernels[0])[0].name
        yield _make_part(number, named, *works)


def _make_part(
    group: int | None, name: str, base: Sequence[ObservedWork], head: Sequence[ObservedWork]
) -> _Part:
    return _Part(
        group,
        name,
        _sum_seconds(base),
        _sum_seconds(head),
        sum(work.launches for work in base or head),
        sorted(map(_look, base)) == sorted(map(_look, head)),
    )


def _look(work: ObservedWork) -> tuple[str, str]:
    return stem(work.label) if work.generated else work.label, repr(work.look)


def _time_others(ours: Observed, theirs: Observed) -> Iterator[_Part]:
    """Yield what library operators launch, and copies and fills: by kernel and shape where both
    sides launch it, else all that an operator launches together, since it may take other kernels
    on the other side."""
    sides = [[work for work in o.works if not work.generated] for o in (ours, theirs)]
    exact = [_sort(side, _identify) for side in sides]
    for key in exact[0]:
        if key in exact[1]:
            yield _make_part(None, _name_exactly(exact[0][key][0]), exact[0][key], exact[1][key])
    rest = [
        _sort([work for work in side if _identify(work) not in exact[1 - n]], _name_broadly)
        for n, side in enumerate(sides)
    ]
    for name in dict.fromkeys((*rest[0], *rest[1])):
        yield _make_part(None, name, rest[0].get(name, []), rest[1].get(name, []))


def _sort(
    works: Sequence[ObservedWork], key: Callable[[ObservedWork], T]
) -> dict[T, list[ObservedWork]]:
    found: dict[T, list[ObservedWork]] = {}
    for work in works:
        found.setdefault(key(work), []).append(work)
    return found


def _identify(work: ObservedWork) -> tuple[object, ...]:
    return (work.operator, work.label, work.graph.partition(" ")[0], *work.look)


def _name_exactly(work: ObservedWork) -> str:
    return f"{work.operator} {work.label}".strip()


def _name_broadly(work: ObservedWork) -> str:
    return work.operator or work.label


def _sum_seconds(works: Sequence[ObservedWork]) -> tuple[float, ...]:
    return tuple(map(sum, zip(*(work.seconds for work in works), strict=True)))


def _sum_works(observed: Observed) -> tuple[float, ...]:
    return _sum_seconds(observed.works)


# --- changes ------------------------------------------------------------------------------------


def _judge_part(part: _Part, sessions: _Allowance, coarse: float) -> TimeChange:
    """Return the change of one part; each launch is uncertain by ``coarse`` seconds."""
    if bool(part.base) != bool(part.head):
        return _judge_alone(part)
    typical = statistics.median(part.base) if part.base else 0.0
    uncertain = math.log1p(coarse * part.launches / typical) if typical else 0.0
    return _judge(part.base, part.head, sessions.widen(-uncertain, uncertain))


def _judge_alone(part: _Part) -> TimeChange:
    """Return the change of what only one side launches."""
    base = statistics.median(part.base) if part.base else None
    head = statistics.median(part.head) if part.head else None
    side = "base" if part.base else "head"
    return TimeChange(base, head, rounds=0, why=f"only {side} launches it")


def _judge(base: Sequence[float], head: Sequence[float], allowance: _Allowance) -> TimeChange:
    """Return the change between two samples of steps, with an interval for what the sessions differ
    by as well."""
    ours = [seconds for seconds in base if seconds > 0]
    theirs = [seconds for seconds in head if seconds > 0]
    if not ours or not theirs:
        return TimeChange(None, None, why="a side has no step with a time")
    rounds = min(len(ours), len(theirs))
    logs = [[math.log(s) for s in _stretch(side)] for side in (ours, theirs)]
    shift = _find_shift(logs[0], logs[1])
    middle = (statistics.median(logs[0]) + statistics.median(logs[1])) / 2
    change = TimeChange(
        math.exp(middle - shift / 2), math.exp(middle + shift / 2), math.exp(shift), rounds=rounds
    )
    if rounds < 2:
        return replace(change, why="one step is too few: there is nothing to tell noise by")
    shown, deciding = (_find_interval(logs[0], logs[1], c) for c in (_SHOWN, _DECIDING))
    low, high = math.exp(shown[0] - allowance.high), math.exp(shown[1] - allowance.low)
    change = replace(change, low=low, high=high)
    if deciding[0] - allowance.high > 0:
        return replace(change, verdict="slower")
    if deciding[1] - allowance.low < 0:
        return replace(change, verdict="faster")
    if low >= 1 / (1 + MARGIN) and high <= 1 + MARGIN:
        return replace(change, verdict="same")
    return replace(change, why=_say_why(shift, shown, allowance))


def _say_why(shift: float, interval: tuple[float, float], allowance: _Allowance) -> str:
    """Return what keeps a change from being told."""
    if allowance.low <= shift <= allowance.high:
        part = allowance.largest * 100
        return f"two sessions may differ by {part:.2g} % without any change of code"
    half = math.expm1((interval[1] - interval[0]) / 2) * 100
    return f"the steps of the traces differ too much among themselves (± {half:.2g} %)"


def _stretch(seconds: Sequence[float]) -> list[float]:
    """Return the medians of stretches of neighbouring steps; the steps where they are few."""
    count = len(seconds)
    if count <= _STRETCHES:
        return list(seconds)
    bounds = [round(n * count / _STRETCHES) for n in range(_STRETCHES + 1)]
    return [statistics.median(seconds[a:b]) for a, b in itertools.pairwise(bounds)]


def _find_shift(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """Return Hodges and Lehmann's estimate: the median of all differences."""
    return statistics.median(b - a for a in ours for b in theirs)


def _find_interval(
    ours: Sequence[float], theirs: Sequence[float], confidence: float
) -> tuple[float, float]:
    """Return the interval of the shift: that of the rank-sum test, or Welch's where no rank is far
    enough out."""
    rank = _find_rank(len(ours), len(theirs), confidence)
    if rank is None:
        return _find_welch(ours, theirs, confidence)
    differences = sorted(b - a for a in ours for b in theirs)
    return differences[rank], differences[-rank - 1]


@lru_cache(maxsize=256)
def _find_rank(m: int, n: int, confidence: float) -> int | None:
    """Return how many of the differences lie outside of the interval on each side: the most that
    the rank-sum distribution allows; None where it allows none."""
    counts = _count_rank_sums(m, n)
    left = (1 - confidence) / 2 * math.comb(m + n, m)
    total = 0
    for rank, count in enumerate(counts):
        total += count
        if total > left:
            return rank - 1 if rank else None
    return None


def _count_rank_sums(m: int, n: int) -> list[int]:
    """Return in how many orders of m and n values the statistic of Mann and Whitney is 0, 1, …"""
    counts = [1] + [0] * (m * n)
    for i in range(1, m + 1):
        # The Gaussian binomial coefficient, one factor after the other.
        for u in range(m * n, n + i - 1, -1):
            counts[u] -= counts[u - n - i]
        for u in range(i, m * n + 1):
            counts[u] += counts[u - i]
    return counts


def _find_welch(
    ours: Sequence[float], theirs: Sequence[float], confidence: float
) -> tuple[float, float]:
    """Return Welch's interval of the difference of two means."""
    from scipy.special import stdtrit

    parts = [statistics.variance(side) / len(side) for side in (ours, theirs)]
    shift = statistics.fmean(theirs) - statistics.fmean(ours)
    if not sum(parts):
        return shift, shift
    freedom = sum(parts) ** 2 / sum(
        part**2 / (len(side) - 1) for part, side in zip(parts, (ours, theirs), strict=True)
    )
    half = float(stdtrit(freedom, (1 + confidence) / 2)) * math.sqrt(sum(parts))
    return shift - half, shift + half


# --- what is said of it -------------------------------------------------------------------------


def _added(change: TimeChange) -> float | None:
    if change.delta is not None:
        return change.delta
    if change.base is None and change.head is None:
        return None
    return (change.head or 0.0) - (change.base or 0.0)


def _subtract(step: TimeChange, changes: Sequence[TimeChange]) -> float | None:
    """Return the step's change less that of its parts."""
    if step.delta is None:
        return None
    return step.delta - sum(_added(change) or 0.0 for change in changes)


def _count_joined(base: Run, head: Run) -> tuple[int, int]:
    kernels = (*base.kernels, *head.kernels)
    return sum(k.launches for k in kernels if k.source_hash), sum(k.launches for k in kernels)


def _describe(ours: Observed, theirs: Observed) -> Iterator[str]:
    """Yield what each trace says of itself."""
    for side, observed in (("base", ours), ("head", theirs)):
        idle = observed.idle_share
        gaps = "" if idle is None else f", the device idle in {idle * 100:.2g} % of them"
        ranks = "" if observed.rank is None else f", rank {observed.rank}"
        yield (
            f"{side}: {len(observed.steps)} steps by {observed.marks}{gaps}{ranks} "
            f"({observed.tool}, {observed.file})"
        )
        yield from (f"{side}: {note}" for note in observed.notes)
