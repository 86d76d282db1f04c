"""Seconds of steps on the CPU, by the monotonic clock."""

from __future__ import annotations

import resource
import time
from typing import TYPE_CHECKING

from perfcli.model import Turn

if TYPE_CHECKING:
    from perfcli.measure.step import Step

def time_steps(step: Step, count: int) -> Turn:
    """Times ``count`` steps of a workload on the CPU, with what is planted after each."""
    share, threads = step.request.slow_down, step.request.threads or 1
    taken, preempted = [], []
    for _ in range(count):
        before, worked = _preemptions(), time.process_time_ns()
        started = time.perf_counter_ns()
        step.run()
        if share:
            _work((time.process_time_ns() - worked) / threads * share)
        taken.append((time.perf_counter_ns() - started) / 1e9)
        preempted.append(_preemptions() - before)
    return Turn(tuple(taken), preempted=tuple(preempted))


def _preemptions() -> int:
    """Involuntary context switches of this process, all threads."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw


def _work(nanoseconds: float) -> None:
    """Keeps a core at work for so long. Not until a moment: more work takes its share of whatever
    the machine gives, and what interrupts a step would be planted once more."""
    end = time.thread_time_ns() + nanoseconds
    while time.thread_time_ns() < end:
        pass
