"""How far exceptions go: several together, with ``most``, and of what is not known."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from handmade import kernel, run

from perfcli.diff.compare import compare
from perfcli.gate.allowances import _covers
from perfcli.gate.excepting import _added, _excepted, exceeded
from perfcli.gate.judging import Policy, Ruling, judge
from perfcli.gate.limits import SIGNS
from perfcli.model import Allowance, Comparison, Finding, KernelFacts, Limit, LimitResult

LOADS = Limit("loads", growth=0)


def loading(a: int, b: int) -> list[KernelFacts]:
    return [
        kernel("a_0", "mul", loads=a, text=f"a {a}"),
        kernel("b_1", "add", loads=b, text=f"b {b}"),
    ]


def grown() -> Comparison:
    """Loads 11 → 17, of kernels with 8 and 9."""
    return compare(run(loading(6, 5)), run(loading(8, 9), id="head"))


def allowed(kernel: str, most: float | None = None, limit: str = "loads") -> Allowance:
    return Allowance(kernel, limit, "known", "me", "2026-12-31", most)


def held(comparison: Comparison, limit: Limit, *allow: Allowance) -> Ruling:
    return judge(comparison, Policy((limit,), allow))


@pytest.mark.parametrize(
    ("most", "outcome"), [(9, "fail"), (16, "fail"), (17, "pass"), (None, "pass")]
)
def test_an_exception_for_everything_is_held_against_the_total(
    most: float | None, outcome: str
) -> None:
    assert held(grown(), LOADS, allowed("*", most)).outcome == outcome


@pytest.mark.parametrize(
    ("exceptions", "outcome"),
    [
        ([allowed("a")], "fail"),
        ([allowed("b")], "fail"),
        ([allowed("a"), allowed("b")], "pass"),
        ([allowed("a", 8), allowed("b", 9)], "pass"),
        ([allowed("a", 8), allowed("b", 8)], "fail"),
        ([allowed("a"), allowed("a_0"), allowed("?_0")], "fail"),  # no kernel counts twice
    ],
)
def test_several_exceptions_add_up(exceptions: list[Allowance], outcome: str) -> None:
    result = held(grown(), LOADS, *exceptions)
    assert result.outcome == outcome
    assert result.used == (set(exceptions) if outcome == "pass" else set())


def test_what_is_not_known_may_be_more_than_the_exception_allows() -> None:
    assert _covers(allowed("*"), "loads", [], None)
    assert not _covers(allowed("*", 9), "loads", [], None)


# --- limits of kernels -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limit", "states"),
    [
        (Limit("loads", "a", most=8, growth=0), ["kept", "broken"]),
        (Limit("loads", "a", most=7, growth=2), ["broken", "kept"]),
        (Limit("loads", "a", most=8, growth_share=0.1), ["kept", "broken"]),
        (Limit("loads", "a", most=8, growth=2, growth_share=0.5), ["kept", "kept"]),
        (Limit("loads", "a", most=8), ["kept"]),
        (Limit("loads", "a", growth=1), ["broken"]),
    ],
)
def test_a_kernel_keeps_most_and_growth(limit: Limit, states: list[str]) -> None:
    result = held(grown(), limit)
    assert [each.state for each in result.limits] == states


def test_most_is_each_kernels_and_growth_the_groups() -> None:
    base = [kernel("ab_0", "mul", "add", stack=80)]
    head = [kernel("a_0", "mul", stack=40), kernel("b_1", "add", stack=48)]
    result = held(
        compare(run(base), run(head, id="head")), Limit("spilled_words", "*", most=12, growth=1)
    )
    assert [(each.state, each.head) for each in result.limits] == [("kept", 12), ("broken", 22)]


def test_own_limits_are_for_small_kernels_too() -> None:
    big = kernel("big_0", "mul", read=10**6)
    base, head = ([big, kernel("a_1", "add", stack=s, text=f"{s}")] for s in (0, 400))
    comparison = compare(run(base), run(head, id="head"))
    limit = Limit("spilled_words", "*", most=0)
    assert held(comparison, limit).outcome == "fail"
    usual = judge(comparison, Policy((limit,), signs=frozenset({*SIGNS, limit})))
    assert [each.kernel for each in usual.limits] == ["big_0"]


# --- one limit on a total --------------------------------------------------------------------


def beyond(limit: Limit = LOADS, head: float | None = 17, at: float | None = 11) -> LimitResult:
    """Of loads that were 11; ``at``: where the limit breaks."""
    return LimitResult(limit, "broken", 11, head, at, text="loads")


def states(comparison: Comparison, result: LimitResult, *allow: Allowance) -> tuple[Any, ...]:
    found = _excepted(comparison, result, allow)
    return (found.state, found.allowance, found.also)


A, B, ALL = allowed("a"), allowed("b"), allowed("*")
BROKEN = ("broken", None, ())


@pytest.mark.parametrize(
    ("allow", "expected"),
    [
        ((), BROKEN),
        ((ALL,), ("allowed", ALL, ())),
        ((A, ALL), ("allowed", ALL, ())),
        ((allowed("*", 16), ALL), ("allowed", ALL, ())),
        ((allowed("*", 16),), BROKEN),  # and is no exception for each kernel
        ((allowed("*", limit="stores"),), BROKEN),
        ((A, B), ("allowed", A, (B,))),
        ((B, A), ("allowed", A, (B,))),  # in the order of the kernels
        ((A,), BROKEN),
    ],
)
def test_which_exceptions_excuse_a_total(
    allow: tuple[Allowance, ...], expected: tuple[Any, ...]
) -> None:
    assert states(grown(), beyond(), *allow) == expected


@pytest.mark.parametrize(
    ("at", "allow", "state"),
    [
        (15, (A,), "allowed"),  # 17, of which a added 2
        (14, (A,), "broken"),
        (13, (B,), "allowed"),  # b added 4
        (12.9, (B,), "broken"),
        (11, (A, B), "allowed"),
        (10, (A, B), "broken"),
        (None, (A,), "allowed"),  # it broke for nothing that a bound says
        (None, (), "broken"),
    ],
)
def test_what_excepted_kernels_added_is_taken_off(
    at: float | None, allow: tuple[Allowance, ...], state: str
) -> None:
    assert states(grown(), beyond(at=at), *allow)[0] == state


def test_of_what_better_is_higher_of_the_whole_is_not_taken_apart() -> None:
    registers = beyond(Limit("registers", growth=0))  # folds to the most of one kernel
    assert states(grown(), registers, allowed("a", limit="registers")) == BROKEN
    memory = beyond(Limit("peak_memory_bytes", growth=0))  # is no kernel's
    assert states(grown(), memory, allowed("a", limit="peak_memory_bytes")) == BROKEN


def test_what_a_kernel_saved_excuses_nothing() -> None:
    """a reads more, b as much less; what is new adds all of it, what is gone nothing."""
    comparison = compare(run(loading(6, 5)), run(loading(9, 2), id="head"))
    assert [more for more, _ in _added(comparison, "loads", [A, B])] == [3]
    new = [*loading(6, 5), kernel("c_2", "exp", loads=7)]
    came = compare(run(loading(6, 5)), run(new, id="head"))
    assert [more for more, _ in _added(came, "loads", [A, B, allowed("c")])] == [7]
    went = compare(run(new), run(loading(6, 5), id="head"))
    assert list(_added(went, "loads", [A, B, allowed("c")])) == []
    same = compare(run(loading(6, 5)), run(loading(6, 5), id="head"))
    assert list(_added(same, "loads", [A, B])) == []


def test_a_group_that_does_not_know_the_metric_is_passed_over() -> None:
    """The first kernel's spills are not known on either side; the second's are."""
    sides = (
        [
            kernel("a_0", "mul", registers=None),
            kernel("b_1", "add", stack=stack, registers=255, text=f"{stack}"),
        ]
        for stack in (0, 40)
    )
    base, head = sides
    comparison = compare(run(base), run(head, id="head"))
    spills = [allowed(name, limit="spilled_words") for name in "ab"]
    assert list(_added(comparison, "spilled_words", spills)) == [(10, spills[1])]


# --- exceeded exceptions ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("allowance", "value"),
    [
        (allowed("*"), None),  # without an end it can't be exceeded
        (allowed("*", 17), None),
        (allowed("*", 16), 17),
        (allowed("*", 7), 17),
        (allowed("a", 8), None),
        (allowed("a", 7), 8),
        (allowed("b", 8), 9),
        (allowed("[ab]", 7), 9),  # the worst of both
        (allowed("c", 1), None),
        (allowed("*", 1, limit="graph_breaks"), None),  # there is none
        (allowed("*", 0, limit="vector_loads"), None),  # of which more is better
        (allowed("*", 1, limit="vector_loads"), 0),
    ],
)
def test_by_which_value_an_exception_is_exceeded(allowance: Allowance, value: float | None) -> None:
    base = [replace_vectors(each, 3) for each in loading(6, 5)]
    head = [replace_vectors(each, n) for each, n in zip(loading(8, 9), (2, 0), strict=True)]
    comparison = compare(run(base), run(head, id="head"))
    assert exceeded(comparison, allowance) == value


def replace_vectors(facts: KernelFacts, number: int) -> KernelFacts:
    assert facts.source_facts is not None
    return replace(facts, source_facts=replace(facts.source_facts, vector_loads=number))


@pytest.mark.parametrize(
    ("more", "most", "value"),
    [
        ({}, 91, 92),
        ({}, 92, None),
        ({"kernels": ()}, 91, None),  # it names no kernel, and the exception does
        ({"on_base": True}, 91, None),
        ({"appearance": "same"}, 91, None),
        ({"code": "PC102"}, 91, None),
        ({"amount": None}, 91, None),
    ],
)
def test_a_findings_amount_may_exceed_its_exception(
    more: dict[str, Any], most: float, value: float | None
) -> None:
    given: dict[str, Any] = {
        "code": "PC101",
        "severity": "warning",
        "headline": "a_0 spills",
        "kernels": (0,),
        "amount": 92,
        "appearance": "new",
    }
    comparison = replace(grown(), findings=(Finding(**{**given, **more}),))
    assert exceeded(comparison, allowed("a", most, "PC101")) == value


@pytest.mark.parametrize(("pattern", "outcome"), [("new_*", "pass"), ("old_*", "fail")])
def test_an_exception_names_the_kernel_as_the_head_does(pattern: str, outcome: str) -> None:
    """The group was called otherwise before."""
    comparison = compare(
        run([kernel("old_0", "mul", loads=2, text="1")]),
        run([kernel("new_0", "mul", loads=3, text="2")], id="head"),
    )
    limit = Limit("loads", kernel="*", growth=0)
    assert held(comparison, limit, allowed(pattern)).outcome == outcome
