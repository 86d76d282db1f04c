"""What changes no code alone, on top of what does."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from unit.search.oracles import Exact, own_class, transcript

from perfcli.search.best import Best
from perfcli.search.dependents import MOST_SILENT, find_supports, try_on_top, try_silent
from perfcli.search.question import Answer, OptionChange, Search, Subset


def catalogue(*keys: str) -> list[OptionChange]:
    """``s1`` is the option ``s`` with the value 1."""
    return [OptionChange(key[0], 0, int(key[1:])) for key in keys]


def keyed(names: str) -> Subset:
    return frozenset(f"{name[0]}={name[1:]}" for name in names.split())


def oracle(gains: dict[str, float]) -> Exact[Subset]:
    """What is named alone changes the code; ``s`` and ``t`` do so only in company that gains."""
    own = {keyed(names): gain for names, gain in gains.items()}

    def code(keys: Subset) -> str:
        silent = frozenset(key for key in keys if key[0] in "st")
        awake = [each for each in own if each <= keys]
        return own_class(keys - silent | frozenset().union(*awake))

    def truth(keys: Subset) -> Answer:
        return Answer("good", 100.0 - sum(gain for each, gain in own.items() if each <= keys))

    return Exact(truth, code)


def asked(
    keys: Sequence[str],
    gains: dict[str, float],
    search: Callable[[Best], Search[Subset, object]],
) -> tuple[Best, list[str]]:
    """The best set, and what is asked after each change alone: the set, and what may be next."""
    changes = catalogue(*keys)
    best = Best({change.key: change for change in changes}, wants_lower=True)

    def whole() -> Search[Subset, None]:
        for single in (frozenset[str](), *(frozenset({change.key}) for change in changes)):
            yield from best.ask(single, (), "")
        yield from search(best)

    lines = transcript(whole(), oracle(gains))[1 + len(changes) :]
    return best, [" | ".join(line.partition(": ")[2].split(" | ")[:2]) for line in lines]


def test_first_values_come_first_and_those_in_anothers_place_last() -> None:
    """``s2`` helps beside ``a1``: then it is taken down to that, and the rest is tried on top."""
    best, lines = asked(
        ["a1", "s1", "s2", "s3", "t1", "t2"],
        {"a1": 5, "a1 s2": 4},
        lambda best: try_silent(best, keyed("a1")),
    )
    assert best.subset == keyed("a1 s2")
    assert lines == [
        "a1s1t1 | a1s1",
        "a1s2t2 | a1s2",
        "a1s2 | a1s2",  # what is asked may stand among what may be next
        "a1s3 | -",
    ]


def test_so_many_are_tried_and_no_more() -> None:
    values = [f"s{n}" for n in range(1, 2 * MOST_SILENT)]
    _, lines = asked(["a1", *values], {"a1": 5}, lambda best: try_silent(best, keyed("a1")))
    assert lines == [f"a1s{n} | -" for n in range(1, MOST_SILENT + 1)]


def test_without_anything_that_helps_nothing_is_tried_on_top() -> None:
    _, lines = asked(["a1", "s1"], {"a1": -5}, lambda best: try_silent(best, frozenset()))
    assert lines == []


@pytest.mark.parametrize(
    ("matters", "most", "lines"),
    [
        ("st", 9, ["b1s1t1 | -", "b1s2 | -", "c1s1t1 | -", "c1s2 | -"]),
        ("s", 9, ["b1s1 | -", "b1s2 | -", "c1s1 | -", "c1s2 | -"]),
        ("st", 1, ["b1s1t1 | -"]),
        ("", 9, []),
    ],
)
def test_each_that_does_harm_is_tried_with_what_may_matter_beside_it(
    matters: str, most: int, lines: list[str]
) -> None:
    """The least harm first; ``a1`` is in the set already."""
    _, found = asked(
        ["a1", "b1", "c1", "s1", "s2", "t1"],
        {"a1": 5, "b1": -1, "c1": -2},
        lambda best: try_on_top(
            best, keyed("a1"), lambda base, name: name in matters, len(best.seen) + most
        ),
    )
    assert found == [line.replace("b1", "a1b1").replace("c1", "a1c1") for line in lines]


def test_what_helps_beside_one_that_does_harm_is_kept() -> None:
    best, lines = asked(
        ["a1", "b1", "s1", "t1"],
        {"a1": 5, "b1": -1, "b1 s1": 7},
        lambda best: try_on_top(best, keyed("a1"), lambda base, name: True, 99),
    )
    assert best.subset == keyed("a1 b1 s1")
    assert lines[0] == "a1b1s1t1 | -"


def test_what_it_takes_is_one_or_all_of_the_others() -> None:
    """``s1`` needs ``b1``, which does harm alone and so comes first; ``t1`` needs both."""
    best, lines = asked(
        ["a1", "b1", "s1", "t1"],
        {"a1": 5, "b1": -1, "b1 s1": 7, "a1 b1 t1": 3},
        lambda best: take(best, keyed("a1 b1 s1 t1")),
    )
    assert best.dependencies == {
        "s=1": keyed("b1"),
        "t=1": keyed("a1 b1 s1"),
    }
    assert lines == [
        "a1b1s1t1 | -",
        "b1s1 | s1t1 a1s1",
        "b1t1 | s1t1 a1t1",
        "s1t1 | a1t1",
        "a1t1 | -",
    ]


def take(best: Best, subset: Subset) -> Search[Subset, None]:
    yield from best.ask(subset, (), "")
    yield from find_supports(best)
