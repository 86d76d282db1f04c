"""How long the device is kept busy before a timed launch. A device of numbers stands for CUDA."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from perfcli.handwritten.device_clock import MOST_AHEAD_SECONDS, DeviceClock

CYCLES_PER_SECOND = 1e9
LAUNCH_SECONDS, LATE_SECONDS = 12e-6, 20e-6


class Device:
    """Sleeps, while the host takes ``host_seconds`` to enqueue a launch."""

    def __init__(self) -> None:
        self.host_seconds = 100e-6
        self.slept: list[float] = []

    def sleep(self, cycles: int) -> None:
        self.slept.append(cycles / CYCLES_PER_SECOND)

    def is_late(self) -> bool:
        return self.slept[-1] < self.host_seconds

    def event(self, *, enable_timing: bool) -> SimpleNamespace:
        assert enable_timing
        return SimpleNamespace(record=lambda: None, query=self.is_late, elapsed_time=self.elapsed)

    def elapsed(self, _end: object) -> float:
        if self.slept[-1] == 4_000_000 / CYCLES_PER_SECOND:  # of the calibration
            return 4.0
        return 1e3 * (LAUNCH_SECONDS + (LATE_SECONDS if self.is_late() else 0.0))


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Device:
    device = Device()
    cuda = SimpleNamespace(
        current_device=lambda: 0,
        get_device_properties=lambda _: SimpleNamespace(L2_cache_size=64),
        synchronize=lambda: None,
        _sleep=device.sleep,
        Event=device.event,
    )
    buffer = SimpleNamespace(zero_=lambda: None)
    torch = SimpleNamespace(cuda=cuda, uint8=None, empty=lambda *_, **__: buffer)
    monkeypatch.setitem(sys.modules, "torch", torch)
    return device


def test_a_launch_that_its_host_held_up_is_timed_again_with_twice_the_wait(device: Device) -> None:
    clock = DeviceClock()
    device.slept.clear()
    device.host_seconds = 1e-3
    assert clock.seconds("ours", lambda: None) == pytest.approx(LAUNCH_SECONDS)
    assert device.slept == pytest.approx([0.3e-3, 0.6e-3, 1.2e-3])


def test_the_next_launch_begins_with_the_wait_that_was_long_enough(device: Device) -> None:
    clock = DeviceClock()
    device.host_seconds = 0.5e-3
    clock.seconds("ours", lambda: None)
    device.slept.clear()
    clock.seconds("ours", lambda: None)
    clock.seconds("copy", lambda: None)
    assert device.slept == pytest.approx([0.6e-3, 0.3e-3, 0.6e-3])


def test_a_host_that_is_slower_than_any_wait_is_part_of_the_time(device: Device) -> None:
    clock = DeviceClock()
    device.slept.clear()
    device.host_seconds = 1.0
    assert clock.seconds("eager", lambda: None) == pytest.approx(LAUNCH_SECONDS + LATE_SECONDS)
    assert device.slept[-1] == pytest.approx(MOST_AHEAD_SECONDS)
