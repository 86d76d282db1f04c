from __future__ import annotations

import math

import pytest
from unit.search.oracles import GOOD, Exact, letters, run, subset

from perfcli.search.group import that_change_code
from perfcli.search.options import Subset

KEYS = tuple(f"{name}=True" for name in "bcdefghijklmnopq")


def oracle(awake: str) -> Exact[Subset]:
    """Of the keys only these change the code."""
    return Exact(lambda keys: GOOD, lambda keys: letters(keys & subset("a" + awake)))


def test_where_none_does_anything_one_test_is_enough() -> None:
    asked = oracle("")
    assert run(that_change_code(subset("a"), KEYS, ""), asked) == ()
    assert asked.asked() == [subset("a"), subset("a").union(KEYS)]


@pytest.mark.parametrize("awake", ["b", "q", "hi", "bcdefghijklmnopq"])
def test_those_that_do_are_found(awake: str) -> None:
    asked = oracle(awake)
    found = run(that_change_code(subset("a"), KEYS, ""), asked)
    assert letters(frozenset(found)) == awake
    assert len(asked.asked()) <= 2 + 2 * len(awake) * math.log2(len(KEYS))


def test_a_group_that_does_not_compile_is_split() -> None:
    """``d`` never does, and is not named."""
    asked = oracle("k")
    asked.code = lambda keys: None if "d=True" in keys else letters(keys & subset("ak"))
    assert run(that_change_code(subset("a"), KEYS, ""), asked) == ("k=True",)
