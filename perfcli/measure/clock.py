"""Seconds of steps on the CPU, by the monotonic clock."""

from __future__ import annotations

import functools
import resource
import statistics
import time
from typing import TYPE_CHECKING

from perfcli.model import Turn

if TYPE_CHECKING:
    from perfcli.measure.step import Step

CALIBRATIONS = 1001
CALIBRATED_NS = 20_000


def time_steps(step: Step, count: int) -> Turn:
    """Times ``count`` steps of a workload on the CPU, with what is planted after each."""
    share, threads = step.request.slow_down, step.request.threads or 1
    too_much = _cost_of_planting() if share else 0.0
    taken, preempted = [], []
    for _ in range(count):
        before, worked = _preemptions(), time.process_time_ns()
        started = time.perf_counter_ns()
        step.run()
        if share:
            _work((time.process_time_ns() - worked) / threads * share - too_much)
        taken.append((time.perf_counter_ns() - started) / 1e9)
        preempted.append(_preemptions() - before)
    return Turn(tuple(taken), preempted=tuple(preempted))


def _preemptions() -> int:
    """Involuntary context switches of this process, all threads."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw


@functools.cache
def _cost_of_planting() -> float:
    """Nanoseconds that planting takes beyond what it is to plant: reading clocks, and the end that
    is noticed late. As long as a thirtieth of a step of 100 µs."""
    excess = []
    for _ in range(CALIBRATIONS):
        started = time.perf_counter_ns()
        _work(time.process_time_ns() * 0 + CALIBRATED_NS)
        excess.append(time.perf_counter_ns() - started - CALIBRATED_NS)
    return statistics.median(excess)


def _work(nanoseconds: float) -> None:
    """Keeps a core at work for so long. Not until a moment: more work takes its share of whatever
    the machine gives, and what interrupts a step would be planted once more."""
    end = time.thread_time_ns() + nanoseconds
    while time.thread_time_ns() < end:
        pass
