"""The sequential rule: few looks, precision and not significance."""

from __future__ import annotations

import itertools
import math
import random
from dataclasses import replace

import pytest

from perfcli.model import Round, RoundKind, Turn
from perfcli.stats import paired, series, stopping


def rounds(n: int, spread: float, *, change: float = 0.0, kind: RoundKind = "step") -> list[Round]:
    dice = random.Random(n)

    def turn(factor: float) -> Turn:
        return Turn((0.01 * factor * dice.lognormvariate(0, spread),))

    return [Round(i, 0, kind, "base", i * 0.04, turn(1), turn(1 + change)) for i in range(n)]


def test_looks_grow_geometrically() -> None:
    looks = [n for n in range(1, 1000) if stopping.is_look(n)]
    assert looks[:4] == [30, 39, 51, 67]
    assert all(1.25 < b / a < 1.36 for a, b in itertools.pairwise(looks))


def test_quiet_rounds_are_enough_at_the_first_look_and_not_between_looks() -> None:
    assert stopping.reason_to_stop(rounds(30, 0.002), 0.015) == "precise enough"
    assert stopping.reason_to_stop(rounds(29, 0.002), 0.015) is None
    assert stopping.reason_to_stop(rounds(31, 0.002), 0.015) is None


def test_a_second_is_measured_however_quiet_it_is() -> None:
    hasty = [replace(r, at=r.at / 2) for r in rounds(30, 0.002)]
    assert stopping.reason_to_stop(hasty, 0.015) is None


def test_noisy_rounds_go_on_however_significant_the_change() -> None:
    significant = rounds(30, 0.05, change=0.06)
    assert stopping.reason_to_stop(significant, 0.015) is None


def test_a_large_change_need_not_be_known_as_well() -> None:
    assert stopping.reason_to_stop(rounds(30, 0.05), 0.015) is None
    assert stopping.reason_to_stop(rounds(30, 0.05, change=1.0), 0.015) == "precise enough"


def test_profiled_rounds_do_not_count() -> None:
    profiled = rounds(30, 0.002, kind="kernels")
    assert stopping.reason_to_stop(profiled, 0.015) is None
    assert stopping.reason_to_stop([*rounds(30, 0.002), *profiled], 0.015) == "precise enough"


def test_a_clock_that_jumped_is_left_out() -> None:
    jumped = Round(30, 0, "step", "base", 1.2, Turn((-1.0,)), Turn((0.01,)))
    assert stopping.reason_to_stop([*rounds(29, 0.002), jumped], 0.015) == "precise enough"


def test_the_last_round_counts_as_time_spent() -> None:
    made = [Round(i, 0, "step", "base", i * 0.03, Turn(()), Turn(()), 0.02) for i in range(3)]
    assert series.seconds_spent(made) == pytest.approx(0.08)
    assert series.seconds_spent([]) == 0


@pytest.mark.parametrize(
    ("width", "change", "narrow"),
    [
        (0.05, 0.5, True),  # a tenth of the change
        (0.052, 0.5, False),
        (0.0025, 0.0, True),  # a quarter of the floor of 1 %
        (0.0026, 0.0, False),
    ],
)
def test_a_quarter_of_the_floor_or_a_tenth_of_the_change(
    width: float, change: float, narrow: bool
) -> None:
    low, high = math.exp(change - 0.9999 * width), math.exp(change + 0.9999 * width)
    estimate = paired.Estimate(math.exp(change), low, high, rounds=40)
    assert stopping._is_narrow(estimate, 0.01) is narrow
