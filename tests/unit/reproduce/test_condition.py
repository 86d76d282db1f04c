"""Conditions of claims: what they evaluate to, and which facts they are about."""

from __future__ import annotations

import pytest

from perfcli.reproduce.condition import FactMissing, Facts, holds, list_facts

SIDES: dict[str, Facts] = {
    "good": {"kernels": 3.0, "peak": None},
    "bad": {"kernels": 5.0, "peak": 8.0},
}


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("bad.kernels > good.kernels", True),
        ("bad.kernels >= 1.8 * good.kernels", False),
        ("bad.kernels - good.kernels == 2", True),
        ("bad.kernels / 2 <= 2.5 and bad.peak == 8", True),
        ("bad.kernels < 5 or bad.peak != 8", False),
    ],
)
def test_it_compares_numbers(condition: str, expected: bool) -> None:
    assert holds(condition, SIDES) is expected


@pytest.mark.parametrize("condition", ["good.peak < 3", "bad.kernels == 5 or good.peak < 3"])
def test_what_is_not_known_is_said(condition: str) -> None:
    with pytest.raises(FactMissing, match=r"good\.peak"):
        holds(condition, SIDES)


@pytest.mark.parametrize("condition", ["__import__('os')", "bad.kernels", "bad.kernels ** 2 > 3"])
def test_nothing_else_is_evaluated(condition: str) -> None:
    if condition == "bad.kernels":
        assert holds(condition, SIDES)  # a number that is not 0
        return
    with pytest.raises((ValueError, KeyError)):
        holds(condition, SIDES)


def test_facts_are_listed_once_in_order() -> None:
    condition = "bad.b > 2 * good.a and bad.b < 9"
    assert list_facts(condition) == [("bad", "b"), ("good", "a")]
