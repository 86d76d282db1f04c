from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from itertools import product

import pytest
from hypothesis import example, given
from hypothesis import settings as settings_of_hypothesis
from hypothesis import strategies as st
from search_simulation_catalogue import KINDS, plant
from unit.search.oracles import Exact, max_runs, own_class, run

from perfcli.search.drive import Code, Ledger, drive
from perfcli.search.improve import find_best
from perfcli.search.question import Answer, OptionChange, Query, Search, Subset, sort_changes
from perfcli.search.result import Improvement

Settings = dict[str, int]
DEFAULTS = {"a": 0, "b": 0, "c": 0, "d": 0, "quiet": 0, "silent": 0}
CATALOGUE = [
    *(OptionChange(name, 0, value) for name in "abcd" for value in (1, 2)),
    OptionChange("quiet", 0, 1, rank=1),
    OptionChange("silent", 0, 1, rank=1),
]


def settings(keys: Subset) -> Settings:
    set_ = dict(key.split("=") for key in sorted(keys))
    assert len(set_) == len(keys), "two values of one option"
    return DEFAULTS | {name: int(value) for name, value in set_.items()}


def metric(spills: Callable[[Settings], float]) -> Exact[Subset]:
    """``silent`` never changes the code."""
    return Exact(
        lambda keys: Answer("good", float(spills(settings(keys)))),
        lambda keys: own_class(frozenset(keys - {"silent=1"})),
    )


def best(found: Improvement) -> set[str]:
    return {change.key for change in found.best}


def test_sums_alone_need_few_tests() -> None:
    """What does nothing alone is not tried with others, pairs are not tried at all."""
    oracle = metric(lambda o: 100 - (0, 10, 30)[o["a"]] - (0, 5, 2)[o["c"]] + 7 * o["b"])
    ledger: Ledger[Subset] = Ledger()
    found = run(find_best(CATALOGUE, sums_only=True, most_pairs=2), oracle, ledger)
    assert best(found) == {"a=2", "c=1"}
    # The ten changes and none; both that help; two of a=1, b=1, b=2, c=2 on top; one change less is
    # known: a=2 and c=1 alone.
    assert ledger.compiled == 11 + 1 + 2


def test_sums_alone_find_what_helps_on_top_of_others_only() -> None:
    catalogue = [OptionChange("a", 0, 1), OptionChange("b", 0, 1)]
    oracle = metric(lambda o: 100 - 10 * o["a"] + o["b"] - 5 * o["a"] * o["b"])
    found = run(find_best(catalogue, sums_only=True, most_pairs=1), oracle)
    assert best(found) == {"a=1", "b=1"}
    assert best(run(find_best(catalogue, sums_only=True, most_pairs=0), oracle)) == {"a=1"}


def test_what_seldom_does_anything_is_tried_together() -> None:
    oracle = metric(lambda o: 100 - (0, 10, 30)[o["a"]] + o["d"])
    ledger: Ledger[Subset] = Ledger()
    together = [frozenset({"silent=1"}), frozenset({"silent=1", "d=1"})]
    search = find_best(CATALOGUE, sums_only=True, most_pairs=0, together=together[:1])
    assert best(run(search, oracle, ledger)) == {"a=2"}
    # None and the ten changes: a set of one is that change.
    assert ledger.compiled == 11
    ledger = Ledger()
    search = find_best(CATALOGUE, sums_only=True, most_pairs=0, together=together[1:])
    found = run(search, oracle, ledger)
    # Both at once are another code, so that each is tried alone.
    assert ledger.compiled == 12
    assert {e.change.key: e.gain for e in found.effects}["d=1"] == -1


def test_what_does_nothing_together_is_not_tried_alone() -> None:
    still = frozenset({"silent=1", "quiet=1", "b=2"})
    oracle = Exact[Subset](
        lambda keys: Answer("good", 100.0 - 5 * ("a=1" in keys)),
        lambda keys: own_class(frozenset(keys - still)),
    )
    ledger: Ledger[Subset] = Ledger()
    search = find_best(CATALOGUE, sums_only=True, most_pairs=0, together=[still])
    found = run(search, oracle, ledger)
    assert best(found) == {"a=1"}
    # None, the set of three, and the seven others; the three have the code of none, as known.
    assert ledger.compiled == 9
    silent = {effect.change.key for effect in found.effects if effect.changes_code is False}
    assert silent == still


def test_what_helped_before_is_known_when_it_stops_early() -> None:
    """Six tests: none, both that are tried first, both together, and two of the rest."""
    oracle = metric(lambda o: 100 - 10 * (o["d"] == 2) - 5 * (o["c"] == 2) - 50 * (o["quiet"]))
    search = find_best(CATALOGUE, sums_only=True, first=frozenset({"d=2", "c=2"}))
    found = drive(search, oracle, Ledger(), stops=[max_runs(6)])
    assert best(found) == {"c=2", "d=2"}
    assert found.gain == 15
    assert found.stopped == "after 6 runs (--max-runs)"
    whole = find_best(CATALOGUE, sums_only=True, first=frozenset({"d=2", "c=2"}))
    assert best(run(whole, oracle)) == {"c=2", "d=2", "quiet=1"}


def test_the_best_value_of_each_option_and_no_more() -> None:
    oracle = metric(lambda o: 100 - (0, 10, 30)[o["a"]] - (0, 5, 2)[o["c"]] + 7 * o["b"])
    ledger: Ledger[Subset] = Ledger()
    found = run(find_best(CATALOGUE), oracle, ledger)
    assert best(found) == {"a=2", "c=1"}
    assert (found.gain, found.answer and found.answer.value) == (35.0, 65.0)
    assert found.interactions == ()
    assert (found.dependencies, found.stopped) == ((), "")
    gains = {effect.change.key: effect.gain for effect in found.effects}
    assert gains == {
        "a=1": 10, "a=2": 30, "b=1": -7, "b=2": -14, "c=1": 5, "c=2": 2,
        "d=1": 0, "d=2": 0, "quiet=1": 0, "silent=1": 0,
    }  # fmt: skip


def test_nothing_helps() -> None:
    found = run(find_best(CATALOGUE), metric(lambda o: 100 + o["a"]))
    assert (best(found), found.gain) == (set(), 0.0)
    assert found.answer == found.baseline


def test_two_that_help_only_together() -> None:
    def spills(o: Settings) -> float:
        return 100 - 40 * (o["b"] == 1 and o["d"] == 2)

    found = run(find_best(CATALOGUE), metric(spills))
    assert best(found) == {"b=1", "d=2"}
    (interaction,) = found.interactions
    assert {change.key for change in interaction.options} == {"b=1", "d=2"}
    assert (interaction.together, interaction.apart) == (40.0, 0.0)


def test_an_interaction_that_does_not_pay() -> None:
    """Each helps, both together help less than the better one alone."""
    catalogue = [OptionChange("a", 0, 1), OptionChange("b", 0, 1)]
    found = run(
        find_best(catalogue), metric(lambda o: [100, 90, 80, 95][int(o["a"]) + 2 * int(o["b"])])
    )
    assert best(found) == {"b=1"}
    (interaction,) = found.interactions
    assert (interaction.together, interaction.apart) == (5.0, 30.0)


def test_what_stops_helping_is_dropped() -> None:
    """``a`` is the best alone; beside ``b`` and ``c`` it adds nothing."""

    def spills(o: Settings) -> float:
        both = bool(o["b"]) and bool(o["c"])
        return 50 if both else 100 - 20 * bool(o["a"]) - 10 * bool(o["b"]) - 10 * bool(o["c"])

    found = run(find_best(CATALOGUE), metric(spills))
    assert best(found) == {"b=1", "c=1"}


def test_an_option_that_matters_only_on_top_of_another() -> None:
    """``quiet`` changes no code alone, and undoes what ``b`` costs."""

    def spills(o: Settings) -> float:
        return 100 + o["b"] - 60 * (o["b"] == 2 and o["quiet"])

    def code(keys: Subset) -> str:
        return own_class(keys - {"silent=1"} - (frozenset() if "b=2" in keys else {"quiet=1"}))

    oracle = metric(spills)
    oracle.code = code
    found = run(find_best(CATALOGUE), oracle)
    assert best(found) == {"b=2", "quiet=1"}
    (dependency,) = found.dependencies
    assert dependency.option.key == "quiet=1"
    assert [change.key for change in dependency.needs] == ["b=2"]


def test_worsen_is_the_other_direction() -> None:
    oracle = metric(lambda o: 100 - o["a"] + 7 * o["b"])
    found = run(find_best(CATALOGUE, "worsen"), oracle)
    assert (best(found), found.gain) == ({"b=2"}, 14.0)
    found = run(find_best(CATALOGUE, lower_is_better=False), oracle)
    assert best(found) == {"b=2"}
    found = run(find_best(CATALOGUE, "worsen", lower_is_better=False), oracle)
    assert best(found) == {"a=2"}


def test_changes_with_the_same_code_are_one() -> None:
    """``d`` does what ``a`` does: one class, judged once, and one of them is named."""

    def code(keys: Subset) -> str:
        return own_class(frozenset(key.replace("d", "a") for key in keys if key != "silent=1"))

    oracle = metric(lambda o: 100 - 10 * max(o["a"], o["d"]))
    oracle.code = code
    ledger: Ledger[Subset] = Ledger()
    found = run(find_best(CATALOGUE), oracle, ledger)
    assert best(found) == {"a=2"}
    same = {e.change.key: e.same_as.key for e in found.effects if e.same_as}
    assert same == {"d=1": "a=1", "d=2": "a=2"}
    assert ledger.judged == ledger.classes


def test_what_does_not_compile_is_left_out() -> None:
    def code(keys: Subset) -> str | None:
        return None if {"a=2"} <= keys or {"b=1", "c=1"} <= keys else own_class(keys)

    oracle = metric(lambda o: 100 - 30 * o["a"] - 5 * o["b"] - 4 * o["c"])
    oracle.code = code
    found = run(find_best(CATALOGUE), oracle)
    assert best(found) == {"a=1", "b=2", "c=2"}
    assert next(e.gain for e in found.effects if e.change.key == "a=2") is None


def test_no_value_without_any_change() -> None:
    oracle = metric(lambda o: 100)
    oracle.code = lambda keys: None
    found = run(find_best(CATALOGUE), oracle)
    assert found.baseline is not None
    assert found.baseline.outcome == "unresolved"
    assert (found.best, len(oracle.asked())) == ((), 1)


@pytest.mark.parametrize("most", [1, 5, 11, 16])
def test_stopped_it_has_the_best_so_far(most: int) -> None:
    oracle = metric(lambda o: 100 - 10 * o["a"] - 5 * o["d"])
    found = run(find_best(CATALOGUE), oracle, stops=[max_runs(most)])
    assert found.stopped == f"after {most} runs (--max-runs)"
    assert len(found.effects) == min(most - 1, len(CATALOGUE))
    values = [oracle.truth(keys).value or 0 for keys in oracle.judged]
    assert found.answer is not None
    assert found.answer.value == min(values)


class LastFirst(Exact[Subset]):
    """What is compiled at once arrives in the reverse order, until Ctrl-C after ``end``."""

    end = 4

    def compile(self, wanted: Sequence[Subset]) -> Generator[tuple[Subset, Code], None, None]:  # type: ignore[override]
        for key in reversed(wanted):
            if not self.end:
                raise KeyboardInterrupt
            self.end -= 1
            yield key, Code(self.code(key))


def test_interrupted_it_knows_all_that_was_compiled() -> None:
    """No change and the last three of the catalogue: the first ones are still missing."""
    exact = metric(lambda o: 100 - 10 * o["a"] - 5 * o["d"])
    oracle = LastFirst(exact.truth, exact.code)
    found = drive(
        find_best(CATALOGUE),
        oracle,
        Ledger[Subset](),
        width=lambda question: 99 if question.step == "each change alone" else 1,
        at_hand=lambda code: True,
    )
    assert found.stopped == "interrupted"
    singles = [effect.change for effect in found.effects]
    assert singles == list(sort_changes(CATALOGUE))[-3:]


def steps_of(found: Search[Subset, Improvement], oracle: Exact[Subset]) -> Counter[str]:
    """How many tests each step asked for, one core."""
    steps: Counter[str] = Counter()

    def watch(question: Query[Subset], answer: Answer | None) -> None:
        steps[question.step] += answer is None

    run(found, oracle, watch=watch)
    return steps


def many(gains: Sequence[int], silent: int) -> tuple[list[OptionChange], Exact[Subset]]:
    """An option for each gain, and some that change no code; gains add up."""
    catalogue = [OptionChange(f"o{at:03}", 0, 1) for at in range(len(gains) + silent)]
    own = {change.key: gain for change, gain in zip(catalogue, gains, strict=False)}

    def truth(keys: Subset) -> Answer:
        return Answer("good", 100.0 - sum(own.get(key, 0) for key in keys))

    return catalogue, Exact(truth, lambda keys: own_class(keys & own.keys()))


def test_the_documented_cost() -> None:
    """That of the module's docstring: 5 help, 18 do nothing, 21 do harm, 137 change no code."""
    catalogue, oracle = many([17, 8, 5, 5, 1, *[0] * 18, *range(-21, 0)], 137)
    steps = steps_of(find_best(catalogue, may_matter=lambda base, name: False), oracle)
    pairs = 50 - 21  # of 210 that do harm
    assert steps == {
        "without any change": 1, "each change alone": 181, "what helps alone": 1,
        "what does nothing alone": 1, "options that need another": 1, "one more change": 21,
        "pairs": pairs, "one change less": 5,
    }  # fmt: skip


def test_the_most_tests_on_top_are_kept_and_the_rest_is_counted() -> None:
    catalogue, oracle = many([9, *range(-12, 0)], 0)
    found = run(find_best(catalogue, most_pairs=4), oracle)
    # All pairs of the thirteen but those of the first with the four that do least harm.
    assert found.pairs_left == 13 * 12 // 2 - 4
    assert [change.key for change in found.untried] == [f"o{at:03}=1" for at in range(1, 9)]
    found = run(find_best(catalogue, most_pairs=30), many([9, *range(-12, 0)], 0)[1])
    assert (found.pairs_left, found.untried) == (12 * 11 // 2 - 18, ())


def test_one_test_says_that_no_two_of_what_does_nothing_help_together() -> None:
    catalogue, oracle = many([0] * 12, 0)
    found = run(find_best(catalogue), oracle)
    assert (found.pairs_left, found.untried, found.best) == (0, (), ())
    assert len(oracle.asked()) == 1 + 12 + 1


def test_what_does_nothing_alone_helps_beside_what_does_harm_alone() -> None:
    """With 20 others that do nothing: named without them, in log2 of them."""
    catalogue, oracle = many([3, *[0] * 20, -10, -20], 0)
    summed = oracle.truth

    def truth(keys: Subset) -> Answer:
        both = {"o007=1", "o022=1"} <= keys
        return Answer("good", (summed(keys).value or 0.0) - 25 * both)

    oracle.truth = truth
    found = run(find_best(catalogue, most_pairs=2), oracle)
    assert best(found) == {"o000=1", "o007=1", "o022=1"}
    assert (found.gain, found.untried) == (8.0, (catalogue[21],))
    assert len(oracle.asked()) <= 1 + 23 + 1 + 1 + 2 + (1 + math.ceil(math.log2(20)) + 1) + 3


def test_what_does_nothing_alone_and_harm_in_company_is_left_out() -> None:
    """And does not hide what helps there; one that does not compile in company does not either."""
    catalogue, oracle = many([3, *[0] * 16], 0)

    def truth(keys: Subset) -> Answer:
        gain = [3, 5, -7]
        company = ["o000=1" in keys, {"o000=1", "o004=1"} <= keys, {"o001=1", "o009=1"} <= keys]
        return Answer("good", 100.0 - sum(g for g, c in zip(gain, company, strict=True) if c))

    oracle.truth = truth
    oracle.code = lambda keys: None if {"o002=1", "o012=1"} <= keys else own_class(keys)
    found = run(find_best(catalogue), oracle)
    assert (best(found), found.gain) == ({"o000=1", "o004=1"}, 8.0)


def test_two_that_help_less_together_than_one_alone() -> None:
    """All that help at once do not compile, or are worse: halves of them."""
    catalogue, oracle = many([9, 8, 7, 6], 0)
    summed = oracle.truth

    def truth(keys: Subset) -> Answer:
        return Answer("good", (summed(keys).value or 0.0) + 40 * ({"o000=1", "o003=1"} <= keys))

    oracle.truth = truth
    oracle.code = lambda keys: None if {"o001=1", "o002=1"} <= keys else own_class(keys)
    found = run(find_best(catalogue), oracle)
    assert (best(found), found.gain) == ({"o000=1", "o001=1"}, 17.0)


def test_one_that_needs_another_is_found_among_a_hundred_that_do_not() -> None:
    catalogue, oracle = many([3, 2, 0, -4], 100)
    plain, summed = oracle.code, oracle.truth
    needing = {"o040=1": "o001=1", "o090=1": "o002=1", "o070=1": "o003=1"}

    def awake(keys: Subset) -> frozenset[str]:
        return frozenset(key for key, leader in needing.items() if {key, leader} <= keys)

    oracle.code = lambda keys: f"{plain(keys)} {sorted(awake(keys))}"
    oracle.truth = lambda keys: Answer("good", (summed(keys).value or 0.0) - 10 * len(awake(keys)))
    found = run(find_best(catalogue), oracle)
    assert best(found) == {"o000=1", "o001=1", *needing, *needing.values()}
    assert found.gain == 3 + 2 - 4 + 30
    needs = {each.option.key: [o.key for o in each.needs] for each in found.dependencies}
    assert needs == {key: [leader] for key, leader in needing.items()}


@given(st.integers(0, 10**6))
@example(2593)  # drew two values of one option as the only ones with code of their own
@settings_of_hypothesis(max_examples=60, deadline=None)
def test_the_best_set_is_minimal_and_the_rest_is_named(seed: int) -> None:
    """Whatever the pairs do: without any one change it is worse; any other change is no better on
    top, but for those that the result names."""
    dice = random.Random(seed)
    kind = dice.choice(list(KINDS.values()))
    planted = plant(kind, dice, least=10, most=40)
    oracle: Exact[Subset] = Exact(
        lambda keys: Answer("good", 1000.0 - planted.gain(keys)), planted.code
    )
    found = run(find_best(planted.changes, most_pairs=dice.choice([0, 5, 50])), oracle)
    chosen = frozenset(change.key for change in found.best)
    assert planted.gain(chosen) == found.gain
    assert found.gain == max(
        planted.gain(keys) for keys in oracle.asked() if planted.code(keys) is not None
    )
    for key in chosen:
        fewer = chosen - {key}
        assert planted.code(fewer) is None or planted.gain(fewer) < found.gain
    tested = [keys for keys in oracle.asked() if planted.code(keys) is not None]
    leaders = [
        e.change for e in found.effects if e.changes_code and not e.same_as and e.gain is not None
    ]
    for change in leaders:
        others = {key for key in chosen if key.partition("=")[0] != change.name}
        beside = any({*others, change.key} <= keys for keys in tested)
        assert beside or change.key in chosen or change in found.untried


@pytest.mark.parametrize("seed", range(20))
def test_against_all_combinations(seed: int) -> None:
    """Own effects and two pairs that interact, by chance: the best of all 81."""
    dice = random.Random(seed)
    own = {(name, value): dice.randint(-9, 9) for name in "abcd" for value in (1, 2)}
    pairs: Mapping[tuple[tuple[str, int], ...], int] = {
        tuple(sorted(dice.sample(sorted(own), 2))): dice.randint(-20, 20) for _ in range(2)
    }

    def spills(o: Settings) -> float:
        chosen = {(name, o[name]) for name in "abcd" if o[name]}
        together = sum(gain for pair, gain in pairs.items() if set(pair) <= chosen)
        return 100 - sum(own[each] for each in chosen) - together

    every = [dict(zip("abcd", values, strict=True)) for values in product(range(3), repeat=4)]
    lowest = min(spills(o) for o in every)
    found = run(find_best(CATALOGUE), metric(spills))
    assert found.answer is not None
    assert found.answer.value is not None
    assert math.isclose(found.answer.value, lowest)
