"""Seconds of steps on the CPU, by the monotonic clock."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perfcli.measure.step import Step

Times = tuple[tuple[float, ...], tuple[float, ...]]
"""Seconds of each step on the device, and until the host was free again."""


def time_steps(step: Step, count: int) -> Times:
    """Times ``count`` steps of a workload on the CPU, with what is planted after each."""
    share = step.request.slow_down
    taken = []
    for _ in range(count):
        started = time.perf_counter_ns()
        step.run()
        ended = time.perf_counter_ns()
        if share:
            ended = _busy_until(ended + round((ended - started) * share))
        taken.append((ended - started) / 1e9)
    return tuple(taken), ()


def _busy_until(moment: int) -> int:
    """Keeps the core busy until then (nanoseconds); returns the time at which it ended."""
    while (now := time.perf_counter_ns()) < moment:
        pass
    return now
