"""Which budget is proposed where a measurement could not tell."""

from __future__ import annotations

import pytest

from perfcli.diff.verdict.words import _advise
from perfcli.model import Floor, TimeChange, Timing


@pytest.mark.parametrize(
    ("rounds", "says"),
    [
        # 33 s a round, of which 8 are needed: 264 s.
        (1, "--budget 300 may tell"),
        (3, "--budget 120 may tell"),
        (0, "a quieter machine"),
    ],
)
def test_too_few_rounds_need_time(rounds: int, says: str) -> None:
    step = TimeChange(47.35e-3, 45.56e-3, 0.962, rounds=rounds)
    assert _advise(Timing(step, Floor(0.01, "assumed"), seconds=33.0)) == says


@pytest.mark.parametrize(
    ("low", "high", "says"),
    [
        # Half of the interval is 1 %: 7.1 times as long makes it a quarter of the margin's 1.5 %.
        (0.99, 1.01, "--budget 300 may tell"),
        (1.02, 1.03, "larger than the margin of 1.5 % and below the floor of 4 %"),
        (0.97, 0.98, "larger than the margin of 1.5 % and below the floor of 4 %"),
        (1.0125, 1.0175, "about as large as the margin"),
    ],
)
def test_a_high_floor_is_not_what_same_needs(low: float, high: float, says: str) -> None:
    step = TimeChange(10e-3, 10e-3, (low + high) / 2, low, high, rounds=100)
    floor = Floor(0.04, "perfcli noise", margin=0.015)
    assert says in _advise(Timing(step, floor, seconds=33.0))


def test_without_a_margin_the_floor_counts() -> None:
    step = TimeChange(10e-3, 10e-3, 1.04, 1.035, 1.045, rounds=100)
    says = _advise(Timing(step, Floor(0.04, "assumed"), seconds=33.0))
    assert "about as large as the floor" in says


@pytest.mark.parametrize(
    ("needed", "budget"),
    [(30, 30), (31, 60), (60, 60), (61, 120), (120, 120), (121, 300), (300, 300), (301, 600),
     (600, 600), (601, 1200), (1200, 1200), (1201, None)],
)  # fmt: skip
def test_the_least_of_the_budgets_that_is_enough(needed: int, budget: int | None) -> None:
    """One round took an eighth of what eight will take."""
    step = TimeChange(1.0, 1.0, 1.0, rounds=1)
    says = _advise(Timing(step, Floor(0.01, "assumed"), seconds=needed / 8))
    assert says == (f"--budget {budget} may tell" if budget else "a quieter machine")
