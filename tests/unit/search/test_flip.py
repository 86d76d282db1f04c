from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from unit.search.oracles import BAD, GOOD, UNRESOLVED, Exact, run

from perfcli.search.numeric import MOST_UNRESOLVED, find_flip
from perfcli.search.question import Answer, Query, Search


def ask(place: int, maybe: tuple[int, ...], suspects: int) -> Search[int, Answer]:
    answer = yield Query(place, maybe, suspects=suspects)
    return answer


def flipping_at(first_bad: int) -> Callable[[int], Answer]:
    return lambda place: BAD if place >= first_bad else GOOD


@pytest.mark.parametrize("places", [1, 2, 3, 24, 64, 100])
def test_every_place_is_found(places: int) -> None:
    for first_bad in range(1, places + 1):
        oracle = Exact(flipping_at(first_bad))
        assert run(find_flip(0, places, ask), oracle) == (first_bad - 1, first_bad)
        assert len(oracle.asked()) <= math.ceil(math.log2(places))


def test_what_has_no_answer_is_passed_over() -> None:
    oracle: Exact[int] = Exact(
        lambda place: UNRESOLVED if place in (15, 16, 17) else BAD if place >= 21 else GOOD
    )
    assert run(find_flip(0, 32, ask), oracle) == (20, 21)
    assert oracle.asked()[:4] == [16, 15, 17, 14]


def test_a_gap_without_answers_stays() -> None:
    oracle: Exact[int] = Exact(
        lambda place: UNRESOLVED if 10 <= place < 14 else BAD if place >= 14 else GOOD
    )
    assert run(find_flip(0, 32, ask), oracle) == (9, 14)


def test_a_long_gap_is_given_up() -> None:
    oracle: Exact[int] = Exact(lambda place: UNRESOLVED)
    assert run(find_flip(0, 10**9, ask), oracle) == (0, 10**9)
    assert len(oracle.asked()) == MOST_UNRESOLVED
