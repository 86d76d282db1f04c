"""Weighs what noisy measurements say: the odds that what was measured is bad.

Two kinds: a yes/no oracle that is wrong at a known rate, and measured log ratios with their
standard errors. A yes or no throws away about two thirds of what a measured ratio says.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from perfcli.errors import PerfcliError
from perfcli.search.question import Evidence

O_contra = TypeVar("O_contra", contravariant=True)


class Weighing(Protocol[O_contra]):
    def weigh(self, observations: Sequence[O_contra]) -> Evidence:
        """Return all of them together; good and bad were equally likely before."""
        ...


@dataclass(frozen=True, slots=True)
class Reading:
    """Holds one measurement against the good end."""

    log_ratio: float
    standard_error: float
    """The standard error, above 0."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.log_ratio) and 0 < self.standard_error < math.inf):
            raise PerfcliError(f"not a measurement: {self.log_ratio} ± {self.standard_error}")


@dataclass(frozen=True, slots=True)
class YesNo:
    """Weighs observations that are True for bad. Each adds or takes ln((1 - error) / error): Wald,
    "Sequential tests of statistical hypotheses", Annals of Mathematical Statistics 16 (1945)."""

    error: float
    """The share of wrong answers, above 0 and below 0.5, the same for good and bad."""

    def __post_init__(self) -> None:
        if not 0 < self.error < 0.5:
            raise PerfcliError(f"a share of wrong answers is above 0 and below 0.5: {self.error}")

    def weigh(self, observations: Sequence[bool]) -> Evidence:
        net = 2 * sum(observations) - len(observations)
        each = math.log((1 - self.error) / self.error)
        return Evidence(net * each, len(observations))


@dataclass(frozen=True, slots=True)
class LogRatio:
    """Weighs observations that are log ratios to the good end, 0 there and ``size`` at the bad end.

    A set with a part of the effect counts as bad from half of it on: the log likelihood ratio of
    N(size, s) to N(0, s) is size * (mean - size / 2) / s**2, zero at the half. In s are the
    standard error of the weighted mean, half that of ``size`` (it moves the half by as much), and
    ``floor``. Readings that differ by more than their errors widen theirs (Birge's ratio: Particle
    Data Group, Review of Particle Physics, section "Averages and fits"): what contradicts itself
    takes longer and is not believed.
    """

    size: float
    """The bad end's log ratio; not zero. Negative where bad is less."""
    size_error: float = 0.0
    floor: float = 0.0
    """The error that repetitions do not average out, as a log ratio: the machine's noise floor."""

    def __post_init__(self) -> None:
        if self.size == 0 or not math.isfinite(self.size):
            raise PerfcliError(f"there is no difference to look for: a log ratio of {self.size}")

    def weigh(self, observations: Sequence[Reading]) -> Evidence:
        if not observations:
            return Evidence(0.0, 0)
        weights = [1 / reading.standard_error**2 for reading in observations]
        total = sum(weights)
        mean = sum(w * r.log_ratio for w, r in zip(weights, observations, strict=True)) / total
        spread = sum(
            w * (r.log_ratio - mean) ** 2 for w, r in zip(weights, observations, strict=True)
        )
        birge = max(1.0, spread / (len(observations) - 1)) if len(observations) > 1 else 1.0
        error = math.sqrt(birge / total)
        variance = error**2 + (self.size_error / 2) ** 2 + self.floor**2
        log_odds = self.size * (mean - self.size / 2) / variance
        return Evidence(log_odds, len(observations), mean, error)


TRUSTED = 99.0
"""The most that one measurement is believed, as odds: one in a hundred is wrong by more than its
error says, because something else ran on the machine, or a process got another memory layout."""


@dataclass(frozen=True, slots=True)
class Doubted:
    """Weighs log ratios as ``LogRatio`` does, but each by itself, and none beyond ``TRUSTED``: a
    measurement that is wrong and sure of itself is outvoted, where in a mean it would pull all
    others along (Huber, "A robust version of the probability ratio test", Annals of Mathematical
    Statistics 36 (1965))."""

    by: LogRatio

    def weigh(self, observations: Sequence[Reading]) -> Evidence:
        most = math.log(TRUSTED)
        alone = (self.by.weigh([reading]).log_odds for reading in observations)
        together = self.by.weigh(observations)
        log_odds = sum(min(max(odds, -most), most) for odds in alone)
        return Evidence(log_odds, len(observations), together.mean, together.standard_error)
