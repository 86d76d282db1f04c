"""Change points and drift: planted ones are found, and noise is left alone. How often is measured
by bench/change_points.py."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from perfcli.stats.change_points import cut_outliers, find_shifts
from perfcli.stats.drift import measure_drift

POINTS = 60


def noise(seed: int, rho: float = 0.0, count: int = POINTS) -> Any:
    """1 % noise, of a first-order autoregression."""
    random = np.random.default_rng(seed)
    innovations = 0.01 * math.sqrt(1 - rho**2) * random.standard_normal(count + 50)
    made = np.zeros(count + 50)
    for t in range(1, count + 50):
        made[t] = rho * made[t - 1] + innovations[t]
    return made[50:]


@pytest.mark.parametrize("rho", [0.0, 0.5])
def test_noise_alone_changes_hardly_ever(rho: float) -> None:
    """At 1.2 % a series, more than seven of 200 have a chance of 0.3 %."""
    alarms = sum(bool(find_shifts(noise(seed, rho))) for seed in range(200))
    assert alarms <= 7


@pytest.mark.parametrize("after", [8, 30])
def test_a_step_is_found_where_it_is(after: int) -> None:
    step = np.where(np.arange(POINTS) >= POINTS - after, math.log(1.03), 0.0)
    found = [find_shifts(noise(seed) + step) for seed in range(25)]
    near = [any(abs(s.index - (POINTS - after)) <= 3 for s in shifts) for shifts in found]
    assert sum(near) >= 23
    sizes = [s.size for shifts in found for s in shifts if abs(s.index - POINTS + after) <= 3]
    assert np.mean(sizes) == pytest.approx(math.log(1.03), rel=0.1)


def test_a_step_of_five_points_is_found_among_outliers() -> None:
    found = 0
    for seed in range(25):
        random = np.random.default_rng(seed)
        spikes = 0.01 * (random.random(POINTS) < 0.05) * random.uniform(5, 10, POINTS)
        values = noise(seed) + spikes + np.where(np.arange(POINTS) >= 55, math.log(1.03), 0.0)
        found += any(abs(shift.index - 55) <= 3 for shift in find_shifts(values))
    assert found >= 21


def test_a_drift_is_not_cut_to_pieces() -> None:
    drift = np.linspace(0.0, 0.1, 200)
    found = [find_shifts(noise(seed, 0.3, 200) + drift) for seed in range(10)]
    assert sum(map(len, found)) <= 1


def test_a_cluster_of_outliers_is_no_level() -> None:
    values = noise(1, count=240)
    values[-6:] = [0.08, 0.07, 0.009, 0.088, 0.007, 0.008]
    assert find_shifts(values) == []


def test_a_short_level_in_between_is_two_changes() -> None:
    there = (np.arange(POINTS) >= 35) & (np.arange(POINTS) < 45)
    shifts = find_shifts(noise(3) + 0.05 * there)
    assert [shift.index for shift in shifts] == [35, 45]


def test_up_and_down_are_two_changes() -> None:
    there = (np.arange(POINTS) >= 20) & (np.arange(POINTS) < 40)
    shifts = find_shifts(noise(3) + 0.05 * there)
    assert [shift.index for shift in shifts] == [20, 40]
    assert shifts[0].size == pytest.approx(-shifts[1].size, rel=0.3)
    assert all(shift.p <= 0.01 for shift in shifts)


def test_one_outlier_is_no_level_wherever_it_is() -> None:
    for place in (0, 1, 30, POINTS - 2, POINTS - 1):
        spiked = noise(1)
        spiked[place] += 0.1
        assert find_shifts(spiked) == []


def test_a_new_level_of_three_points_is_not_cut() -> None:
    values = np.concatenate([noise(5)[:57], noise(6)[:3] + 0.03])
    assert cut_outliers(values)[-3:] == pytest.approx(values[-3:], abs=0.008)


def test_the_same_series_has_the_same_changes() -> None:
    values = noise(7) + np.where(np.arange(POINTS) >= 50, 0.02, 0.0)
    assert find_shifts(values) == find_shifts(values)


@pytest.mark.parametrize("values", [[], [1.0], [1.0] * 7, [1.0] * 60])
def test_nothing_to_find(values: list[float]) -> None:
    assert find_shifts(values) == []


def test_without_noise_a_step_is_certain() -> None:
    (shift,) = find_shifts([1.0] * 20 + [1.01] * 10)
    assert (shift.index, shift.before, shift.after) == (20, 1.0, 1.01)


def test_a_long_series_is_searched_in_parts() -> None:
    values = noise(11, count=3000)
    values[1234:] += 0.03
    shifts = find_shifts(values)
    assert len(shifts) == 1
    assert abs(shifts[0].index - 1234) <= 3
    assert find_shifts(noise(12, count=3000)) == []


# --- drift ----------------------------------------------------------------------------------------


def test_ten_small_steps_add_up() -> None:
    ramp = math.log(1.004) * np.clip(np.arange(POINTS) - 25, 0, 10)
    found = measure_drift(noise(2) + ramp)
    assert found.size == pytest.approx(math.log(1.004) * 10, abs=0.012)
    assert found.surely_low is not None
    assert found.surely_low > 0
    assert found.begins in range(20, 31)
    assert found.ends in range(30, 42)


def test_no_drift_is_within_its_interval() -> None:
    inside = 0
    for seed in range(40):
        found = measure_drift(noise(seed, 0.5))
        assert found.low is not None
        assert found.high is not None
        inside += found.low <= 0 <= found.high
    assert inside >= 35


def test_the_best_level_counts_not_the_first() -> None:
    levels = np.concatenate([np.full(20, 0.10), np.zeros(20), np.full(20, 0.05)])
    found = measure_drift(noise(4) + levels)
    assert found.size == pytest.approx(0.05, abs=0.012)
    assert abs(found.reference - 20) <= 2


def test_few_points_say_nothing() -> None:
    found = measure_drift([1.0] * 7)
    assert (found.size, found.why) == (None, "7 points are too few, 8 are needed")
