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
        if planted:
            _wait(planted, since=started)
        ended = time.perf_counter_ns()
        if pause:
            _wait(pause, since=started)
        taken.append((ended - started) / 1e9)
        preempted.append(_preemptions() - before)
    return Turn(tuple(taken), preempted=tuple(preempted))


def _preemptions() -> int:
    """Involuntary context switches of this process, all threads."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw


def _wait(share: float, *, since: int) -> None:
    """Keeps the core busy for this share of the time since then. An interruption of the wait is
    part of it; steps with one are not used."""
    now = time.perf_counter_ns()
    end = now + share * (now - since)
    while time.perf_counter_ns() < end:
        pass
