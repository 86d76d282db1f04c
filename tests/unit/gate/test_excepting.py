"""How far exceptions go: several together, with ``most``, and of what is not known."""

from __future__ import annotations

import pytest
from handmade import kernel, run

from perfcli.diff.compare import compare
from perfcli.gate.allowances import _covers
from perfcli.gate.judging import Policy, Ruling, judge
from perfcli.gate.limits import SIGNS
from perfcli.model import Allowance, Comparison, KernelFacts, Limit

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
