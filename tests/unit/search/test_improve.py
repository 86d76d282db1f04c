from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from itertools import product

import pytest
from unit.search.oracles import Exact, own_class, run

from perfcli.search.answer import Answer
from perfcli.search.drive import max_runs
from perfcli.search.improve import find_best
from perfcli.search.improvement import Improvement
from perfcli.search.ledger import Ledger
from perfcli.search.options import OptionChange, Subset

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


def test_the_documented_cost() -> None:
    """Sixty options of which ten change code and two help: the bound of the module's docstring."""
    catalogue = [OptionChange(f"o{number:02}", 0, 1) for number in range(60)]
    own = {f"o{number:02}=1" for number in range(0, 60, 6)}

    def truth(keys: Subset) -> Answer:
        return Answer("good", 100.0 - 10 * ("o00=1" in keys) - 5 * ("o54=1" in keys))

    oracle = Exact(truth, lambda keys: own_class(frozenset(keys & own)))
    ledger: Ledger[Subset] = Ledger()
    found = run(find_best(catalogue), oracle, ledger, width=2)
    assert {change.key for change in found.best} == {"o00=1", "o54=1"}
    alone, grow, dependents, pairs = 1 + 60, 3 * 10, 1 + 10, 50 + 1
    assert ledger.compiled <= alone + grow + dependents + pairs
    # Of the first 61 sets only the ten and the code without any change are judged.
    assert ledger.judged == ledger.classes <= 1 + 10 + grow + pairs
    assert found.pairs_left == 0


def test_the_most_pairs_are_kept_and_the_rest_is_counted() -> None:
    catalogue = [OptionChange(f"o{number:02}", 0, 1) for number in range(12)]
    oracle: Exact[Subset] = Exact(lambda keys: Answer("good", 1.0))
    found = run(find_best(catalogue, most_pairs=20), oracle)
    assert sum(len(keys) == 2 for keys in oracle.asked()) == 20
    assert found.pairs_left == 12 * 11 // 2 - 20


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
