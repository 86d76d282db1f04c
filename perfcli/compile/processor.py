"""Measures what compiling takes in a way that another program on the machine changes little:
processor time, held against that of a fixed loop right before and after it.

Wall time doubles where two programs share a core. Processor time still depends on what shares the
core's caches and its other thread, and on the clock: the loop feels those, too.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

from perfcli.model import CompileWork

_ROUNDS = 60_000
_PARTS = 3


@dataclass(frozen=True, slots=True)
class Processor:
    """Holds the processor's clock and speed at one moment."""

    cpu_seconds: float
    yardstick_seconds: float

    def measure_work(self, nodes: int, choosing_seconds: float) -> CompileWork:
        """Return the work since that moment, with what other processes compiled to choose
        from."""
        taken = time.process_time() - self.cpu_seconds
        speed = (self.yardstick_seconds + _time_loop()) / 2
        chosen = round(choosing_seconds, 4)
        return CompileWork(round(taken, 4), round(speed, 6), nodes, _read_parts(), chosen)


_MOST_PARTS = 16


def _read_parts() -> dict[str, float]:
    """Return what torch timed since it was last reset (``compilation_time_metrics``, torch 2.11 to
    2.13); nothing where it times nothing of that name."""
    import torch._dynamo.utils as dynamo

    times = getattr(dynamo, "compilation_time_metrics", {})
    summed = {str(name): round(sum(each), 3) for name, each in times.items() if each}
    longest = sorted(summed, key=lambda name: -summed[name])[:_MOST_PARTS]
    return {name: summed[name] for name in longest}


def processor_seconds() -> float:
    """Return the processor time of this process and of those that it has waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def read_processor() -> Processor:
    """Return the processor's speed and then its clock: work begins now."""
    speed = _time_loop()
    return Processor(time.process_time(), speed)


def _time_loop() -> float:
    """Return the processor time of the fixed loop: the middle one of three."""
    return sorted(_time_once() for _ in range(_PARTS))[_PARTS // 2]


def _time_once() -> float:
    """Return the processor time of what tracing does most: small objects made, looked up by name,
    and dropped again."""
    begin = time.thread_time()
    seen: dict[str, tuple[int, str]] = {}
    for number in range(_ROUNDS):
        name = f"node_{number % 977}"
        seen[name] = (number, name)
        if len(seen.get(name, ())) != 2:
            break
    return time.thread_time() - begin
