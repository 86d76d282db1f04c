"""Says how good the estimates of a run's kernels are, held against their measured times."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from perfcli.errors import PerfcliError
from perfcli.model import Measurement, Run, SideName, TimeEstimate
from perfcli.model.estimate import LEAST_SECONDS
from perfcli.predict.step import estimate_run
from perfcli.stats.parts import join_side


@dataclass(frozen=True, slots=True)
class _CheckedKernel:
    """Holds one kernel's time per launch, estimated and measured, in seconds."""

    name: str
    graph: str
    launches: int
    estimate: TimeEstimate
    measured: float

    @property
    def error(self) -> float:
        """Return estimated over measured, less 1."""
        return self.estimate.seconds / self.measured - 1

    @property
    def is_inside(self) -> bool:
        return self.estimate.low <= self.measured <= self.estimate.high

    @property
    def is_far(self) -> bool:
        """Return whether the estimate does not explain the measured time (PC904)."""
        return self.estimate.is_far_from(self.measured)


@dataclass(frozen=True, slots=True)
class _Accuracy:
    """Sums up how good estimates are. Only launches of at least ``LEAST_SECONDS`` count."""

    kernels: int
    median: float
    p90: float
    covered: float
    """The part of them whose measured time lies in its 90 % interval."""


def _check_run(run: Run, measurement: Measurement) -> tuple[_CheckedKernel, ...]:
    """Return each kernel that has an estimate and a measured time, the longest per step first.
    Raises PerfcliError where the run has no estimate, or the measurement no times of its
    kernels."""
    estimated = estimate_run(run)
    if all(kernel.estimate is None for kernel in estimated.kernels):
        raise PerfcliError(
            f"run {run.id} has no estimate to check: it was compiled for no GPU whose constants "
            "are known, or before perfcli counted the work of kernels"
        )
    found = list(_join(estimated, measurement))
    if not found:
        raise PerfcliError(
            f"the measurement of run {run.id} has no times of its kernels: measure it again with "
            "perfcli compare --device cuda"
        )
    return tuple(sorted(found, key=lambda each: -each.measured * each.launches))


def _join(run: Run, measurement: Measurement) -> Iterator[_CheckedKernel]:
    side: SideName = "base" if measurement.base == run.id else "head"
    joined = join_side(side, measurement, run)
    rounds = [r for r in measurement.rounds if r.kind == "kernels" and joined.complete(r)]
    for number, kernel in enumerate(run.kernels):
        times = [t for made in rounds if (t := joined.seconds([number], made)) is not None]
        if times and kernel.estimate is not None and kernel.launches:
            seconds = statistics.median(times) / kernel.launches
            yield _CheckedKernel(
                kernel.name, kernel.graph, kernel.launches, kernel.estimate, seconds
            )


def _sum_up(kernels: Sequence[_CheckedKernel]) -> _Accuracy | None:
    """Return how good the estimates are; None where no launch is long enough to tell."""
    long = [each for each in kernels if each.measured >= LEAST_SECONDS]
    if not long:
        return None
    errors = sorted(abs(each.error) for each in long)
    inside = sum(each.is_inside for each in long)
    p90 = errors[min(math.ceil(0.9 * len(errors)), len(errors)) - 1]
    return _Accuracy(len(long), statistics.median(errors), p90, inside / len(long))
