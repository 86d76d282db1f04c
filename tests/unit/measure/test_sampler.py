from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from perfcli.measure import sampler
from perfcli.measure.nvml import _others_share, _throttle_reasons
from perfcli.measure.sampler import (
    EVERY_SECONDS,
    Sampler,
    _core_seconds,
    _Cores,
    _family,
    _family_seconds,
)
from perfcli.model import DeviceState

TICK = os.sysconf("SC_CLK_TCK")
STAT = """cpu  300 0 100 600 0 0 0 0 0 0
cpu0 100 5 50 300 40 3 2 0 7 0
cpu1 200 0 50 300 0 0 0 0 0 0
cpu10 999 0 0 1 0 0 0 0 0 0
intr 12345
"""


def test_busy_seconds_of_chosen_cores() -> None:
    # idle and iowait are not busy; guests are counted within user.
    assert _core_seconds(STAT, [0]) == (160 / TICK, 500 / TICK)
    assert _core_seconds(STAT, [0, 1]) == (410 / TICK, 1050 / TICK)
    assert _core_seconds(STAT, [7]) == (0.0, 0.0)


def test_the_share_of_others_is_what_is_busy_and_not_ours() -> None:
    counts = iter([(10.0, 100.0, 1.0), (14.0, 108.0, 2.0), (14.0, 108.0, 2.0)])
    cores = _Cores([0], lambda: next(counts))
    assert cores() == DeviceState(others_utilisation=(4 - 1) / 8)
    assert cores() is None  # no tick has passed


def test_rounding_of_ticks_makes_no_negative_share() -> None:
    counts = iter([(10.0, 100.0, 1.0), (10.5, 101.0, 1.9)])
    assert _Cores([0], lambda: next(counts))() == DeviceState(others_utilisation=0.0)


def test_no_more_than_four_samples_a_second() -> None:
    moments: Iterator[float] = iter([0.0, 0.01, 0.02, 0.27, 0.28])
    taken = []

    def sample() -> DeviceState:
        taken.append(1)
        return DeviceState(sm_clock_mhz=float(len(taken)))

    sampling = Sampler(sample, lambda: next(moments))
    states = []
    for _ in range(4):
        with sampling:
            pass
        states.append(sampling.state)
    assert EVERY_SECONDS == 0.25
    assert states == [
        DeviceState(sm_clock_mhz=1.0),
        None,
        DeviceState(sm_clock_mhz=2.0),
        None,
    ]


def test_a_turn_that_failed_is_not_sampled() -> None:
    sampling = Sampler(lambda: DeviceState(), lambda: 1.0)
    with pytest.raises(ValueError, match="out"), sampling:
        raise ValueError("out")
    assert sampling.state is None


def test_this_process_is_of_its_own_family() -> None:
    assert os.getpid() in (_family() or ())
    used = sum(os.times()[:2])
    assert abs(_family_seconds([os.getpid()]) - used) < 0.5
    assert _family_seconds([2**22 + 1]) == 0.0  # above the largest process number


def test_a_family_that_is_not_listed_is_not_known(tmp_path: Path) -> None:
    parent = os.getppid()
    assert _family(tmp_path) is None
    listed = tmp_path / f"{parent}/task/{parent}"
    listed.mkdir(parents=True)
    (listed / "children").write_text("4000001 4000002 ")
    assert _family(tmp_path) == frozenset({os.getpid(), parent, 4000001, 4000002})


def test_without_a_family_nobody_knows_what_others_took(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampler, "_family", lambda: None)
    assert _Cores(sorted(os.sched_getaffinity(0)))() is None
    counts = iter([(10.0, 100.0, 1.0), None, (14.0, 108.0, 2.0)])
    cores = _Cores([0], lambda: next(counts))
    assert cores() is None
    assert cores() == DeviceState(others_utilisation=(4 - 1) / 8)


@pytest.mark.parametrize(
    ("bits", "reasons"),
    [
        (0x0, ()),
        (0x1, ()),  # idle
        (0x2, ()),  # clocks that an application set
        (0x4, ("power cap",)),
        (0x64, ("power cap", "thermal")),
        (0x88, ("hardware slowdown", "power brake")),
    ],
)
def test_reasons_of_a_slow_clock(bits: int, reasons: tuple[str, ...]) -> None:
    assert _throttle_reasons(bits) == reasons


def test_others_on_the_gpu_by_their_latest_sample() -> None:
    samples = [(10, 1, 90), (20, 1, 80), (20, 2, 30), (30, 2, 5)]
    assert _others_share(samples, frozenset({10})) == 0.35
    assert _others_share(samples, frozenset({10, 20, 30})) == 0.0
    assert _others_share(samples, frozenset({11})) is None  # counted under other numbers
    assert _others_share([], frozenset({10})) is None
