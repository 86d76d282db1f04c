"""Times steps on a GPU by its events; measures the bandwidth of a copy."""

from __future__ import annotations

import functools
import resource
import statistics
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from perfcli.model import Turn

if TYPE_CHECKING:
    from perfcli.measure.step import Step

COPY_BYTES = {"cuda": 1 << 30, "cpu": 256 << 20}
"""Several times the last cache of the devices that are used today."""
COPIES = 7
AHEAD = 2
_CALIBRATION_CYCLES = 20_000_000


def time_gpu_steps(step: Step, count: int) -> Turn:
    """Time ``count`` steps: on the device between two events around each, and on the host until
    each was enqueued.

    The host runs ahead of the device, as it does in a program, but by two steps at most: the
    driver holds about a thousand launches, and a host that waits for room would look busy. Where
    L2 is flushed it waits before each step, and the first launch is part of the step's time; a
    CUDA graph is launched while L2 is still being flushed, and its launch is not.
    """
    import torch

    flush = scratch() if step.request.flush_l2 else None
    idle = _planted_cycles(step) if step.request.slow_down else 0
    events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(count)]
    wall = []
    for number, (begin, end) in enumerate(events):
        if number >= AHEAD:
            events[number - AHEAD][1].synchronize()
        if flush is not None:
            flush.zero_()
            if step.graphed is None:
                torch.cuda.synchronize()
        begin.record()
        started = time.perf_counter()
        step.run()
        wall.append(time.perf_counter() - started)
        if idle:
            torch.cuda._sleep(idle)
        end.record()
    torch.cuda.synchronize()
    return Turn(tuple(begin.elapsed_time(end) / 1e3 for begin, end in events), tuple(wall))


def scratch() -> Any:
    """Return memory twice the size of the current device's L2: writing it leaves nothing else
    there."""
    import torch

    return _scratch(torch.cuda.current_device())


@functools.cache
def _scratch(index: int) -> Any:
    import torch

    l2 = torch.cuda.get_device_properties(index).L2_cache_size
    return torch.empty(2 * l2, dtype=torch.uint8, device=f"cuda:{index}")


def drop_scratch() -> None:
    """Give the memory back that ``flush_l2`` took: it is none of the step's."""
    _scratch.cache_clear()


_planted: dict[int, int] = {}
"""The planted cycles by the step's id, which lives as long as its process."""


def _planted_cycles(step: Step) -> int:
    """Return how many cycles the device waits for the planted share of a step, measured once.
    Launching the wait takes some 10 µs besides; a step that waits for its host hides both."""
    if id(step) not in _planted:
        plain = replace(step.request, slow_down=0.0)
        step.request, asked = plain, step.request
        taken = statistics.median(time_gpu_steps(step, 7).seconds)
        step.request = asked
        _planted[id(step)] = max(cycles_of(taken * asked.slow_down), 1)
    return _planted[id(step)]


def cycles_of(seconds: float) -> int:
    """Return how many cycles the device waits for so long, at the clock that it has now: what ran
    before left the one to wait by."""
    import torch

    if not seconds:
        return 0
    slept = [_between_events(lambda: torch.cuda._sleep(_CALIBRATION_CYCLES)) for _ in range(3)]
    return round(seconds * _CALIBRATION_CYCLES / min(slept))


def _between_events(run: Any) -> float:
    import torch

    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    run()
    end.record()
    torch.cuda.synchronize()
    return float(begin.elapsed_time(end)) / 1e3


def copy_bandwidth(device: str) -> float | None:
    """Return bytes per second, read and written, of a large copy within the device's memory, with
    the threads that torch now uses; the median of several. None where memory is too small for it.

    Gives its memory back, and with it whatever the caching allocator kept unused: the next step
    allocates again.
    """
    import torch

    size = COPY_BYTES[device]
    try:
        source = torch.ones(size, dtype=torch.uint8, device=device)
        target = torch.zeros_like(source)
    except (torch.OutOfMemoryError, MemoryError, RuntimeError):
        return None
    seconds = [_copy_seconds(source, target, device) for _ in range(COPIES + 2)][2:]
    del source, target
    if device == "cuda":
        torch.cuda.empty_cache()
    return 2 * size / statistics.median(seconds)


def _copy_seconds(source: Any, target: Any, device: str) -> float:
    if device == "cuda":
        return _between_events(lambda: target.copy_(source))
    started = time.perf_counter()
    target.copy_(source)
    return time.perf_counter() - started


def time_cpu_steps(step: Step, count: int) -> Turn:
    """Time ``count`` steps of a workload on the CPU, with what is planted after each."""
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
    """Return the involuntary context switches of this process, of all its threads."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw


def _wait_until(moment: float) -> None:
    """Keep the core busy. An interruption of the wait is part of it; steps with one are not
    used."""
    while time.perf_counter_ns() < moment:
        pass
