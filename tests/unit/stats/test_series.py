"""Several pairs of processes: the interval is over pairs."""

from __future__ import annotations

import itertools
import math
import random
from dataclasses import replace
from typing import Literal

import pytest

from perfcli.model import Round, Turn
from perfcli.stats import paired, series
from perfcli.stats.series import (
    RoundSeconds,
    _align,
    _calm_rounds,
    join,
    seconds_spent,
    step_series,
)


def pairs(count: int, between: float, *, each: int = 40, seed: int = 0) -> RoundSeconds:
    """Pairs of processes that differ by chance (standard deviation ``between``), +2 % in truth."""
    dice = random.Random(seed)
    head, processes = [], []
    for process in range(count):
        bias = dice.gauss(0, between)
        for _ in range(each):
            head.append(math.exp(math.log(1.02) + bias + dice.gauss(0, 0.02)))
            processes.append(process)
    return RoundSeconds((1.0,) * len(head), tuple(head), tuple(processes))


def test_one_pair_is_judged_over_its_rounds() -> None:
    made = pairs(1, 0.0)
    assert series.estimate(made) == paired.compare(made.base, made.head)
    assert series._p_value(made) == paired._p_value(made.logs)


def test_few_pairs_have_the_t_interval_of_scipy() -> None:
    from scipy.stats import ttest_1samp

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
    made = RoundSeconds((1.0, 1.0, 1.0), (1.01, 1.02, 1.03), (0, 1, 2))
    found = series.estimate(made)
    assert found.ratio == pytest.approx(1.02, abs=1e-4)
    assert found.low is not None


def test_pairs_that_agree_to_the_last_digit_have_no_interval() -> None:
    found = series.estimate(RoundSeconds((1.0,) * 3, (1.5,) * 3, (0, 1, 2)))
    assert found.ratio == pytest.approx(1.5)
    assert found.low is None
    assert "same ratio" in found.why
    assert series._p_value(RoundSeconds((1.0,) * 3, (1.5,) * 3, (0, 1, 2))) is None


@pytest.mark.parametrize("count", [2, 3, 5, 8])
def test_the_interval_holds_the_truth_as_often_as_it_says(count: int) -> None:
    held = 0
    for seed in range(400):
        found = series.estimate(pairs(count, 0.01, each=8, seed=seed))
        held += (found.low or 9) <= 1.02 <= (found.high or 0)
    assert 0.92 <= held / 400 <= 0.98


def drifting(rounds: int, seed: int, *, swing: float) -> RoundSeconds:
    """One pair whose true ratio is 1, but for what one process has for a while and then loses."""
    dice = random.Random(seed)
    state, head = dice.gauss(0, swing), []
    keep = 1 - 40 / rounds
    for _ in range(rounds):
        state = keep * state + math.sqrt(1 - keep * keep) * dice.gauss(0, swing)
        head.append(math.exp(state + dice.gauss(0, 0.03)))
    return RoundSeconds((1.0,) * rounds, tuple(head), (0,) * rounds)


def test_many_rounds_of_one_pair_are_judged_by_stretches_of_time() -> None:
    from scipy.stats import ttest_1samp

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


# --- where one interval gives way to another -------------------------------------------------


def test_from_64_rounds_on_one_pair_is_judged_by_stretches() -> None:
    logs = [0.01 * math.sin(n * n) for n in range(64)]
    few = series.estimate_one_pair(logs[:63])
    assert few == paired.estimate_logs(logs[:63])
    many = series.estimate_one_pair(logs)
    means = [paired._location(logs[n : n + 8]) for n in range(0, 64, 8)]
    expected = paired.estimate_logs(means)
    assert (many.low, many.high) == (
        min(expected.low or 9, many.ratio or 0),
        max(expected.high or 0, many.ratio or 9),
    )
    assert (many.ratio, many.rounds) == (math.exp(paired._location(logs)), 64)


def one_pair(logs: list[float]) -> RoundSeconds:
    return RoundSeconds((1.0,) * len(logs), tuple(map(math.exp, logs)), (0,) * len(logs))


def test_p_is_of_the_test_that_belongs_to_the_interval() -> None:
    from scipy.stats import ttest_1samp

    logs = [0.01 * math.sin(n * n) + 0.003 for n in range(64)]
    assert series._p_value(one_pair(logs[:63])) == pytest.approx(paired._p_value(logs[:63]))
    means = [paired._location(logs[n : n + 8]) for n in range(0, 64, 8)]
    expected = float(ttest_1samp(means, 0.0).pvalue)
    assert series._p_value(one_pair(logs)) == pytest.approx(expected)
    for count in (7, 8, 9):
        made = pairs(count, 0.01, each=3)
        each = series._estimate_pairs(made.logs, made.processes)
        by_t = float(ttest_1samp(each, 0.0).pvalue)
        wanted = by_t if count < 8 else paired._p_value(each)
        assert series._p_value(made) == pytest.approx(wanted)


def test_from_8_pairs_on_they_are_ranked() -> None:
    for count in (7, 8):
        made = pairs(count, 0.01, each=3)
        each = series._estimate_pairs(made.logs, made.processes)
        found = series.estimate(made)
        by_rank = paired.estimate_logs(each)
        assert (found.low == by_rank.low) is (count == 8)
        assert found.rounds == 3 * count


def test_stretches_are_of_about_as_many_rounds() -> None:
    logs = [float(n) for n in range(67)]
    found = series._stretches(logs)
    # Ends at 8.4, 16.8, 25.1, 33.5, 41.9, 50.3 and 58.6, rounded.
    ends = [0, 8, 17, 25, 34, 42, 50, 59, 67]
    assert found == [(a + b - 1) / 2 for a, b in itertools.pairwise(ends)]


def test_stretches_that_agree_to_the_last_digit_have_no_interval() -> None:
    found = series.estimate_one_pair([0.5] * 64)
    assert (found.ratio, found.low, found.rounds) == (math.exp(0.5), None, 64)
    assert found.why == "every part gave the same ratio"
    assert series._p_value(one_pair([0.5] * 64)) is None


def test_pairs_that_contradict_each_other_have_no_interval() -> None:
    """Of two pairs, ± 12.7 · s / √2 = 12.7 · d / 2 of their difference: beyond 50 from 7.87 on."""
    wide = RoundSeconds((1.0, 1.0), (1.0, math.exp(7.8)), (0, 1))
    found = series.estimate(wide)
    assert found.low is not None
    assert found.rounds == 2
    found = series.estimate(RoundSeconds((1.0, 1.0), (1.0, math.exp(7.9)), (0, 1)))
    assert (found.low, found.why) == (None, "the pairs of processes do not agree")
    assert found.ratio == pytest.approx(math.exp(3.95))
    assert found.rounds == 2


def test_nothing_measured_has_nothing_to_say() -> None:
    assert series.estimate(RoundSeconds((), (), ())).why == "no round was measured"
    assert series._p_value(RoundSeconds((), (), ())) is None


# --- which rounds count ----------------------------------------------------------------------


def step_round(number: int, *, calm: tuple[bool, bool] = (True, True), at: float = 0.0) -> Round:
    """A round of one step a side; head's takes twice as long, but on the wall four times."""
    base = Turn((1.0 + number,), (1.0,), preempted=(0 if calm[0] else 3,))
    head = Turn((2.0 + 2 * number,), (4.0,), preempted=(0 if calm[1] else 3,))
    return Round(number, number % 2, "step", "base", at, base, head)


@pytest.mark.parametrize(
    ("calm", "of", "counted"),
    [
        (20, 20, 20),
        (20, 80, 20),
        (20, 81, 81),  # less than a quarter
        (19, 40, 40),  # fewer than 20
        (0, 30, 30),
    ],
)
def test_calm_rounds_count_where_they_are_enough(calm: int, of: int, counted: int) -> None:
    rounds = [step_round(n, calm=(n < calm, n < calm)) for n in range(of)]
    assert len(_calm_rounds(rounds)) == counted


def test_a_round_is_calm_where_both_sides_are() -> None:
    rounds = [step_round(n) for n in range(20)]
    half = [step_round(30, calm=(True, False)), step_round(31, calm=(False, True))]
    assert list(_calm_rounds([*rounds, *half])) == rounds


def test_a_series_of_steps_has_both_clocks() -> None:
    kernels = replace(step_round(7), kind="kernels")
    found = step_series([step_round(0), step_round(1), kernels])
    assert found == RoundSeconds((1.0, 2.0), (2.0, 4.0), (0, 1), 0, (0, 1))
    assert step_series([step_round(0)], wall=True) == RoundSeconds((1.0,), (4.0,), (0,), 0, (0,))


def test_rounds_that_one_side_does_not_know_are_dropped_and_counted() -> None:
    rounds = [step_round(n) for n in range(4)]
    found = join(
        rounds,
        lambda r: None if r.number == 1 else 1.0,
        lambda r: None if r.number in (1, 3) else 2.0,
    )
    assert found == RoundSeconds((1.0, 1.0), (2.0, 2.0), (0, 0), 2, (0, 2))
    assert join([], lambda r: 1.0, lambda r: 1.0) == RoundSeconds((), (), (), 0, ())
    assert join(rounds, lambda r: None, lambda r: 1.0) == RoundSeconds((), (), (), 4, ())


def numbered(*numbers: int, dropped: int = 0) -> RoundSeconds:
    return RoundSeconds(
        tuple(float(n) for n in numbers),
        tuple(10.0 * n for n in numbers),
        tuple(n % 2 for n in numbers),
        dropped,
        numbers,
    )


def test_several_series_are_cut_to_what_all_have() -> None:
    found = _align([numbered(1, 2, 3, dropped=5), numbered(3, 1), RoundSeconds((), (), ())])
    assert found == [numbered(1, 3, dropped=5), numbered(3, 1)]
    assert _align([numbered(1), numbered(2)]) == []
    assert _align([]) == []
    assert _align([RoundSeconds((), (), ())]) == []


def test_series_without_numbers_are_held_together_by_their_processes() -> None:
    bare = RoundSeconds((1.0, 2.0), (1.0, 2.0), (0, 1))
    assert _align([bare, bare]) == [bare, bare]
    assert _align([bare, replace(bare, processes=(0, 0))]) == []
    assert _align([bare, numbered(4, 5)]) == [bare, numbered(4, 5)]
    assert _align([bare, numbered(4, 6)]) == []


def test_the_last_round_ends_the_measurement() -> None:
    rounds = [
        replace(step_round(n, at=at), took=took) for n, at, took in ((0, 1.0, 5.0), (1, 3.0, 1.0))
    ]
    assert seconds_spent(rounds) == 6.0
    assert seconds_spent([]) == 0.0


# --- two devices -------------------------------------------------------------------------------


def half_round(number: int, half: Literal[1, 2], base: float, head: float) -> Round:
    return Round(number, half - 1, "step", "base", 0.0, Turn((base,)), Turn((head,)), half=half)


def test_matching_rounds_of_both_halves_are_one() -> None:
    """In the first half the head is on the device that takes 1.25 times as long."""
    halves = [half_round(n, 1, 1.0 + n, 2.5 * (1.0 + n)) for n in range(3)]
    halves += [half_round(3 + n, 2, 1.25 * (1.0 + n), 2.0 * (1.0 + n)) for n in range(2)]
    found = series.step_series(halves)
    assert found.numbers == (0, 1)
    assert found.processes == (0, 0)
    assert [math.exp(log) for log in found.logs] == pytest.approx([2.0, 2.0])
    assert found.base == pytest.approx([1.25**0.5, 2 * 1.25**0.5])
    assert series.device_ratio(halves, "step") == pytest.approx(1.25)


def test_a_jump_of_the_clock_takes_both_halves_of_a_round() -> None:
    halves = [half_round(n, 1, 1.0, 1.0 if n else -1.0) for n in range(2)]
    halves += [half_round(2 + n, 2, 1.0, 1.0) for n in range(2)]
    found = series.step_series(halves)
    assert (found.numbers, found.dropped) == ((1,), 1)
