"""The simulation of bench/, short: its numbers, and that it can tell a bad search from a good."""

from __future__ import annotations

import random
from statistics import mean

import pytest
from search_simulation import (
    METHODS,
    Told,
    by_log_ratio,
    by_plain_ddmin,
    by_sequential_ddmin,
    by_yes_no,
    plant,
    rows,
)

RUNS = 100


def told(method: str, sizes: tuple[int, ...], error: float = 0.05) -> list[Told]:
    search = METHODS[method]
    return [search(plant(24, sizes, error, random.Random(seed))) for seed in range(RUNS)]


@pytest.mark.parametrize("method", ["perfcli, yes or no", "perfcli, log ratio"])
@pytest.mark.parametrize(
    ("sizes", "tests"), [((1,), 42), ((2,), 106), ((1, 1), 106), ((3,), 150), ((1, 2), 150)]
)
def test_planted_culprits_are_found(method: str, sizes: tuple[int, ...], tests: int) -> None:
    found = told(method, sizes)
    assert sum(one.exact for one in found) >= 0.98 * RUNS
    assert mean(one.tests for one in found) <= tests
    assert not any(one.crashed for one in found)


def test_a_plain_yes_or_no_is_often_wrong_or_crashes() -> None:
    """Of 300 runs each 63 % and 24 % were exact, 35 % and 74 % crashed, when picire was measured
    the same way."""
    one, two = (told("ddmin, plain yes or no", sizes) for sizes in ((1,), (2,)))
    assert abs(sum(each.exact for each in one) / RUNS - 0.63) < 0.15
    assert abs(sum(each.exact for each in two) / RUNS - 0.24) < 0.15
    assert abs(sum(each.crashed for each in one) / RUNS - 0.35) < 0.15
    assert abs(sum(each.crashed for each in two) / RUNS - 0.74) < 0.15


@pytest.mark.parametrize("search", [by_yes_no, by_plain_ddmin, by_sequential_ddmin])
def test_without_noise_all_are_right(search: object) -> None:
    (name,) = [name for name, method in METHODS.items() if method is search]
    assert all(one.exact for one in told(name, (2,), error=0.0))


def test_the_seed_decides() -> None:
    once, again = (by_log_ratio(plant(24, (1, 2), 0.05, random.Random(7))) for _ in range(2))
    assert once == again


def test_the_table_has_every_cell() -> None:
    lines = list(rows(2, 24, 0.05, 1))
    assert len(lines) == 2 + 3 * 4 + 3 * 2
    assert lines == list(rows(2, 24, 0.05, 1))
