"""What is known of the sets that were tested, and which of them is the best."""

from __future__ import annotations

import pytest
from unit.search.oracles import letters, subset

from perfcli.search.best import Best
from perfcli.search.question import Answer, OptionChange

CHANGES = [OptionChange(name, False, True) for name in "abcd"]


def best(wants_lower: bool = True, **values: float | Answer | None) -> Best:
    """``base`` is the value without any change, other names are sets; the best set is not set."""
    made = Best({change.key: change for change in CHANGES}, wants_lower)
    for names, value in values.items():
        answer = value if isinstance(value, Answer) else Answer("good", value)
        made.seen[subset("" if names == "base" else names)] = answer
    return made


def code(name: str, value: float = 100) -> Answer:
    return Answer("good", value, name)


@pytest.mark.parametrize(
    ("base", "a", "gain"),
    [
        (100, 90, 10),
        (100, 110, -10),
        (100, None, None),
        (None, 90, None),
        (100, Answer("unresolved", 90), None),
        (Answer("unresolved", 100), 90, None),
    ],
)
def test_a_gain_is_known_where_both_values_are(
    base: float | Answer | None, a: float | Answer | None, gain: float | None
) -> None:
    made = best(base=base, a=a)
    assert made.gain(subset("a")) == gain
    assert made.gain(subset("b")) is None
    assert best(a=a).gain(subset("a")) is None
    assert made.alone("a=True") == (gain or 0.0)
    assert best(wants_lower=False, base=base, a=a).gain(subset("a")) == (
        None if gain is None else -gain
    )


@pytest.mark.parametrize(
    ("value", "gains"), [(90.0, True), (90.0 + 9e-8, True), (90.0 + 2e-7, False), (89.0, True)]
)
def test_gains_are_equal_but_for_rounding(value: float, gains: bool) -> None:
    """A billionth of 100 is 1e-7."""
    made = best(base=100, a=value)
    assert made.is_at_least(subset("a"), 10.0) is gains
    assert not made.is_at_least(subset("b"), -99.0)


@pytest.mark.parametrize(
    ("before", "after", "better"),
    [
        ("a", "b", False),  # as good, and as many
        ("ab", "c", True),  # as good with fewer
        ("c", "ab", False),
        ("a", "d", True),
        ("d", "a", False),
    ],
)
def test_as_good_with_fewer_changes_is_better(before: str, after: str, better: bool) -> None:
    made = best(base=100, a=90, b=90, ab=90, c=90, d=80)
    made.subset = subset(before)
    assert made._is_better(subset(after)) is better
    assert not made._is_better(subset("cd"))


def test_the_set_or_the_best_one() -> None:
    made = best(base=100, a=90, b=95, c=90)
    made.subset = subset("a")
    assert letters(made.as_good(subset("c"))) == "c"
    assert letters(made.as_good(subset("b"))) == "a"
    assert letters(made.as_good(subset("d"))) == "a"


def test_what_changes_no_code_and_what_is_the_same_code() -> None:
    made = best(base=code("x"), a=code("x"), b=code("y", 95), c=code("y", 95), d=code("z", 99))
    effects = {effect.change.name: effect for effect in made.effects()}
    assert [effects[name].changes_code for name in "abcd"] == [False, True, True, True]
    same = {name: effect.same_as.name for name, effect in effects.items() if effect.same_as}
    assert same == {"c": "b"}
    assert made.silent() == ("a=True",)
    assert made.leaders() == ("b=True", "d=True")
    assert made.by_gain() == ("b=True", "d=True")
    assert letters(frozenset(best(base=1, b=1).leaders())) == "b"
    without = best(base=100, a=90, b=None)
    assert [effect.change.name for effect in without.effects()] == ["a", "b"]
    assert without.leaders() == ("a=True",)


def test_two_that_do_more_or_less_together() -> None:
    made = best(base=100, a=90, b=95, c=100, ab=80, ac=90, bc=None, abc=50)
    (found,) = made.result().interactions
    assert [change.name for change in found.options] == ["a", "b"]
    assert (found.together, found.apart) == (20, 15)
    assert made.expected(subset("abc")) == 15


def test_what_was_not_tried_beside_the_best_set() -> None:
    made = best(base=100, a=90, b=95, c=99, ab=80, d=98)
    made.subset = subset("ab")
    assert made.untried() == ("d=True", "c=True")
    pairs = {letters(pair) for pair in made.untried_pairs()}
    assert pairs == {"ac", "ad", "bc", "bd", "cd"}
    made.seen[subset("abcd")] = Answer("good", 85)
    assert made.untried() == ()
    assert made.untried_pairs() == []
    assert made.result("budget").stopped == "budget"
    assert made.result().gain == 20


def test_a_set_has_one_value_of_an_option() -> None:
    changes = [OptionChange("a", 0, 1), OptionChange("a", 0, 2), OptionChange("b", 0, 1)]
    made = Best({change.key: change for change in changes}, True)
    assert made.replaced(frozenset({"a=1", "b=1"}), "a=2") == {"a=2", "b=1"}
    assert made.with_all(frozenset(), ("a=1", "b=1", "a=2")) == {"a=2", "b=1"}
    assert made.first_values(("a=2", "a=1", "b=1")) == ("a=2", "b=1")
    assert not made.fits(frozenset({"a=1"}), "a=2")
    assert made.fits(frozenset({"a=1"}), "b=1")
    assert made.ordered(frozenset({"b=1", "a=1"})) == ("a=1", "b=1")
