"""Seconds of a launch on the GPU, by its events, with a cold L2.

Before each timed launch a buffer of twice L2 is written and waited for: without the wait the write
is still going on when the launch begins, and what it left in L2 is another question each time
(pytorch RFC #179711 withdrew its numbers for that). Then the device is kept busy for as long as
the host needs to enqueue the launch; else the gap between the first event and the first kernel,
which is the host's, would be part of the time.
"""

from __future__ import annotations

import time
from collections.abc import Callable

LEAST_AHEAD_SECONDS = 300e-6
"""With 120 µs two short launches in a row still waited for their host now and then: 31 µs were
measured for 12 (H200 machine, 2026-11-22)."""
MOST_AHEAD_SECONDS = 5e-3
_CALIBRATION_CYCLES = 4_000_000


class DeviceClock:
    """See ``rounds.Clock``. Needs a CUDA device."""

    def __init__(self) -> None:
        import torch

        properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        self._flushing = torch.empty(2 * properties.L2_cache_size, dtype=torch.uint8, device="cuda")
        self._ahead: dict[str, int] = {}
        self._cycles_per_second = self._calibrated()

    def seconds(self, name: str, launch: Callable[[], object]) -> float:
        import torch

        ahead = self._ahead.get(name) or self._host_cycles(name, launch)
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        self._flushing.zero_()
        torch.cuda.synchronize()
        torch.cuda._sleep(ahead)
        begin.record()
        launch()
        end.record()
        torch.cuda.synchronize()
        return float(begin.elapsed_time(end)) / 1e3

    def now(self) -> float:
        return time.monotonic()

    def _host_cycles(self, name: str, launch: Callable[[], object]) -> int:
        """For as many cycles the device waits: twice what the host takes to enqueue a launch."""
        import torch

        taken = []
        for _ in range(3):
            torch.cuda.synchronize()
            started = time.perf_counter()
            launch()
            taken.append(time.perf_counter() - started)
        torch.cuda.synchronize()
        seconds = min(max(2 * sorted(taken)[1], LEAST_AHEAD_SECONDS), MOST_AHEAD_SECONDS)
        self._ahead[name] = int(seconds * self._cycles_per_second)
        return self._ahead[name]

    @staticmethod
    def _calibrated() -> float:
        """Cycles of ``_sleep`` per second."""
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
