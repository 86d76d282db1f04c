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
    planted, pause = step.request.slow_down, step.request.pause
    taken, preempted = [], []
    for _ in range(count):
        before = _preemptions()
        started = time.perf_counter_ns()
        step.run()
        done = ended = time.perf_counter_ns()
        if planted:
            _wait_until(done + planted * (done - started))
            ended = time.perf_counter_ns()
        if pause:
            _wait_until(done + pause * (done - started))
        taken.append((ended - started) / 1e9)
        preempted.append(_preemptions() - before)
    return Turn(tuple(taken), preempted=tuple(preempted))


def _preemptions() -> int:
    """Involuntary context switches of this process, all threads."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw


def _wait_until(moment: float) -> None:
    """Keeps the core busy. An interruption of the wait is part of it; steps with one are not
    used."""
    while time.perf_counter_ns() < moment:
        pass
