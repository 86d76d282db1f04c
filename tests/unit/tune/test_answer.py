"""Ratios: gains, what is likely, and the quotient of two."""

from __future__ import annotations

import math
import random

import pytest

from perfcli.tune.answer import SAME, Ratio


def test_the_quotient_of_independent_ratios_is_as_wide_as_both() -> None:
    # ±3 % and ±4 % of logarithms make ±5 %.
    one = Ratio(0.8, 0.8 * math.exp(-0.03), 0.8 * math.exp(0.03))
    other = Ratio(0.9, 0.9 * math.exp(-0.04), 0.9 * math.exp(0.04))
    found = one.over(other)
    assert found.ratio == pytest.approx(0.8 / 0.9)
    assert math.log(found.high / found.ratio) == pytest.approx(0.05)
    assert math.log(found.ratio / found.low) == pytest.approx(0.05)


def test_the_gain_is_what_is_saved() -> None:
    assert Ratio(0.75, 0.7, 0.8).gain == 0.25
    assert SAME.gain == 0


def test_what_is_likely_lies_between_the_ratio_and_its_upper_end() -> None:
    """Of a normal distribution: drawn, 7 of 10 lie below it where 19 of 20 lie below the end."""
    dice = random.Random(7)
    drawn = sorted(0.8 * math.exp(dice.gauss(0, 0.1)) for _ in range(100_000))
    found = Ratio(0.8, drawn[5_000], drawn[95_000])
    assert found.likely == pytest.approx(drawn[70_000], rel=2e-3)
    assert SAME.likely == 1
