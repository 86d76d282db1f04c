"""The bound from few pairs: as often right as it says, whatever the spread and the number."""

from __future__ import annotations

import math
import random

import pytest

from perfcli.stats.floor import bound, factor


def test_factors_are_those_of_students_table() -> None:
    # Two-sided 1 % points of Student's t for 2, 3, 10, 30 degrees of freedom (any printed table).
    assert [round(factor(n), 3) for n in (2, 3, 10, 30)] == [9.925, 5.841, 3.169, 2.75]


def test_by_hand() -> None:
    # RMS of +1 % and −1 % (of the logarithm) is 1 %; two pairs: t = 9.925 at 99 %.
    found = bound([math.exp(0.01), math.exp(-0.01)])
    assert found == pytest.approx(math.exp(0.09925) - 1, rel=1e-4)


@pytest.mark.parametrize("pairs", [2, 3, 10])
@pytest.mark.parametrize("confidence", [0.9, 0.99])
def test_the_next_pair_stays_below_as_often_as_promised(pairs: int, confidence: float) -> None:
    rng = random.Random(pairs)
    repeats, beyond = 4000, 0
    for _ in range(repeats):
        *seen, following = (rng.gauss(0, 0.004) for _ in range(pairs + 1))
        limit = bound([math.exp(d) for d in seen], confidence)
        assert limit is not None
        beyond += abs(following) > math.log1p(limit)
    expected = repeats * (1 - confidence)
    assert abs(beyond - expected) < 4 * math.sqrt(expected)


def test_slower_and_faster_count_alike() -> None:
    assert bound([1.02, 1.01]) == pytest.approx(bound([1 / 1.02, 1.01]))


def test_pairs_without_any_difference_prove_no_floor() -> None:
    assert bound([1.0, 1.0]) == 0.0


@pytest.mark.parametrize("ratios", [[], [1.01], [1.0, 0.0], [1.0, -1.0], [1.0, math.nan]])
def test_what_cannot_be_computed(ratios: list[float]) -> None:
    assert bound(ratios) is None


def test_nonsense_does_not_overflow() -> None:
    found = bound([1e300, 1e-300])
    assert found is not None
    assert math.isfinite(found)
