from __future__ import annotations

import random
from itertools import combinations

import pytest
from unit.search.oracles import (
    BAD,
    GOOD,
    UNRESOLVED,
    Exact,
    changes,
    letters,
    names,
    planted,
    run,
    subset,
)

from perfcli.errors import PerfcliError
from perfcli.search.culprits import find_culprits
from perfcli.search.drive import Ledger
from perfcli.search.question import Answer, OptionChange, Subset, sort_changes
from perfcli.search.result import Culprits

TWELVE = "abcdefghijkl"


def power_set(keys: Subset) -> list[Subset]:
    return [frozenset(c) for n in range(len(keys) + 1) for c in combinations(sorted(keys), n)]


@pytest.mark.parametrize(
    "sets",
    [("a",), ("l",), ("f",), ("al",), ("fg",), ("adl",), ("a", "b"), ("c", "kl"), ("a", "f", "l")],
)
def test_what_was_planted_is_found_and_proven(sets: tuple[str, ...]) -> None:
    oracle = Exact(planted(*sets))
    found = run(find_culprits(changes(TWELVE)), oracle)
    assert {names(culprit.options) for culprit in found.sets} == set(sets)
    assert found.status == "explained"
    assert found.suspects == ()
    assert all(culprit.minimal and culprit.with_it.is_bad for culprit in found.sets)
    assert found.sets[-1].proven
    assert [c.is_interaction for c in found.sets] == [len(c.options) > 1 for c in found.sets]


@pytest.mark.parametrize("culprit", "abcdefghijklm")
def test_one_of_thirteen_takes_at_most_nine_tests(culprit: str) -> None:
    oracle = Exact(planted(culprit))
    found = run(find_culprits(changes("abcdefghijklm")), oracle)
    assert [names(c.options) for c in found.sets] == [culprit]
    # Two ends, ceil(log2(13)) for where it is, itself, and all but it.
    assert len(oracle.asked()) <= 2 + 4 + 1 + 1


def test_harmless_changes_are_not_judged() -> None:
    """Variants with the same code as an end are that end: only two classes are judged."""
    oracle = Exact(planted("e"), lambda keys: "e" if subset("e") <= keys else "")
    ledger: Ledger[Subset] = Ledger()
    found = run(find_culprits(changes(TWELVE)), oracle, ledger)
    assert [names(c.options) for c in found.sets] == ["e"]
    assert (ledger.classes, ledger.judged) == (2, 2)
    assert ledger.compiled == len(oracle.asked()) <= 8


def test_documented_options_are_blamed_first() -> None:
    """Where ``a`` with ``b`` and ``c`` alone would both do, rank decides."""
    ranked = [OptionChange(name, False, True, rank="cab".index(name)) for name in "abc"]
    found = run(find_culprits(ranked), Exact(planted("a", "b", "c")))
    assert [names(c.options) for c in found.sets] == ["c", "a", "b"]


def test_an_option_of_no_rank_comes_before_those_of_the_next() -> None:
    ranked = [OptionChange("a", 0, 1, rank=1), OptionChange("c", 0, 1), OptionChange("b", 0, 2)]
    assert [change.key for change in sort_changes(ranked)] == ["b=2", "c=1", "a=1"]


def test_the_order_in_which_they_are_listed_does_not_matter() -> None:
    one, other = Exact(planted("cg", "e")), Exact(planted("cg", "e"))
    run(find_culprits(changes(TWELVE)), one)
    run(find_culprits(changes(TWELVE)[::-1]), other)
    assert one.asked() == other.asked()


def test_own_effects_and_a_dependency() -> None:
    """``b`` does nothing without ``a``; ``a`` alone changes the code and is good."""

    def code(keys: Subset) -> str:
        return letters(keys).replace("b", "b" if subset("a") <= keys else "")

    found = run(find_culprits(changes("abcd")), Exact(planted("ab"), code))
    (culprit,) = found.sets
    assert [(e.option.name, e.alone.outcome, e.changes_code) for e in culprit.own] == [
        ("a", "good", True),
        ("b", "good", False),
    ]
    (dependency,) = culprit.dependencies
    assert dependency.option.name == "b"
    assert names(dependency.needs) == "a"


def test_a_dependency_on_one_of_two() -> None:
    def code(keys: Subset) -> str:
        return letters(keys).replace("c", "c" if subset("b") <= keys else "")

    found = run(find_culprits(changes("abcd")), Exact(planted("abc"), code))
    (dependency,) = found.sets[0].dependencies
    assert (dependency.option.name, names(dependency.needs)) == ("c", "b")


def test_an_interaction_is_no_dependency() -> None:
    found = run(find_culprits(changes("abcd")), Exact(planted("ab")))
    assert found.sets[0].is_interaction
    assert found.sets[0].dependencies == ()


def test_what_does_not_compile_is_passed_over() -> None:
    """``d`` compiles only together with ``i``, and ``f`` is to blame."""

    def code(keys: Subset) -> str | None:
        return None if subset("d") <= keys and not subset("i") <= keys else letters(keys)

    oracle = Exact(planted("f"), code)
    ledger: Ledger[Subset] = Ledger()
    found = run(find_culprits(changes(TWELVE)), oracle, ledger)
    assert [names(c.options) for c in found.sets] == ["f"]
    assert found.status == "explained"
    assert ledger.unresolved
    assert {reason for _, reason in ledger.unresolved} == {"ptxas failed"}


def test_what_is_left_may_have_no_answer() -> None:
    """Without the culprit ``a`` the rest does not compile: ``b`` needs it."""

    def code(keys: Subset) -> str | None:
        return None if subset("b") <= keys and not subset("a") <= keys else letters(keys)

    found = run(find_culprits(changes("ab")), Exact(planted("a"), code))
    (culprit,) = found.sets
    assert names(culprit.options) == "a"
    assert culprit.without.outcome == "unresolved"
    assert not culprit.proven
    assert found.status == "partly explained"
    assert names(found.suspects) == "b"


@pytest.mark.parametrize(
    ("good", "bad", "status"),
    [
        (GOOD, GOOD, "not worse"),
        (BAD, BAD, "good side is bad"),
        (GOOD, UNRESOLVED, "an end is unresolved"),
        (UNRESOLVED, BAD, "an end is unresolved"),
    ],
)
def test_the_ends_alone(good: Answer, bad: Answer, status: str) -> None:
    oracle: Exact[Subset] = Exact(lambda keys: bad if keys else good)
    found = run(find_culprits(changes("abc")), oracle)
    assert (found.status, found.sets, len(oracle.asked())) == (status, (), 2)
    assert found.bad_end is not None
    assert found.bad_end.outcome == bad.outcome


def test_nothing_differs() -> None:
    with pytest.raises(PerfcliError, match="nothing differs"):
        run(find_culprits([]), Exact(planted("a")))


def test_an_option_has_one_value_per_side() -> None:
    twice = [OptionChange("reads", 10, 100), OptionChange("reads", 10, 1000)]
    with pytest.raises(PerfcliError, match="reads is changed twice"):
        run(find_culprits(twice), Exact(planted("a")))


@pytest.mark.parametrize("seed", range(60))
def test_whatever_the_truth_a_found_set_is_1_minimal(seed: int) -> None:
    """Any of the 2**7 sets is good, bad or unresolved by a coin, not monotone at all."""
    dice = random.Random(seed)
    all_keys = subset("abcdefg")
    truth = {
        keys: dice.choices([GOOD, BAD, UNRESOLVED], [5, 3, 2])[0] for keys in power_set(all_keys)
    }
    truth |= {frozenset(): GOOD, all_keys: BAD}
    found = run(find_culprits(changes("abcdefg")), Exact(truth.__getitem__))
    assert found.sets
    taken: Subset = frozenset()
    for culprit in found.sets:
        keys = frozenset(option.key for option in culprit.options)
        less = [truth[keys - {key}].outcome for key in keys]
        assert truth[keys].is_bad
        assert "bad" not in less
        assert culprit.minimal == ("unresolved" not in less)
        assert not keys & taken
        taken |= keys
        assert culprit.without.outcome == truth[all_keys - taken].outcome
    assert found.status == ("explained" if truth[all_keys - taken] is GOOD else "partly explained")


@pytest.mark.parametrize("seed", range(60))
def test_monotone_truths_are_explained_by_minimal_sets(seed: int) -> None:
    """Against all minimal sets, by enumeration."""
    dice = random.Random(seed)
    sets = ["".join(dice.sample("abcdefg", dice.randint(1, 4))) for _ in range(dice.randint(1, 4))]
    truth = planted(*sets)
    bad = [keys for keys in power_set(subset("abcdefg")) if truth(keys).is_bad]
    minimal = {keys for keys in bad if not any(other < keys for other in bad)}
    found = run(find_culprits(changes("abcdefg")), Exact(truth))
    assert found.status == "explained"
    assert {frozenset(o.key for o in c.options) for c in found.sets} <= minimal


def test_how_much_is_left_of_the_difference() -> None:
    """``a`` adds 600 spilled words, ``b`` 300, ``c`` 100; bad is from the half of 1000 on."""
    words = {"a": 600, "b": 300, "c": 100}

    def truth(keys: Subset) -> Answer:
        spilled = float(sum(words.get(name, 0) for name in letters(keys)))
        return Answer("bad" if spilled >= 500 else "good", spilled)

    found = run(find_culprits(changes("abcdef")), Exact(truth))
    assert [names(culprit.options) for culprit in found.sets] == ["a"]
    assert found.status == "explained"
    assert found.share(found.sets[0].with_it) == pytest.approx(0.6)
    assert found.share(found.left) == pytest.approx(0.4)
    assert found.share(None) is None
    assert found.share(Answer("unresolved")) is None


def test_all_that_adds_is_found_where_anything_more_is_bad() -> None:
    words = {"a": 600, "b": 300, "c": 100}

    def truth(keys: Subset) -> Answer:
        spilled = float(sum(words.get(name, 0) for name in letters(keys)))
        return Answer("bad" if spilled > 0 else "good", spilled)

    found = run(find_culprits(changes("abcdef")), Exact(truth))
    assert [names(culprit.options) for culprit in found.sets] == ["a", "b", "c"]
    assert found.share(found.left) == 0.0


def answered_by_hand(wrong: int, whole: Answer = BAD) -> Culprits:
    """The culprits among ``a`` and ``b``, of which ``a`` is to blame; measured again it is good so
    many times, and the two together are ``whole``."""
    search = find_culprits(changes("ab"))
    question = next(search)
    try:
        while True:
            answer = planted("a")(question.wanted)
            if question.fresh and question.wanted == subset("a") and wrong:
                wrong, answer = wrong - 1, GOOD
            elif question.fresh and question.wanted == subset("ab"):
                answer = whole
            question = search.send(answer)
    except StopIteration as end:
        found: Culprits = end.value
        return found


@pytest.mark.parametrize(
    ("wrong", "whole", "sets", "contradictions", "status"),
    [
        (0, BAD, ["a"], 0, "explained"),
        (1, BAD, ["a"], 1, "explained"),
        (3, BAD, ["a"], 3, "explained"),
        (4, BAD, [], 4, "not explained"),
        (1, GOOD, [], 1, "not explained"),
    ],
)
def test_a_proof_that_contradicts_is_looked_for_three_times_more(
    wrong: int, whole: Answer, sets: list[str], contradictions: int, status: str
) -> None:
    found = answered_by_hand(wrong, whole)
    assert [names(culprit.options) for culprit in found.sets] == sets
    assert (found.contradictions, found.status) == (contradictions, status)
    assert found.left == (GOOD if sets else whole)
    assert names(found.suspects) == ("" if sets else "a")
