"""The algorithm alone, without what narrows before it."""

from __future__ import annotations

import pytest
from unit.search.oracles import BAD, GOOD, UNRESOLVED, Exact, letters, planted, run, subset

from perfcli.search.ddmin import ddmin
from perfcli.search.question import Answer, Subset

EIGHT = tuple(sorted(subset("12345678")))


def test_parts_then_what_is_left_without_each() -> None:
    """1, 7 and 8 are needed, of eight: the order of the algorithm by hand."""
    oracle = Exact(planted("178"))
    assert letters(frozenset(run(ddmin(EIGHT), oracle))) == "178"
    tried = [letters(keys) for keys in oracle.asked()]
    assert tried[:8] == ["1234", "5678", "12", "34", "56", "78", "345678", "125678"]


def test_unresolved_is_not_bad() -> None:
    """Each half alone has no answer, nor has any part with one of the two."""

    def truth(keys: Subset) -> Answer:
        if subset("27") <= keys:
            return BAD
        return UNRESOLVED if keys & subset("27") else GOOD

    assert letters(frozenset(run(ddmin(EIGHT), Exact(truth)))) == "27"


def test_one_of_eight_is_bisected() -> None:
    oracle = Exact(planted("7"))
    assert letters(frozenset(run(ddmin(EIGHT), oracle))) == "7"
    assert [letters(keys) for keys in oracle.asked()] == ["1234", "5678", "56", "78", "7"]


@pytest.mark.parametrize("size", range(1, 9))
def test_all_are_needed(size: int) -> None:
    """At most n**2 + 3 n tests: the bound that Zeller and Hildebrandt prove."""
    keys = EIGHT[:size]
    oracle = Exact(planted(letters(frozenset(keys))))
    assert run(ddmin(keys), oracle) == keys
    assert len(oracle.asked()) <= size**2 + 3 * size
