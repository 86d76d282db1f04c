"""What is planted on the CPU, by a clock that only moves where it is told to."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from perfcli.measure import clocks

STEP_NS, LOOK_NS = 1_000_000, 100


class Ticking:
    """Nanoseconds that pass with each look at the clock, and with each step."""

    def __init__(self) -> None:
        self.now = 0

    def perf_counter_ns(self) -> int:
        self.now += LOOK_NS
        return self.now


@pytest.fixture
def ticking(monkeypatch: pytest.MonkeyPatch) -> Ticking:
    made = Ticking()
    monkeypatch.setattr(clocks, "time", made)
    return made


def a_step(ticking: Ticking, *, slow_down: float = 0.0, pause: float = 0.0) -> Any:
    def run() -> None:
        ticking.now += STEP_NS

    return SimpleNamespace(request=SimpleNamespace(slow_down=slow_down, pause=pause), run=run)


@pytest.mark.parametrize("share", [0.03, 0.1, 1.0])
def test_the_planted_share_is_part_of_a_steps_time(ticking: Ticking, share: float) -> None:
    plain = clocks.time_cpu_steps(a_step(ticking), 3).seconds
    slowed = clocks.time_cpu_steps(a_step(ticking, slow_down=share), 3).seconds
    assert len(slowed) == 3
    # The wait ends at a look at the clock, and two more lie between it and what is noted.
    for before, after in zip(plain, slowed, strict=True):
        assert after / before == pytest.approx(1 + share, abs=4 * LOOK_NS / STEP_NS)


def test_a_pause_is_as_long_and_no_part_of_it(ticking: Ticking) -> None:
    plain = clocks.time_cpu_steps(a_step(ticking), 5).seconds
    began = ticking.now
    paused = clocks.time_cpu_steps(a_step(ticking, pause=0.1), 5).seconds
    spent = ticking.now - began
    assert paused == plain
    assert spent == pytest.approx(5 * 1.1 * STEP_NS, rel=0.002)
