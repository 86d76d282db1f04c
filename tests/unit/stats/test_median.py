from __future__ import annotations

import random

import pytest

from perfcli.stats.paired import Median, median


def test_no_values_have_no_median() -> None:
    assert median([]) is None


@pytest.mark.parametrize(
    ("count", "rank"),
    # Hollander, Wolfe, Chicken, table of the sign test: 95 %, ranks of the lower end.
    [(6, 1), (8, 1), (9, 2), (12, 3), (20, 6), (25, 8), (40, 14)],
)
def test_the_ends_are_the_values_that_the_binomial_distribution_names(
    count: int, rank: int
) -> None:
    values = [float(n) for n in range(1, count + 1)]
    random.Random(1).shuffle(values)
    found = median(values)
    assert found == Median((count + 1) / 2, float(rank), float(count + 1 - rank))


def test_five_values_are_too_few_for_95_percent() -> None:
    assert median([3.0, 1.0, 2.0, 5.0, 4.0]) == Median(3.0)
    assert median([3.0, 1.0, 2.0, 5.0, 4.0], 0.9) == Median(3.0, 1.0, 5.0)


def test_the_interval_holds_the_truth_as_often_as_it_says() -> None:
    draw = random.Random(7)
    held = 0
    for _ in range(1000):
        found = median([draw.expovariate(1.0) for _ in range(15)])
        assert found is not None and found.low is not None and found.high is not None
        held += found.low <= 0.6931 <= found.high
    # 15 values: P = 96.5 %; three standard deviations of 1000 draws
    assert 0.948 <= held / 1000 <= 0.982
