"""The first bad version of a history, held against what was planted."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest

from perfcli.errors import PerfcliError
from perfcli.search.first_bad import FirstBad, VersionHistory, find_first_bad
from perfcli.search.question import Answer, Query, Stopped
from perfcli.search.weighing import Doubted, LogRatio, Reading


def ask(
    history: VersionHistory,
    answer: Callable[[Query[str]], Answer],
    most: int | None = None,
) -> tuple[FirstBad, list[str]]:
    """What is found, and all that was asked; after ``most`` questions it is stopped."""
    search, asked = find_first_bad(history), list[str]()
    try:
        query = next(search)
        while True:
            if len(asked) == most:
                query = search.throw(Stopped("enough"))
            asked.append(query.wanted)
            query = search.send(answer(query))
    except StopIteration as end:
        return end.value, asked


def names(count: int) -> list[str]:
    return [str(number) for number in range(count)]


def found(result: FirstBad) -> list[str]:
    return [suspect.name for suspect in result.suspects]


@pytest.mark.parametrize("count", [1, 2, 3, 8, 128])
def test_exact_answers_bisect(count: int) -> None:
    for first in range(count):

        def answer(query: Query[str], first: int = first) -> Answer:
            return Answer("bad" if int(query.wanted) >= first else "good")

        result, asked = ask(VersionHistory.chain(names(count)), answer)
        assert (result.status, found(result)) == ("found", [str(first)])
        assert len(asked) <= math.ceil(math.log2(count)) if count > 1 else not asked


def grown(rng: random.Random, count: int) -> VersionHistory:
    """A history that branches and merges; the last version contains all others."""
    parents: list[tuple[int, ...]] = [()]
    for number in range(1, count - 1):
        most = min(2, number)
        parents.append(tuple(sorted(rng.sample(range(max(0, number - 5), number), most))))
    heads = set(range(count - 1)) - {p for each in parents for p in each}
    return VersionHistory(tuple(names(count)), (*parents, tuple(sorted(heads))))


def contains(history: VersionHistory, place: int) -> set[int]:
    return {place}.union(*(contains(history, p) for p in history.parents[place]))


def test_merges() -> None:
    """Whatever the graph, the answer is what was planted, in about as many questions as git."""
    rng = random.Random(7)
    for _ in range(30):
        count = rng.randrange(2, 24)
        history = grown(rng, count)
        first = rng.randrange(count)
        bad = {n for n in range(count) if first in contains(history, n)}

        def answer(query: Query[str], bad: set[int] = bad) -> Answer:
            return Answer("bad" if int(query.wanted) in bad else "good")

        result, asked = ask(history, answer)
        assert (result.status, found(result)) == ("found", [str(first)])
        assert len(asked) == len(set(asked)) <= 2 * math.log2(count) + 1


def test_noise_does_not_mislead() -> None:
    """128 versions, each answer ± 0.5 % of a step of 3 %: few questions, hardly any mistake."""
    rng, step, error = random.Random(3), math.log(1.03), 0.005
    right, measured = 0, 0
    for _ in range(60):
        first = rng.randrange(128)
        readings: dict[str, list[Reading]] = {}

        def answer(query: Query[str], first: int = first, readings: object = readings) -> Answer:
            assert isinstance(readings, dict)
            made = readings.setdefault(query.wanted, [])
            assert bool(made) == query.fresh
            true = step if int(query.wanted) >= first else 0.0
            made.append(Reading(rng.gauss(true, error), error))
            told = Doubted(LogRatio(step)).weigh(made)
            return Answer("bad" if told.log_odds > 0 else "good", 1.0, query.wanted, told)

        result, asked = ask(VersionHistory.chain(names(128)), answer)
        right += result.status == "found" and found(result) == [str(first)]
        measured += len(asked)
    assert right >= 59
    assert measured / 60 < 9


def test_one_wrong_measurement_is_measured_again() -> None:
    """An answer that is sure of itself and wrong, once: its neighbours set it right."""
    wrong = {"63"}
    readings: dict[str, list[Reading]] = {}
    step, first = 0.03, 40

    def answer(query: Query[str]) -> Answer:
        true = int(query.wanted) >= first
        if query.wanted in wrong:
            wrong.remove(query.wanted)
            true = not true
        made = readings.setdefault(query.wanted, [])
        made.append(Reading(step if true else 0.0, 0.001))
        told = Doubted(LogRatio(step)).weigh(made)
        return Answer("bad" if told.log_odds > 0 else "good", 1.0, query.wanted, told)

    result, asked = ask(VersionHistory.chain(names(128)), answer)
    assert (result.status, found(result)) == ("found", ["40"])
    assert asked.count("63") > 1


def test_what_does_not_compile_leaves_a_range() -> None:
    def answer(query: Query[str]) -> Answer:
        place = int(query.wanted)
        if 10 <= place < 14:
            return Answer("unresolved", reason="does not compile")
        return Answer("bad" if place >= 12 else "good")

    result, asked = ask(VersionHistory.chain(names(32)), answer)
    assert (result.status, found(result)) == ("one of several", names(15)[10:])
    assert len(asked) <= 11
    assert sum(suspect.probability for suspect in result.suspects) == pytest.approx(1)


def test_what_does_not_compile_beside_the_answer_is_passed_over() -> None:
    def answer(query: Query[str]) -> Answer:
        place = int(query.wanted)
        if place in (15, 16, 7):
            return Answer("unresolved", reason="does not compile")
        return Answer("bad" if place >= 22 else "good")

    result, _ = ask(VersionHistory.chain(names(32)), answer)
    assert (result.status, found(result)) == ("found", ["22"])


def test_half_of_the_step_is_neither_good_nor_bad() -> None:
    """Two commits of 1.5 % each: a range that has both, not one of them."""
    readings: dict[str, list[Reading]] = {}

    def answer(query: Query[str]) -> Answer:
        place = int(query.wanted)
        made = readings.setdefault(query.wanted, [])
        made.append(Reading(0.015 * ((place >= 4) + (place >= 9)), 0.002))
        told = Doubted(LogRatio(0.03)).weigh(made)
        return Answer("bad" if told.log_odds > 0 else "good", 1.0, query.wanted, told)

    result, asked = ask(VersionHistory.chain(names(16)), answer)
    assert result.status == "unsure"
    assert {"4", "9"} <= set(found(result))
    assert len(asked) < 100


def test_versions_with_the_same_code_have_one_answer() -> None:
    """A measured class counts once, however many versions have it, and no boundary is inside."""
    told = LogRatio(0.03).weigh([Reading(0.03, 0.004)])

    def answer(query: Query[str]) -> Answer:
        place = int(query.wanted)
        if place < 4:
            return Answer("good")
        return Answer("bad", 1.03, "one class", told)

    result, _ = ask(VersionHistory.chain(names(16)), answer)
    assert (result.status, found(result)) == ("found", ["4"])


def test_stopped() -> None:
    result, asked = ask(VersionHistory.chain(names(64)), lambda query: Answer("good"), most=2)
    assert (result.status, result.stopped, len(asked)) == ("unsure", "enough", 2)
    assert found(result) == names(64)[48:]


def test_too_many() -> None:
    with pytest.raises(PerfcliError, match="10,001 versions lie between good and bad"):
        next(find_first_bad(VersionHistory.chain(names(10_001))))
