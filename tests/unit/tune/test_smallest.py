"""The smallest set that keeps most of the gain, against sets that were counted by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from perfcli.search.question import Subset
from perfcli.tune.answer import Ratio, Tried
from perfcli.tune.smallest import find_single, find_smallest


def sure(ratio: Ratio) -> bool:
    return ratio.high < 1


def smallest(
    gains: Mapping[str, float],
    *,
    apart: float = 0.0,
    unknown: Sequence[Subset] = (),
) -> tuple[Subset, int]:
    """Return what is found where gains add up, and how many sets were looked at. ``apart``: half
    the width of each interval."""
    looked = 0

    def ratio(subset: Subset) -> Ratio:
        value = 1 - sum(gains[key] for key in subset)
        return Ratio(value, value - apart, value + apart)

    def on_top(subset: Subset) -> Ratio:
        value = ratio(frozenset(gains)).ratio / ratio(subset).ratio
        return Ratio(value, value - apart, value + apart)

    def look(sets: Sequence[Subset]) -> list[tuple[Ratio, Ratio] | None]:
        nonlocal looked
        looked += len(sets)
        return [None if subset in unknown else (ratio(subset), on_top(subset)) for subset in sets]

    found = find_smallest([*gains], ratio(frozenset(gains)), look, sure)
    return found, looked


def test_what_adds_less_than_a_twentieth_is_dropped() -> None:
    # 0.049 of 0.05 is 98 %; both of the small ones would be 4 % more.
    assert smallest({"a": 0.047, "b": 0.002, "c": 0.001}) == (frozenset("ab"), 5)


def test_what_adds_a_two_hundredth_of_the_time_is_kept() -> None:
    """0.51 of 0.52 is 98 %; what is left takes 0.48, which 0.01 adds to by 2 %."""
    assert smallest({"a": 0.51, "b": 0.01})[0] == frozenset("ab")
    assert smallest({"a": 0.51, "b": 0.002})[0] == frozenset("a")


def test_one_option_that_has_it_all_is_enough() -> None:
    assert smallest({"a": 0.2, "b": 0.0}) == (frozenset("a"), 2)


def test_all_are_kept_that_are_needed() -> None:
    assert smallest({"a": 0.1, "b": 0.1}) == (frozenset("ab"), 2)


def test_a_set_without_an_answer_is_passed_over() -> None:
    gains = {"a": 0.2, "b": 0.001, "c": 0.001}
    assert smallest(gains, unknown=[frozenset("a")])[0] == frozenset("ac")


def test_a_set_that_is_not_surely_faster_is_none() -> None:
    # 0.2 gained, give or take 0.1995: only what keeps all of it is surely faster.
    assert smallest({"a": 0.199, "b": 0.001}, apart=0.1995)[0] == frozenset("ab")


def test_where_the_best_set_is_not_surely_faster_a_change_is_taken_that_is() -> None:
    tried = [
        Tried({}, frozenset("a"), Ratio(0.7, 0.4, 1.1)),
        Tried({}, frozenset("b"), Ratio(0.9, 0.85, 0.95)),
        Tried({}, frozenset("c"), Ratio(0.8, 0.75, 0.95)),
    ]
    assert find_single(tried, sure) == frozenset("c")
    assert find_single(tried[:1], sure) == frozenset()


@pytest.mark.parametrize("count", [3, 9])
def test_options_are_dropped_one_at_a_time(count: int) -> None:
    gains = {"a": 0.2, "b": 0.2} | {f"x{number}": 0.0 for number in range(count - 2)}
    found, looked = smallest(gains)
    assert found == frozenset("ab")
    assert looked <= count * (count + 1) / 2
