"""Against scipy, all Walsh averages listed, and cases counted by hand."""

from __future__ import annotations

import itertools
import math
import random
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfcli.model import Turn
from perfcli.stats import paired

times = st.lists(
    st.tuples(st.floats(1e-6, 10), st.floats(1e-6, 10)), min_size=6, max_size=40, unique=True
)


def noisy(n: int, change: float = 0.0, seed: int = 0) -> tuple[list[float], list[float]]:
    """Seconds of n rounds; head takes ``change`` more."""
    dice = random.Random(seed)
    base = [0.01 * dice.lognormvariate(0, 0.05) for _ in range(n)]
    return base, [0.01 * (1 + change) * dice.lognormvariate(0, 0.05) for _ in range(n)]


def listed(values: list[float]) -> list[float]:
    return sorted((a + b) / 2 for a, b in itertools.combinations_with_replacement(values, 2))


def test_three_values_by_hand() -> None:
    # Walsh averages of 0, 1, 2: 0, 0.5, 1, 1, 1.5, 2
    assert paired._order_statistics([2.0, 0.0, 1.0], range(6)) == [0, 0.5, 1, 1, 1.5, 2]


def test_the_null_distribution_is_that_of_all_signs() -> None:
    n = 9
    sums = sorted(
        sum(rank for rank, up in zip(range(1, n + 1), signs, strict=True) if up)
        for signs in itertools.product((False, True), repeat=n)
    )
    for confidence in (0.8, 0.9, 0.95, 0.99):
        rank = paired._interval_rank(n, confidence)
        assert rank is not None
        tail = (1 - confidence) / 2
        assert sum(s <= rank for s in sums) / 2**n <= tail < sum(s <= rank + 1 for s in sums) / 2**n


@pytest.mark.parametrize(("n", "rank"), [(5, None), (6, 0), (10, 8), (20, 52), (50, 434)])
def test_ranks_are_those_of_the_printed_tables(n: int, rank: int | None) -> None:
    """Critical values of the signed-rank statistic at 2.5 % a side (Wilcoxon 1945; any table)."""
    assert paired._interval_rank(n, 0.95) == rank


def test_the_normal_approximation_continues_the_counted_one() -> None:
    counted, normal = paired._interval_rank(100, 0.95), paired._interval_rank(101, 0.95)
    assert counted is not None
    assert normal is not None
    assert 0 < normal - counted < 60


@pytest.mark.parametrize("n", [65, 66, 130, 301])
@pytest.mark.parametrize("digits", [2, 12])
def test_counting_finds_what_listing_finds(n: int, digits: int) -> None:
    dice = random.Random(n)
    values = [round(dice.gauss(0, 1) / dice.random(), digits) for _ in range(n)]
    all_of_them = listed(values)
    ranks = [0, 1, n, len(all_of_them) // 3, *paired._middle_ranks(n), len(all_of_them) - 1]
    assert paired._order_statistics(values, ranks) == pytest.approx([all_of_them[r] for r in ranks])


@pytest.mark.parametrize("n", [6, 17, 40])
def test_the_interval_is_where_scipy_stops_rejecting(n: int) -> None:
    from scipy.stats import wilcoxon

    base, head = noisy(n, 0.02, seed=n)
    logs = paired._log_ratios(base, head)
    made = paired.compare(base, head)
    assert made.low is not None
    assert made.high is not None

    def p(ratio: float) -> float:
        return float(wilcoxon([v - math.log(ratio) for v in logs], method="exact").pvalue)

    assert p(made.low * (1 - 1e-9)) <= 0.05 < p(made.low * (1 + 1e-9))
    assert p(made.high * (1 + 1e-9)) <= 0.05 < p(made.high * (1 - 1e-9))


@given(times)
def test_swapping_the_sides_inverts_the_ratio(rounds: list[tuple[float, float]]) -> None:
    base, head = [r[0] for r in rounds], [r[1] for r in rounds]
    made, swapped = paired.compare(base, head), paired.compare(head, base)
    assert made.ratio == pytest.approx(1 / (swapped.ratio or 0))
    if made.low is not None and made.high is not None:
        assert made.low == pytest.approx(1 / (swapped.high or 0))
        assert made.low <= (made.ratio or 0) <= made.high


@given(times, st.floats(1e-3, 1e3))
def test_units_do_not_matter(rounds: list[tuple[float, float]], factor: float) -> None:
    base, head = [r[0] for r in rounds], [r[1] for r in rounds]
    scaled = paired.compare([b * factor for b in base], [h * factor for h in head])
    assert scaled.ratio == pytest.approx(paired.compare(base, head).ratio)


def test_a_planted_change_is_found() -> None:
    made = paired.compare(*noisy(400, 0.03, seed=1))
    assert made.ratio == pytest.approx(1.03, abs=0.008)
    assert made.low is not None
    assert made.low > 1


def test_rounds_that_took_a_hundred_times_as_long_hardly_matter() -> None:
    base, head = noisy(200, 0.03, seed=2)
    spoiled = [h * 100 if i % 20 == 0 else h for i, h in enumerate(head)]
    assert paired.compare(base, spoiled).ratio == pytest.approx(
        paired.compare(base, head).ratio or 0, rel=0.01
    )


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_what_is_no_time_gives_no_ratio(bad: float) -> None:
    base, head = noisy(10)
    made = paired.compare([*base[:-1], bad], head)
    assert (made.ratio, made.low) == (None, None)
    assert "positive" in made.why


def test_too_few_rounds_have_a_ratio_and_no_interval() -> None:
    made = paired.compare(*noisy(5))
    assert made.ratio is not None
    assert made.low is None
    assert made.why == "5 rounds are too few for 95 %"
    assert paired.compare([], []).why == "no round was measured"
    assert paired.compare(*noisy(7), confidence=0.99).low is None
    assert paired.compare(*noisy(8), confidence=0.99).low is not None


def test_values_without_any_spread_have_no_interval() -> None:
    made = paired.compare([1.0] * 20, [2.0] * 20)
    assert made.ratio == pytest.approx(2)
    assert made.low is None
    assert "same ratio" in made.why
    assert paired._p_value([0.0] * 20) is None


def test_unlike_lengths_are_a_fault_of_the_caller() -> None:
    with pytest.raises(ValueError, match="zip"):
        paired.compare([1.0], [1.0, 2.0])


def test_a_turn_is_the_median_of_its_steps() -> None:
    assert paired._turn_value(Turn((3.0, 1.0, 2.0))) == 2.0
    assert paired._turn_value(Turn((3.0, 1.0), wall=(5.0, 7.0)), wall=True) == 6.0
    assert paired._turn_value(Turn((3.0, 1.0, 2.0), preempted=(0, 1, 0))) == 2.5  # the calm ones
    assert paired._turn_value(Turn((3.0, 1.0, 2.0), preempted=(1, 2, 1))) == 2.0  # none is calm
    assert paired._turn_value(Turn(())) is None
    assert paired._turn_value(Turn((1.0, -0.5, 2.0))) is None


@pytest.mark.parametrize(("n", "shape"), [(12, 3.0), (40, 2.0), (150, 3.0)])
def test_the_interval_holds_the_truth_as_often_as_it_says(n: int, shape: float) -> None:
    """Heavy tails (Student's t as normal over chi), 600 repetitions with a fixed seed."""
    dice = random.Random(7)

    def tailed() -> float:
        return 0.03 * dice.gauss(0, 1) / math.sqrt(dice.gammavariate(shape / 2, 2) / shape)

    held = 0
    for _ in range(600):
        made = paired.estimate_logs([tailed() - tailed() + 0.02 for _ in range(n)])
        held += (made.low or 9) <= math.exp(0.02) <= (made.high or 0)
    assert 0.92 <= held / 600 <= 0.98


def test_the_estimate_is_the_median_of_the_averages() -> None:
    logs = paired._log_ratios(*noisy(33, seed=3))
    assert math.log(paired.estimate_logs(logs).ratio or 0) == pytest.approx(
        statistics.median(listed(logs))
    )


# --- ranks of averages at their bounds -------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "ranks"), [(1, (0, 0)), (2, (1, 1)), (3, (2, 3)), (4, (4, 5)), (5, (7, 7)), (6, (10, 10))]
)
def test_the_ranks_in_the_middle(n: int, ranks: tuple[int, int]) -> None:
    assert paired._middle_ranks(n) == ranks


@pytest.mark.parametrize("n", [1, 2, 63, 64, 65])
def test_every_rank_is_found_in_the_order_that_was_asked_for(n: int) -> None:
    dice = random.Random(n)
    values = [dice.gauss(0, 1) for _ in range(n)]
    expected = listed(values)
    ranks = [len(expected) - 1, 0, len(expected) // 2, 0]
    assert paired._order_statistics(values, ranks) == pytest.approx([expected[r] for r in ranks])


@pytest.mark.parametrize("n", [3, 8, 20, 66])
def test_a_selected_average_is_that_of_its_rank(n: int) -> None:
    """The bisection alone, of few values too, with ties and without; to the last digit."""
    dice = random.Random(n)
    for values in (
        [dice.gauss(0, 1) for _ in range(n)],
        [float(dice.randrange(3)) for _ in range(n)],
        [-5.0] * (n - 1) + [7.0],
        [2.0] * n,
    ):
        ordered, expected = np.sort(np.array(values)), listed(values)
        for rank in {*range(0, len(expected), max(len(expected) // 60, 1)), len(expected) - 1}:
            assert paired._select(ordered, rank) == expected[rank]


def test_the_chances_of_three_signs() -> None:
    """Sums of a part of 1, 2 and 3: each of the 8 parts is as likely."""
    assert paired._signed_rank(3) == (1 / 8, 1 / 8, 1 / 8, 2 / 8, 1 / 8, 1 / 8, 1 / 8)
    assert paired._signed_rank(0) == (1.0,)


@pytest.mark.parametrize(
    ("n", "confidence", "rank"),
    [
        (2, 0.5, 0),  # exactly a quarter lies at the end
        (2, 0.51, None),
        (3, 0.75, 0),
        (3, 0.5, 1),
        (1, 0.5, None),
    ],
)
def test_a_tail_that_is_met_exactly_counts(n: int, confidence: float, rank: int | None) -> None:
    assert paired._interval_rank(n, confidence) == rank


@pytest.mark.parametrize(("confidence", "z"), [(0.95, 1.959964), (0.99, 2.575829)])
@pytest.mark.parametrize("n", [101, 400])
def test_above_a_hundred_values_the_normal_distribution_tells(
    n: int, confidence: float, z: float
) -> None:
    """Mean n(n + 1) / 4 and variance n(n + 1)(2n + 1) / 24 of the signed-rank statistic."""
    mean, spread = n * (n + 1) / 4, math.sqrt(n * (n + 1) * (2 * n + 1) / 24)
    assert paired._interval_rank(n, confidence) == math.floor(mean - z * spread)


def test_a_hundred_values_are_counted() -> None:
    total = list(itertools.accumulate(paired._signed_rank(100)))
    rank = paired._interval_rank(100, 0.95)
    assert rank is not None
    assert total[rank] <= 0.025 < total[rank + 1]
