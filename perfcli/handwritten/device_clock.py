"""Measures the seconds of a launch on the GPU, by its events, with a cold L2.

Before each timed launch a buffer of twice L2 is written and waited for: without the wait the write
is still going on when the launch begins, and what it left in L2 is another question each time
(pytorch RFC #179711 withdrew its numbers for that). Then the device is kept busy while the host
enqueues the launch; else the gap between the first event and the first kernel, which is the host's,
would be part of the time. How long the host takes varies (number of launches, memory that the
allocator has not got, a process beside it) and is not predicted: where the device began before
everything was enqueued, the time is thrown away and taken again with twice the wait.
"""

from __future__ import annotations

import time
from collections.abc import Callable

LEAST_AHEAD_SECONDS = 300e-6
"""The least that the device is kept busy. With 120 µs two short launches in a row still waited for
their host now and then: 31 µs were measured for 12 (H200 machine, 2026-11-22)."""
MOST_AHEAD_SECONDS = 5e-3
_CALIBRATION_CYCLES = 4_000_000


class DeviceClock:
    """Times launches on a CUDA device, as ``benching._Clock``."""

    def __init__(self) -> None:
        import torch

        properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        self._flushing = torch.empty(2 * properties.L2_cache_size, dtype=torch.uint8, device="cuda")
        self._ahead: dict[str, float] = {}
        self._cycles_per_second = self.cycles_per_second()

    def seconds(self, name: str, launch: Callable[[], object]) -> float:
        ahead = self._ahead.get(name, LEAST_AHEAD_SECONDS)
        while True:
            seconds, in_time = self._timed(launch, ahead)
            if in_time or ahead >= MOST_AHEAD_SECONDS:
                self._ahead[name] = ahead
                return seconds
            ahead = min(2 * ahead, MOST_AHEAD_SECONDS)

    def _timed(self, launch: Callable[[], object], ahead: float) -> tuple[float, bool]:
        """Return what the launch takes, and whether all of it was enqueued before the device
        began."""
        import torch

        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        self._flushing.zero_()
        torch.cuda.synchronize()
        torch.cuda._sleep(int(ahead * self._cycles_per_second))
        begin.record()
        launch()
        end.record()
        in_time = not begin.query()
        torch.cuda.synchronize()
        return float(begin.elapsed_time(end)) / 1e3, in_time

    def now(self) -> float:
        return time.monotonic()

    @staticmethod
    def cycles_per_second() -> float:
        """Return the cycles of ``torch.cuda._sleep`` per second of the current device."""
        import torch

        fastest = float("inf")
        for _ in range(4):  # the first one also loads the kernel
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            torch.cuda._sleep(_CALIBRATION_CYCLES)
            end.record()
            torch.cuda.synchronize()
            fastest = min(fastest, float(begin.elapsed_time(end)) / 1e3)
        return _CALIBRATION_CYCLES / fastest
