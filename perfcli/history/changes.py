"""Finds where a series changed. Of numbers that follow from code alone every change is one; where
they were measured, statistics decides."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from perfcli.history.series import Sample, Series
from perfcli.stats.change_points import find_shifts
from perfcli.stats.drift import measure_drift

Verdict = Literal["worse", "better", "same", "unsure"]
_EQUAL = 1e-9
"""Estimates are sums of floats, whose order may differ."""


@dataclass(frozen=True, slots=True)
class Turning:
    """Says that a series changed from one point to the next."""

    series: Series
    index: int
    """The first point of the new level."""
    before: float
    after: float
    p: float | None = None
    """How often a series without a change has one that is as clear; None where it is certain."""

    @property
    def last(self) -> Sample:
        """Return the last point of the old level."""
        return self.series.samples[self.index - 1]

    @property
    def first(self) -> Sample:
        """Return the first point of the new level."""
        return self.series.samples[self.index]

    @property
    def place(self) -> tuple[str, str]:
        """Return the entries between which it changed, by their ids."""
        return self.last.stored.id, self.first.stored.id

    @property
    def ratio(self) -> float | None:
        """Return the new level over the old one; None where that was nothing."""
        return self.after / self.before if self.before else None

    @property
    def is_worse(self) -> bool:
        return (self.after > self.before) != self.series.higher_is_better


def find_changes(series: Series) -> list[Turning]:
    """Return the changes of a series, in order."""
    values = series.values
    if series.is_exact:
        return [
            Turning(series, index, values[index - 1], values[index])
            for index in range(1, len(values))
            if not math.isclose(values[index - 1], values[index], rel_tol=_EQUAL)
        ]
    shifts = find_shifts([math.log(value) for value in values])
    return [
        Turning(series, shift.index, math.exp(shift.before), math.exp(shift.after), shift.p)
        for shift in shifts
    ]


@dataclass(frozen=True, slots=True)
class Standing:
    """Says how the end of a series stands to the best that it was."""

    series: Series
    verdict: Verdict
    ratio: float | None
    """The end over the best level; None where that was nothing, or it is not known."""
    low: float | None = None
    high: float | None = None
    best: float | None = None
    last: float | None = None
    begins: int = 0
    """The last point before it got worse, and the first one after that, by the best fit."""
    ends: int = 0
    changes: Sequence[Turning] = ()
    """Those of the way from there, the largest first."""
    why: str = ""
    """Why it is unsure, in a clause."""

    @property
    def is_drift(self) -> bool:
        """Return whether no single change makes up half of it."""
        if self.ratio is None or self.ratio <= 1:
            return False
        sizes = [math.log(each.ratio) for each in self.changes if each.ratio and each.is_worse]
        return max(sizes, default=0.0) < math.log(self.ratio) / 2


def hold(series: Series, limit: float) -> Standing:
    """Return how the end of a series stands to its best: worse where it is so by more than
    ``limit`` (0.02: two percent), which several small changes may add up to."""
    return _hold_exact(series, limit) if series.is_exact else _hold_measured(series, limit)


def _hold_exact(series: Series, limit: float) -> Standing:
    values = series.values
    last = values[-1]
    if len(values) == 1:
        return Standing(series, "unsure", None, last=last, why="there is one point")
    best = max(values) if series.higher_is_better else min(values)
    reference = max(index for index, value in enumerate(values) if value == best)
    ratio = last / best if best else None
    if series.higher_is_better:
        ratio = best / last if last else None
    changes = [each for each in find_changes(series) if each.index > reference]
    changes.sort(key=lambda each: -abs(each.after - each.before))
    grown = last != best if ratio is None else ratio > 1 + limit
    ends = max((each.index for each in changes), default=reference)
    return Standing(
        *(series, "worse" if grown else "same", ratio, ratio, ratio),
        *(best, last, reference, ends, changes),
    )


def _hold_measured(series: Series, limit: float) -> Standing:
    drift = measure_drift([math.log(value) for value in series.values])
    if drift.size is None or drift.low is None or drift.high is None:
        return Standing(series, "unsure", None, last=series.values[-1], why=drift.why)
    low, high = math.exp(drift.low), math.exp(drift.high)
    ratio = math.exp(drift.size)
    changes = [each for each in find_changes(series) if each.index > drift.reference]
    changes.sort(key=lambda each: -abs(each.after - each.before))
    verdict: Verdict = "unsure"
    why = f"{(low - 1) * 100:+.1f} to {(high - 1) * 100:+.1f} % reaches beyond the limit"
    if ratio > 1 + limit and drift.surely_low is not None and drift.surely_low > 0:
        verdict = "worse"
    elif high <= 1 + limit:
        verdict = "same"
    return Standing(
        *(series, verdict, ratio, low, high),
        *(None, series.values[-1], drift.begins, drift.ends, changes),
        why if verdict == "unsure" else "",
    )
