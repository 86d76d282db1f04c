"""What differs between two sides, two installations, and a side and the catalogue."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from perfcli.bisect import space as spaces
from perfcli.bisect.space import NOT_SET, Settings, Space, _between, _installations
from perfcli.model import Variant
from perfcli.options.catalogue import UNKNOWN, Catalogue, InductorOption
from perfcli.options.performance import InstalledKnob, PerformanceKnob


def catalogue(*entries: InductorOption) -> Catalogue:
    return Catalogue("2.13.0", Path(), {entry.name: entry for entry in entries}, {})


A = InductorOption("a", "bool", "True", True, doc="explained")
B = InductorOption("b", "int", "3", 3)
C = InductorOption("c", "str", "platform()", UNKNOWN)
TORCH = catalogue(A, B, C)


def test_a_side_that_sets_nothing_has_the_default() -> None:
    found = _between(Variant(""), Variant("", {"a": False, "b": 3, "c": "x"}), TORCH)
    assert [(c.name, c.good, c.bad, c.rank) for c in found.changes] == [
        ("a", True, False, 0),
        ("c", NOT_SET, "x", 1),
    ]
    assert found.settings(frozenset()) == {}
    assert found.settings(found.everything) == {"a": False, "c": "x"}


def test_what_good_alone_sets_is_taken_away_by_its_change() -> None:
    found = _between(Variant("", {"b": 9, "a": False}), Variant("", {"a": False}), TORCH)
    (change,) = found.changes
    assert (change.name, change.good, change.bad) == ("b", 9, 3)
    assert found.settings(frozenset()) == {"a": False, "b": 9}
    assert found.settings(found.everything) == {"a": False}


def test_variables_stay_variables() -> None:
    found = _between(Variant(""), Variant("", {}, {"TORCHINDUCTOR_X": "0"}), TORCH)
    assert found.variant(found.settings(found.everything), "p").env == {"TORCHINDUCTOR_X": "0"}
    assert found.variant({"a": True}, "p") == Variant("", {"a": True}, {}, "p")


def test_true_is_not_one() -> None:
    assert len(_between(Variant("", {"a": True}), Variant("", {"a": 1}), TORCH).changes) == 1


def knob(name: str, *values: int, only_with: dict[str, bool] | None = None) -> PerformanceKnob:
    return PerformanceKnob(
        name, values, "Does.", "kernels", "both", True, "2.8", ("https://x",), None, None,
        only_with or {},
    )  # fmt: skip


def test_changes_that_contradict_each_other_are_not_made_together() -> None:
    made: dict[str, Settings] = {f"a={n}": {"a": n, "on": True} for n in (1, 2)}
    made |= {"on=False": {"on": False}, **{f"{name}=1": {name: 1} for name in "xyz"}}
    found = Space((), {}, made).group(made, 3)
    assert found == [{"a=1", "x=1", "y=1"}, {"a=2", "z=1"}, {"on=False"}]


def test_the_catalogue_says_what_helped_other_models() -> None:
    known = replace(knob("b", 4, 9, 16), helped=(9,), idle=(16,))
    found = spaces.of_catalogue([InstalledKnob(known, B, (4, 9, 16))], Variant(""))
    assert found.helped == {"b=9"}
    assert found.idle == {"b=16"}


def test_the_catalogue_on_top_of_a_side() -> None:
    choice = InstalledKnob(knob("b", 4, 9, only_with={"a": False}), B, (4, 9))
    found = spaces.of_catalogue([choice], Variant("", {"b": 9}))
    (change,) = found.changes
    assert (change.good, change.bad) == (9, 4)
    assert found.settings(frozenset()) == {"b": 9}
    assert found.settings(found.everything) == {"a": False, "b": 4}


def test_two_values_of_one_option_are_two_changes() -> None:
    found = spaces.of_catalogue([InstalledKnob(knob("b", 4, 9), B, (4, 9))], Variant(""))
    keys = [change.key for change in found.changes]
    assert keys == ["b=4", "b=9"]
    assert found.settings(frozenset({"b=9"})) == {"b": 9}


def test_two_installations() -> None:
    old = catalogue(
        A, B, InductorOption("gone", "int", "1", 1), InductorOption("typed", "int", "5", 5)
    )
    new = catalogue(
        InductorOption("a", "bool", "False", False),
        B,
        InductorOption("new", "int", "1", 1),
        InductorOption("typed", "str", "'five'", "five"),
    )
    found = _installations(Variant("", {"gone": 2, "b": 7}), Variant(""), old, new)
    assert {c.name: (c.good, c.bad) for c in found.space.changes} == {
        "a": (True, False),
        "b": (7, 3),
    }
    # No change: the new torch with all that the old one has.
    assert found.space.settings(frozenset()) == {"a": True, "b": 7}
    assert found.space.settings(found.space.everything) == {}
    assert (found.only_good, found.only_bad) == (("gone",), ("new",))
    assert found.unknown == ("gone",)
    # 5 could be typed as a text, but is none.
    assert [change.name for change in found.unsettable] == ["typed"]


def test_a_release_without_a_limit_is_carried_over_as_no_limit() -> None:
    # perfcli's patch of torch 2.11 has 0 for its default: no limit, as for torch 2.13.
    name = "triton.mix_order_reduction_max_reads"
    old = catalogue(InductorOption(name, "int | None", "0", 0, note="perfcli's patch"))
    new = catalogue(InductorOption(name, "int", "10", 10))
    up = _installations(Variant(""), Variant(""), old, new)
    assert [(c.name, c.good, c.bad) for c in up.space.changes] == [(name, 0, 10)]
    assert up.unsettable == ()
    down = _installations(Variant(""), Variant(""), new, old)
    assert [(c.name, c.good, c.bad) for c in down.space.changes] == [(name, 10, 0)]


def test_another_none_is_not_carried_over() -> None:
    old = catalogue(InductorOption("a", "int | None", "None", None))
    new = catalogue(InductorOption("a", "int", "10", 10))
    found = _installations(Variant(""), Variant(""), old, new)
    assert found.space.changes == ()
    assert [change.name for change in found.unsettable] == ["a"]
