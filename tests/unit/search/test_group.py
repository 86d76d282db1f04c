from __future__ import annotations

import math

import pytest
from unit.search.oracles import Exact, changes, letters, run, subset, transcript

from perfcli.search.best import Best
from perfcli.search.group import minimise, reduce, widen
from perfcli.search.question import Answer, Search, Subset

NAMES = "abcdefghijklmnop"
KEYS = tuple(f"{name}=True" for name in NAMES)


def new() -> Best:
    return Best({change.key: change for change in changes(NAMES)}, wants_lower=True)


def oracle(value: dict[str, int], broken: str = "") -> Exact[Subset]:
    """A set gains what all groups of letters do that it has; what is broken does not compile."""

    def truth(keys: Subset) -> Answer:
        return Answer("good", 100.0 - sum(g for names, g in value.items() if subset(names) <= keys))

    return Exact(truth, lambda keys: None if keys & subset(broken) else letters(keys))


def searched(best: Best, search: Search[Subset, Subset]) -> Search[Subset, Subset]:
    yield from best.ask(frozenset(), (), "")
    return (yield from search)


def wide(asked: Exact[Subset], best: Best, most: int = 99) -> str:
    return letters(run(searched(best, widen(best, frozenset(), KEYS, "", most)), asked))


def test_one_test_is_enough_where_none_does_harm() -> None:
    asked = oracle({})
    assert wide(asked, new()) == NAMES
    assert asked.asked() == [frozenset(), frozenset(KEYS)]


@pytest.mark.parametrize("harm", ["a", "p", "hi"])
def test_those_that_do_harm_are_left_out(harm: str) -> None:
    asked = oracle(dict.fromkeys(harm, -3))
    assert wide(asked, new()) == "".join(name for name in NAMES if name not in harm)
    assert len(asked.asked()) <= 2 + 2 * len(harm) * math.log2(len(KEYS))


def test_what_does_not_compile_is_left_out() -> None:
    assert wide(oracle({}, broken="dk"), new()) == "abcefghijlmnop"


def test_the_most_tests_are_kept() -> None:
    asked = oracle(dict.fromkeys(NAMES, -1))
    assert wide(asked, new(), most=5) == ""
    assert len(asked.asked()) == 1 + 5


@pytest.mark.parametrize(
    ("names", "harm", "asked"),
    [
        (
            "abcd",
            "b",
            ["abcd | ab", "ab | a cd", "cd | c a", "acd | bcd"],
        ),
        ("abcde", "e", ["abcde | abc", "abc | ab de", "abcd | abce"]),
        (
            "abcd",
            "abcd",
            ["abcd | ab", "ab | a cd", "cd | c a", "a | b c", "b | c d", "c | d", "d | -"],
        ),
    ],
)
def test_what_may_be_next_is_said(names: str, harm: str, asked: list[str]) -> None:
    """After what does harm its first half or the next group, after a single one the next two; the
    larger half comes first."""
    best = new()
    keys = tuple(f"{name}=True" for name in names)
    lines = transcript(
        searched(best, widen(best, frozenset(), keys, "", 99)), oracle(dict.fromkeys(harm, -3))
    )
    assert [line.removeprefix(": ").rsplit(" | ", 2)[0] for line in lines[1:]] == asked


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ({"a": 4, "b": 4, "ab": -4}, "ab"),  # 4 of 8
        ({"a": 4, "b": 4, "ab": -5}, "a"),
        ({"a": 4, "b": 4, "c": 2, "abc": -4}, "abc"),  # 4 of 8 on top of 2
        ({"a": 4, "b": 4, "c": 2, "abc": -5}, "ac"),
        ({"a": 4, "ac": -4, "c": 2, "abc": -9}, "ac"),  # one adds nothing, and does no harm
    ],
)
def test_several_stay_where_they_gain_half_of_what_they_do_alone(
    value: dict[str, int], found: str
) -> None:
    best = new()
    core = subset("c") if "c" in value else frozenset()

    def search() -> Search[Subset, Subset]:
        for name in ("", "a", "b", "c"):
            yield from best.ask(subset(name), (), "")
        return (yield from widen(best, core, KEYS[:2], "", 99))

    assert letters(run(search(), oracle(value))) == found


@pytest.mark.parametrize("needed", ["", "p", "ch", "bgn"])
def test_a_set_is_reduced_to_what_its_value_needs(needed: str) -> None:
    """``a`` is the core."""
    asked, best = oracle({"a": 2, f"a{needed}": 5}), new()

    def search() -> Search[Subset, None]:
        for keys in (frozenset(), frozenset(KEYS)):
            yield from best.ask(keys, (), "")
        yield from reduce(best, subset("a"))

    run(search(), asked)
    assert letters(best.subset) == f"a{needed}"
    assert len(asked.asked()) <= 2 + 1 + len(needed) * (math.log2(len(KEYS)) + 1)


def test_what_is_better_on_the_way_is_kept() -> None:
    """``p`` does harm in company: the set without it is better than the one to be reduced."""
    asked, best = oracle({"ab": 9, "ap": -4}), new()

    def search() -> Search[Subset, None]:
        for keys in (frozenset(), frozenset(KEYS)):
            yield from best.ask(keys, (), "")
        yield from reduce(best, subset("a"))
        yield from minimise(best)

    run(search(), asked)
    assert (letters(best.subset), best.gain(best.subset)) == ("ab", 9.0)


def test_a_part_that_is_better_still_is_taken_down_in_its_turn() -> None:
    """Of a to h, which gain 6, c alone does; but abcd, tried on the way, gains 9 since h takes 3,
    and needs all but b for it."""
    asked, best = oracle({"c": 6, "d": 3, "h": -3}), new()

    def search() -> Search[Subset, None]:
        for keys in (frozenset(), subset("abcdefgh")):
            yield from best.ask(keys, (), "")
        yield from reduce(best, subset("az"))

    run(search(), asked)
    assert (letters(best.subset), best.gain(best.subset)) == ("acd", 9.0)


def test_minimal_drops_until_each_change_is_needed() -> None:
    """``c`` is superfluous beside ``b`` only as long as ``d`` is there."""
    asked, best = oracle({"a": 5, "b": 3, "c": 1, "bd": -1, "bcd": 1, "cd": -1}), new()

    def search() -> Search[Subset, None]:
        for keys in (frozenset(), subset("abcd")):
            yield from best.ask(keys, (), "")
        yield from minimise(best)

    run(search(), asked)
    assert (letters(best.subset), best.gain(best.subset)) == ("abc", 9.0)
    assert all(subset("abc") - {key} in best.seen for key in subset("abc"))
