"""What is said of two installations, of several culprits, and of what is left."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from perfcli.bisect.answer import Across, Bisection, Ends, SearchCost
from perfcli.bisect.metrics import METRICS
from perfcli.bisect.run import _nothing_to_search
from perfcli.bisect.space import NOT_SET
from perfcli.bisect.view import _lines, _verdict
from perfcli.search.question import Answer, OptionChange
from perfcli.search.result import Culprits, CulpritSet, Effect, Improvement

A, B = OptionChange("a", 1, 2), OptionChange("b", True, False)


def found(ends: Ends, culprits: Culprits, across: Across | None = None) -> Bisection:
    return Bisection(
        "id", "x", {}, METRICS["loads"], (A, B), SearchCost(5, 3, 0, 1.0), ends, culprits,
        across=across, title="x",
    )  # fmt: skip


def blamed(option: OptionChange, alone: float, without: Answer) -> CulpritSet:
    return CulpritSet((option,), Answer("bad", alone), without, (), (), True)


def test_two_culprits_and_what_is_left_of_the_difference() -> None:
    left = Answer("good", 11.0)
    sets = (blamed(A, 70, Answer("bad", 41.0)), blamed(B, 40, left))
    ends = (Answer("good", 10.0), Answer("bad", 100.0))
    said = _lines(found(Ends(10, 100), Culprits("explained", sets, *ends, left)))
    assert "to blame: a=2 (1); b=false (true)" in said
    assert "   bad − it: 41; the rest is below" in said
    assert "   bad − it and what is above: 11; proven both ways" in said
    assert "without all of them 11: 1.11 % is left" in said


def test_a_variable_that_one_side_does_not_set() -> None:
    left = Answer("good", 1.0)
    variable = OptionChange("TORCHINDUCTOR_X", NOT_SET, "0")
    culprits = Culprits("explained", (blamed(variable, 9, left),), left, Answer("bad", 9.0), left)
    said = _lines(replace(found(Ends(1, 9), culprits), command="perfcli compare"))
    assert "to blame: TORCHINDUCTOR_X=0 (not set)" in said
    # No value of a variable means that it is not set.
    assert "cure: TORCHINDUCTOR_X not set" in said


def test_what_no_option_explains_between_two_installations() -> None:
    across = Across("2.11", "2.13", good_value=8, only_bad=("new",))
    result = found(Ends(20, 20), Culprits("not explained"), across)
    assert _verdict(result) == "no option is to blame: torch 2.13 has it with either's defaults"
    said = _lines(result)
    assert "not explained by an option: +12" in said
    assert "only torch 2.13 has: new" in said
    assert result.exit_code == 3
    assert "" not in [a for a, b in pairwise(said) if b == ""]


def test_both_installations_stand_at_the_top_and_their_options_are_named() -> None:
    left = Answer("good", 5.0)
    culprits = Culprits(
        "explained",
        (blamed(A, 20, left),),
        Answer("good", 10.0),
        Answer("bad", 20.0),
        left,
    )
    said = _lines(found(Ends(10, 20), culprits, Across("2.11", "2.13", good_value=8)))
    assert said[1] == "good 8 (torch 2.11) → bad 20 (torch 2.13)"
    assert said[2] == "2 options differ between the two: a, b"
    assert "torch 2.13 with the options of torch 2.11: 10" in said
    # Better than the good end: nothing is left.
    assert not [line for line in said if "is left" in line]


def test_of_options_on_one_side_those_for_performance_are_named() -> None:
    private = tuple(f"_private_{n}" for n in range(20))
    across = Across(
        "2.11", "2.13", 8, only_good=private, only_bad=(*private, "batch_invariant"),
        unsettable=("inter_node_bw",),
    )  # fmt: skip
    said = _lines(found(Ends(20, 20), Culprits("not explained"), across))
    assert "only torch 2.11 has: 20 options (--json has all)" in said
    assert "only torch 2.13 has: batch_invariant and 20 more (--json has all)" in said
    assert "defaults that can't be carried over: inter_node_bw" in said


def test_good_that_is_no_better_is_held_against_the_good_torch_itself() -> None:
    across = Across("2.13", "2.11", good_value=21)
    result = found(Ends(10, 20), Culprits("not worse"), across)
    assert _verdict(result) == (
        "good is not better than bad: 21 (torch 2.13) and 20 (torch 2.11), exact"
    )
    assert not [line for line in _lines(result) if "explain" in line]


def test_options_that_explain_part_of_it() -> None:
    left = Answer("good", 10.0)
    culprits = Culprits("explained", (blamed(A, 20, left),), Answer("good", 10.0), None, left)
    result = found(Ends(10, 20), culprits, Across("2.11", "2.13", good_value=8))
    assert "not explained by an option: +2" in _lines(result)
    assert result.unexplained == 2


def test_what_is_known_when_it_was_stopped_early() -> None:
    def said(*suspects: OptionChange) -> list[str]:
        return _lines(found(Ends(10, 20), Culprits(None, suspects=suspects, stopped="early")))

    assert "narrowed down to: a=2 (1)" in said(A)
    assert "none of them is ruled out yet" in said(A, B)


def test_why_it_stopped() -> None:
    for why, said in (("interrupted", "interrupted"), ("after 5 s", "stopped after 5 s")):
        result = replace(found(Ends(10, 20), Culprits(None, stopped=why)), stopped=why)
        assert _verdict(result) == f"no answer yet: {said}"
        assert _lines(result)[-1] == f"{said}: --resume id goes on"


def test_two_times_stand_with_their_interval_and_the_floor() -> None:
    ends = Ends(0.010, 0.0101, 1.01, 0.998, 1.022, floor=0.015)
    result = found(ends, Culprits("not worse"))
    assert not ends.is_worse
    assert _verdict(result) == (
        "good is not better than bad: 10.00 ms and 10.10 ms, +1.0 % [−0.2, +2.2], noise floor 1.5 %"
    )


def test_an_estimate_that_cannot_tell_blames_nobody() -> None:
    ends = Ends(100e-6, 102e-6, 1.02, 0.64, 1.63, estimated="unsure")
    assert _nothing_to_search(ends, None) == "unsure"
    result = found(ends, Culprits("unsure"))
    assert result.exit_code == 3
    said = _lines(result)
    assert (
        "can't tell whether bad is worse: 100.0 µs and 102.0 µs by estimate, +2 % [−36, +63]"
        in said
    )
    assert any("the interval includes no change" in line for line in said)
    assert not any("wrong way round" in line for line in said)
    slower = replace(ends, low=1.01, estimated="slower")
    assert _nothing_to_search(slower, None) is None
    faster = found(replace(ends, estimated="faster"), Culprits("not worse"))
    assert _nothing_to_search(replace(ends, estimated="faster"), None) == "not worse"
    assert any("wrong way round" in line for line in _lines(faster))


def test_a_good_torch_that_is_no_better_is_not_searched() -> None:
    # With the good torch's options the bad torch is better: 10 against 20. The good torch is not.
    assert _nothing_to_search(Ends(10, 20), Across("2.13", "2.11", good_value=21)) == "not worse"
    assert _nothing_to_search(Ends(10, 20), Across("2.13", "2.11", good_value=12)) is None
    assert _nothing_to_search(Ends(20, 20), Across("2.13", "2.11", good_value=8)) == "not explained"
    assert _nothing_to_search(Ends(20, 20), None) == "not worse"


def test_a_catalogues_best_set_begins_with_what_gains_most() -> None:
    same = OptionChange("same", 0, 1)
    effects = (
        Effect(A, Answer("good", 98.0), 2.0, changes_code=True),
        Effect(B, Answer("good", 70.0), 30.0, changes_code=True),
        Effect(same, Answer("good", 100.0), 0.0, changes_code=False),
    )
    best = Improvement(Answer("good", 100.0), effects, (A, B), Answer("good", 68.0), 32.0)
    result = replace(
        found(Ends(0, 0), Culprits("explained")),
        ends=None, culprits=None, direction="improve", improvement=best,
        cost=SearchCost(5, 3, 0, 1.0, inferred=37),
    )  # fmt: skip
    said = _lines(result)
    assert _verdict(result) == "best: 100 → 68 with b=false (true), a=2 (1)"
    assert (
        "1 of 3 changes leave the code as it is: they are all in one class; 0 change it and not "
        "the metric"
    ) in said
    assert (
        "5 compiled · 37 not compiled: torch never reads those options · 3 classes of variants "
        "with identical code · 1 s"
    ) in said
