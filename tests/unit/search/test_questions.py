"""All that a search asks, in order, held against files: whoever has idle cores compiles what may
be next. ``PERFCLI_UPDATE_GOLDEN=1`` writes them anew."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from unit.search.oracles import (
    BAD,
    GOOD,
    UNRESOLVED,
    Exact,
    changes,
    own_class,
    planted,
    subset,
    transcript,
)

from perfcli.search.culprits import find_culprits
from perfcli.search.improve import find_best
from perfcli.search.numeric import Value, search_float, search_integer
from perfcli.search.question import Answer, OptionChange, Subset

FOLDER = Path(__file__).parents[2] / "fixtures" / "questions"
CATALOGUE = [
    *(OptionChange(name, 0, value) for name in "abc" for value in (1, 2)),
    *(OptionChange(name, 0, 1, rank=1) for name in "nqs"),
]


def culprits(among: str, *sets: str) -> list[str]:
    return transcript(find_culprits(changes(among)), Exact(planted(*sets)))


def halves_without_an_answer() -> list[str]:
    """2 and 7 are bad together; whatever has one of the two has no answer."""

    def truth(keys: Subset) -> Answer:
        if subset("27") <= keys:
            return BAD
        return UNRESOLVED if keys & subset("27") else GOOD

    return transcript(find_culprits(changes("12345678")), Exact(truth))


def one_that_matters_beside_another() -> list[str]:
    """``m`` alone changes no code, ``c`` is bad with it alone."""
    code: Callable[[Subset], str] = lambda keys: own_class(  # noqa: E731
        keys if subset("c") <= keys else keys - subset("m")
    )
    return transcript(find_culprits(changes("abcdm")), Exact(planted("cm"), code))


def best(spills: Callable[[dict[str, int]], float], most_pairs: int = 50) -> list[str]:
    """``s`` never changes the code, ``q`` only beside the second value of ``b``."""

    def values(keys: Subset) -> dict[str, int]:
        return {**dict.fromkeys("abcnqs", 0), **{key[0]: int(key[2:]) for key in keys}}

    def code(keys: Subset) -> str:
        return own_class(keys - {"s=1"} - (frozenset() if "b=2" in keys else {"q=1"}))

    oracle = Exact(lambda keys: Answer("good", float(spills(values(keys)))), code)
    return transcript(find_best(CATALOGUE, most_pairs=most_pairs), oracle)


def gains(o: dict[str, int]) -> float:
    return 100 - (0, 10, 30)[o["a"]] + o["b"] - (0, 5, 5)[o["c"]] + 4 * bool(o["a"] and o["c"])


def gap(value: Value) -> Answer:
    if 48 <= int(value) < 53:
        return UNRESOLVED
    return BAD if int(value) >= 61 else GOOD


def up_to(threshold: float) -> Callable[[Value], Answer]:
    return lambda value: BAD if float(value) <= threshold else GOOD


def above(threshold: float) -> Callable[[Value], Answer]:
    return lambda value: BAD if float(value) >= threshold else GOOD


@pytest.mark.parametrize(
    ("name", "ask"),
    [
        ("one culprit", lambda: culprits("abcde", "c")),
        ("two culprits", lambda: culprits("abcdefgh", "b", "df")),
        ("three together", lambda: culprits("abcdef", "ace")),
        ("halves without an answer", halves_without_an_answer),
        ("one that matters beside another", one_that_matters_beside_another),
        ("what adds up", lambda: best(gains)),
        ("nothing helps", lambda: best(lambda o: 100 + sum(o.values()))),
        (
            "what helps beside another",
            lambda: best(lambda o: gains(o) - 60 * (o["b"] == 2 and o["q"] == 1)),
        ),
        ("two that help together", lambda: best(lambda o: 100 - 40 * (o["n"] * o["b"] == 2))),
        ("few pairs", lambda: best(lambda o: gains(o) - 60 * (o["b"] == 2 and o["n"] == 1), 2)),
        ("an integer", lambda: transcript(search_integer(0, 100), Exact(gap))),
        ("a smaller integer", lambda: transcript(search_integer(9, -9), Exact(up_to(-3)))),
        ("a float", lambda: transcript(search_float(1e-3, 1.0, 0.1), Exact(above(0.3)))),
        ("below zero", lambda: transcript(search_float(-0.5, -0.1, 0.1), Exact(above(-0.3)))),
        ("around zero", lambda: transcript(search_float(-1.0, 2.0, 0.1), Exact(above(0.3)))),
    ],
)
def test_all_that_is_asked(name: str, ask: Callable[[], list[str]]) -> None:
    text = "".join(f"{line}\n" for line in ask())
    path = FOLDER / f"{name.replace(' ', '-')}.txt"
    if os.environ.get("PERFCLI_UPDATE_GOLDEN"):
        path.write_text(text)
    assert text == path.read_text()
