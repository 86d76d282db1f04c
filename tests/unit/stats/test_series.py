"""Several pairs of processes: the interval is over pairs."""

from __future__ import annotations

import math
import random

import pytest
from scipy.stats import ttest_1samp

from perfcli.stats import paired, series
from perfcli.stats.series import Series


def pairs(count: int, between: float, *, each: int = 40, seed: int = 0) -> Series:
    """Pairs of processes that differ by chance (standard deviation ``between``), +2 % in truth."""
    dice = random.Random(seed)
    head, processes = [], []
    for process in range(count):
        bias = dice.gauss(0, between)
        for _ in range(each):
            head.append(math.exp(math.log(1.02) + bias + dice.gauss(0, 0.02)))
            processes.append(process)
    return Series((1.0,) * len(head), tuple(head), tuple(processes))


def test_one_pair_is_judged_over_its_rounds() -> None:
    made = pairs(1, 0.0)
    assert series.estimate(made) == paired.compare(made.base, made.head)
    assert series._p_value(made) == paired._p_value(made.logs)


def test_few_pairs_have_the_t_interval_of_scipy() -> None:
    made = pairs(4, 0.01)
    expected = ttest_1samp(series._estimate_pairs(made.logs, made.processes), 0.0)
    low, high = expected.confidence_interval(0.95)
    found = series.estimate(made)
    assert (found.low, found.high) == pytest.approx((math.exp(low), math.exp(high)))
    assert series._p_value(made) == pytest.approx(float(expected.pvalue))
    assert found.rounds == 160


def test_many_pairs_are_ranked() -> None:
    made = pairs(9, 0.01)
    found = series.estimate(made, 0.99)
    expected = paired.estimate_logs(series._estimate_pairs(made.logs, made.processes), 0.99)
    assert (found.ratio, found.low, found.high) == (expected.ratio, expected.low, expected.high)
    assert found.rounds == 360


def test_more_rounds_do_not_hide_that_processes_differ() -> None:
    few, many = (series.estimate(pairs(5, 0.02, each=each)) for each in (20, 400))
    assert many.half_width == pytest.approx(few.half_width or 0, rel=0.5)
    together = paired.estimate_logs(pairs(5, 0.02, each=400).logs)
    assert (together.half_width or 9) < (many.half_width or 0) / 5


def test_a_single_round_is_a_pair_too() -> None:
    made = Series((1.0, 1.0, 1.0), (1.01, 1.02, 1.03), (0, 1, 2))
    found = series.estimate(made)
    assert found.ratio == pytest.approx(1.02, abs=1e-4)
    assert found.low is not None


def test_pairs_that_agree_to_the_last_digit_have_no_interval() -> None:
    found = series.estimate(Series((1.0,) * 3, (1.5,) * 3, (0, 1, 2)))
    assert found.ratio == pytest.approx(1.5)
    assert found.low is None
    assert "same ratio" in found.why
    assert series._p_value(Series((1.0,) * 3, (1.5,) * 3, (0, 1, 2))) is None


@pytest.mark.parametrize("count", [2, 3, 5, 8])
def test_the_interval_holds_the_truth_as_often_as_it_says(count: int) -> None:
    held = 0
    for seed in range(400):
        found = series.estimate(pairs(count, 0.01, each=8, seed=seed))
        held += (found.low or 9) <= 1.02 <= (found.high or 0)
    assert 0.92 <= held / 400 <= 0.98


def drifting(rounds: int, seed: int, *, swing: float) -> Series:
    """One pair whose true ratio is 1, but for what one process has for a while and then loses."""
    dice = random.Random(seed)
    state, head = dice.gauss(0, swing), []
    keep = 1 - 40 / rounds
    for _ in range(rounds):
        state = keep * state + math.sqrt(1 - keep * keep) * dice.gauss(0, swing)
        head.append(math.exp(state + dice.gauss(0, 0.03)))
    return Series((1.0,) * rounds, tuple(head), (0,) * rounds)


def test_many_rounds_of_one_pair_are_judged_by_stretches_of_time() -> None:
    made = pairs(1, 0.0, each=400)
    found = series.estimate(made)
    parts = [paired._location(made.logs[i : i + 50]) for i in range(0, 400, 50)]
    # Of 8 values' 256 sets of ranks, 5 have a sum of at most 3: outside the fourth mean of two from
    # either end lie 10 of 256.
    means = sorted((a + b) / 2 for i, a in enumerate(parts) for b in parts[i:])
    assert (found.low, found.high) == pytest.approx((math.exp(means[3]), math.exp(means[-4])))
    surer = series.estimate(made, 0.99)
    assert (surer.low, surer.high) == pytest.approx((math.exp(means[0]), math.exp(means[-1])))
    assert found.ratio == pytest.approx(math.exp(paired._location(made.logs)))
    assert series._p_value(made) == pytest.approx(float(ttest_1samp(parts, 0.0).pvalue))


def test_the_interval_over_stretches_holds_the_ratio_of_all_rounds() -> None:
    """Which may lie outside that of the stretches: here each has a few that are far away."""
    logs = [0.0] * 9 + [1.0, 1.0, 1.0]
    logs = [value + n * 1e-6 for n, value in enumerate(logs * 8)]
    found = series.estimate_one_pair(logs)
    assert found.low is not None
    assert found.ratio is not None
    assert found.high is not None
    assert found.low <= found.ratio <= found.high


def test_what_a_process_has_for_a_while_is_no_change() -> None:
    """Rounds as if independent: the 99 % interval excludes 1 in most of these; by stretches in
    few. The truth is 1 in all of them."""
    alarms = {"rounds": 0, "stretches": 0}
    for seed in range(60):
        made = drifting(800, seed, swing=0.02)
        for name, found in (
            ("rounds", paired.estimate_logs(made.logs, 0.99)),
            ("stretches", series.estimate(made, 0.99)),
        ):
            assert found.low is not None
            assert found.high is not None
            alarms[name] += not found.low <= 1 <= found.high
    assert alarms["rounds"] > 20
    assert alarms["stretches"] <= 6
