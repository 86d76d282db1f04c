"""One limit held against one number: what breaks it, what is said, and who is to blame."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from handmade import kernel, run
from handmade_estimate import estimated

from perfcli.diff.compare import compare
from perfcli.gate.holding import (
    _allowed,
    _alone,
    _bounds,
    _find_most,
    _has_most,
    _held,
    _hold_estimate,
    _in_other_pieces,
    _moved,
    _new_breaks,
    _of_change,
    _of_time,
    _result,
    _share,
    _state,
    _sure,
    _to_blame,
    _worst,
    of_time,
)
from perfcli.model import (
    Allowance,
    Change,
    Comparison,
    Floor,
    KernelFacts,
    KernelGroup,
    Limit,
    LimitResult,
    LimitState,
    Match,
    Outcome,
    TimeChange,
    TimeVerdict,
    Timing,
)

LOADS = Limit("loads", growth=0)


def change(
    metric: str, base: float | None, head: float | None, outcome: Outcome = "worse"
) -> Change:
    return Change(metric, base, head, outcome)


def sides(base: Sequence[KernelFacts], head: Sequence[KernelFacts], **more: Any) -> Comparison:
    return compare(run(base), run(head, id="head", **more))


def loading(a: int, b: int, **more: Any) -> list[KernelFacts]:
    return [
        kernel("a_0", "mul", loads=a, text=f"a {a}", **more),
        kernel("b_1", "add", loads=b, text=f"b {b}", **more),
    ]


# --- one number ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limit", "base", "allowed"),
    [
        (Limit("loads", most=5), 10, 5),
        (Limit("loads", most=5), None, 5),
        (Limit("loads", growth=3), 10, 13),
        (Limit("loads", growth=0), 0, 0),
        (Limit("loads", growth_share=0.5), 10, 15),
        (Limit("loads", growth=3), None, None),
        (Limit("loads", growth_share=0.5), None, None),
        (Limit("loads", most=14, growth=3, growth_share=0.5), 10, 13),  # the strictest
        (Limit("loads", most=12, growth=3, growth_share=0.5), 10, 12),
        (Limit("loads", most=14, growth=6, growth_share=0.35), 10, 13.5),
        (Limit("vector_loads", most=5), 10, 5),  # of which more is better
        (Limit("vector_loads", growth=3), 10, 7),
        (Limit("vector_loads", growth_share=0.25), 10, 7.5),
        (Limit("vector_loads", most=5, growth=3, growth_share=0.25), 10, 7.5),
        (Limit("loads"), 10, None),
    ],
)
def test_where_a_limit_breaks(limit: Limit, base: float | None, allowed: float | None) -> None:
    assert _allowed(limit, base) == allowed


@pytest.mark.parametrize(
    ("limit", "of", "state"),
    [
        (Limit("loads", growth=3), change("loads", 10, 13), "kept"),
        (Limit("loads", growth=3), change("loads", 10, 14), "broken"),
        (Limit("loads", growth=3), change("loads", 10, 9, "better"), "better"),
        (Limit("loads", growth=3), change("loads", 10, 14, "unknown"), "unknown"),
        (Limit("loads", most=13), change("loads", 10, 14, "unknown"), "broken"),
        (Limit("loads", most=14), change("loads", None, 14, "unknown"), "kept"),
        (Limit("loads", growth=3), change("loads", None, 14, "unknown"), "unknown"),
        (Limit("loads", growth=3), change("loads", 10, None, "unknown"), "unknown"),
        (Limit("loads", most=3), change("loads", 10, None, "unknown"), "unknown"),
        (Limit("vector_loads", growth=0), change("vector_loads", 9, 3), "broken"),
        (Limit("vector_loads", growth=0), change("vector_loads", 9, 3, "same"), "kept"),
        (Limit("vector_stores", growth=0), change("vector_stores", 9, 3, "same"), "kept"),
        (Limit("vector_loads", most=4), change("vector_loads", 9, 3, "same"), "broken"),
        (Limit("stores", growth=0), change("stores", 3, 9, "same"), "broken"),
        (Limit("occupancy", growth_share=0.25), change("occupancy", 0.5, 0.375), "kept"),
        (Limit("occupancy", growth_share=0.25), change("occupancy", 0.5, 0.374), "broken"),
        (
            Limit("peak_memory_bytes", growth=0),
            change("peak_memory_bytes", 5, 5, "unknown"),
            "kept",
        ),
        (
            Limit("peak_memory_bytes", growth=0),
            change("peak_memory_bytes", 5, 6, "unknown"),
            "unknown",
        ),
    ],
)
def test_the_state_of_a_limit(limit: Limit, of: Change, state: LimitState) -> None:
    assert _state(limit, of, _allowed(limit, of.base)) == state


@pytest.mark.parametrize(
    ("of", "sure"),
    [
        (change("loads", 5, 5, "same"), True),
        (change("loads", 5, 5, "unknown"), False),  # both leave something out
        (change("graphs", 5, 5, "unknown"), True),
        (change("graphs", 5, 6, "unknown"), False),
        (change("graphs", 5, 6, "worse"), True),
    ],
)
def test_equal_sums_that_leave_something_out_are_not_sure(of: Change, sure: bool) -> None:
    assert _sure(of) is sure


@pytest.mark.parametrize(
    ("outcome", "head", "state"),
    [
        ("worse", 1.03, "kept"),
        ("worse", 1.031, "broken"),
        ("better", 1.5, "better"),
        ("same", 1.5, "kept"),
        ("unknown", 1.5, "unknown"),
        ("worse", None, "kept"),
    ],
)
def test_time_is_slower_only_beyond_noise(
    outcome: Outcome, head: float | None, state: LimitState
) -> None:
    limit = Limit("time", growth_share=0.03)
    assert _of_time(limit, change("time", 1.0, head, outcome), 1.03) == state
    if head is not None:
        assert _state(limit, change("time", 1.0, head, outcome), 1.03) == state


def test_a_result_says_both_sides_and_whether_they_can_be_compared() -> None:
    broken = _result(LOADS, change("loads", 2, 5))
    assert broken == LimitResult(LOADS, "broken", 2, 5, 2, text="loads 2 → 5 (+150 %), at most +0")
    unknown = _result(LOADS, change("loads", 2, 5, "unknown"))
    assert unknown.text == "loads 2 → 5 (+150 %), at most +0: not comparable"


# --- in words --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limit", "of", "text"),
    [
        (LOADS, change("loads", 2, 2), "loads 2, at most +0"),
        (LOADS, change("loads", 0, 2), "loads 0 → 2, at most +0"),
        (
            Limit("spilled_words", growth=0),
            change("spilled_words", 2, 4),
            "spilled words 2 → 4, at most +0",
        ),
        (
            Limit("occupancy", "*", growth_share=0.25),
            change("occupancy", 0.5, 0.25),
            "occupancy 50 % → 25 %, at most 25 % less",
        ),
        (
            Limit("registers", "*", most=3),
            change("registers", 2, 4),
            "registers 2 → 4 (+100 %), at most 3",
        ),
        (
            Limit("registers", most=3),
            change("registers", 2, 4),
            "registers, most 2 → 4 (+100 %), at most 3",
        ),
    ],
)
def test_a_change_and_its_limit_in_words(limit: Limit, of: Change, text: str) -> None:
    assert _of_change(limit, of) == text


@pytest.mark.parametrize(
    ("limit", "text"),
    [
        (Limit("loads", most=40), "at most 40"),
        (Limit("loads", growth=2), "at most +2"),
        (Limit("loads", growth_share=0.01), "at most +1 %"),
        (Limit("loads", most=40, growth=2, growth_share=0.01), "at most 40 and +2 and +1 %"),
        (Limit("occupancy", most=0.5), "at least 50 %"),
        (Limit("occupancy", growth_share=0.25), "at most 25 % less"),
        (Limit("occupancy", most=0.5, growth_share=0.25), "at least 50 %, at most 25 % less"),
        (Limit("vector_loads", growth=2, growth_share=0.1), "at most 2 and 10 % less"),
    ],
)
def test_bounds_in_words(limit: Limit, text: str) -> None:
    assert _bounds(limit) == text


def test_what_moved_in_words() -> None:
    assert _moved(change("bytes_moved", 2000, 1000)) == "bytes moved 2 kB → 1 kB"


# --- who is to blame -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("metric", "deltas", "found"),
    [
        ("loads", [1, 3, 2], 1),
        ("loads", [3, 3], 0),
        ("loads", [0, -1], None),
        ("loads", [], None),
        ("loads", [None, 1], 1),
        ("vector_loads", [1, -3], 1),
        ("vector_loads", [1, 3], None),
    ],
)
def test_the_group_that_adds_most(
    metric: str, deltas: list[float | None], found: int | None
) -> None:
    groups = tuple(
        KernelGroup(
            Match((n,), (n,), "changed", "", 1.0),
            (
                change("stores", 0, 99),
                change(metric, 10, None if delta is None else 10 + delta),
            ),
        )
        for n, delta in enumerate(deltas)
    )
    bare = KernelGroup(Match((9,), (9,), "changed", "", 1.0), ())
    comparison = replace(sides(loading(1, 1), loading(1, 1)), groups=(bare, *groups))
    best = _find_most(comparison, metric)
    assert best == (None if found is None else groups[found])


@pytest.mark.parametrize(
    ("limit", "text"),
    [
        (Limit("loads", most=5), "most of it in b_1 (4)"),
        (Limit("loads", growth=5), ""),
        (Limit("vector_loads", most=5), ""),  # of which more is better
        (Limit("peak_memory_bytes", most=5), ""),  # is no kernel's
        (Limit("kernels", most=1), ""),  # each counts one
        (Limit("launches", most=1), ""),
        (Limit("spilled_words", most=0), ""),  # there are none
        (Limit("bytes_moved", most=5), "most of it in a_0 (1.5 kB)"),  # as much as b_1: the first
    ],
)
def test_the_kernel_that_has_most_of_a_total(limit: Limit, text: str) -> None:
    idle = kernel("idle_2", "exp", loads=99, launches=0)
    assert _has_most(sides(loading(1, 1), [*loading(3, 4), idle]), limit) == text


def test_who_is_to_blame_for_a_total() -> None:
    comparison = sides(loading(1, 2), loading(1, 4))
    more = LimitResult(LOADS, "broken", 3, 5, 3)
    assert _to_blame(comparison, more) == "b_1 changed"
    same = sides(loading(1, 4), loading(1, 4))
    most = LimitResult(Limit("loads", most=2), "broken", 5, 5, 2)
    assert _to_blame(same, most) == "most of it in b_1 (4)"
    assert _to_blame(same, more) == ""
    broke = replace(comparison, head=replace(comparison.head, graph_breaks={"it": 2}))
    assert _to_blame(broke, replace(more, limit=Limit("graph_breaks", growth=0))) == "it"


def test_breaks_that_were_not_there_or_not_so_often() -> None:
    comparison = sides(loading(1, 1), loading(1, 1))
    base = replace(comparison.base, graph_breaks={"as often": 2, "less": 3, "more": 1})
    head = replace(
        comparison.head, graph_breaks={"as often": 2, "less": 2, "more": 2, "new": 1, "none": 0}
    )
    assert _new_breaks(replace(comparison, base=base, head=head)) == "more; new"


# --- totals ----------------------------------------------------------------------------------


def held(comparison: Comparison, limit: Limit, *allow: Allowance, share: float = 0.0) -> list[Any]:
    found = _held(comparison, limit, allow, share)
    return [(each.state, each.head, each.text) for each in found]


def test_a_total_is_one_result_that_names_who_is_to_blame() -> None:
    comparison = sides(loading(1, 2), loading(1, 4))
    assert held(comparison, LOADS) == [
        ("broken", 5, "loads 3 → 5 (+66.7 %), at most +0: b_1 changed")
    ]
    assert held(comparison, Limit("loads", growth=2)) == [
        ("kept", 5, "loads 3 → 5 (+66.7 %), at most +2")
    ]
    excepted = Allowance("b_1", "loads", "known", "me", "2027-01-01")
    assert held(comparison, LOADS, excepted) == [
        ("allowed", 5, "loads 3 → 5 (+66.7 %), at most +0")
    ]


def test_what_neither_side_knows_is_not_asked() -> None:
    comparison = sides(loading(1, 2), loading(1, 4))
    assert held(comparison, Limit("peak_memory_bytes", growth=0)) == []
    assert held(comparison, Limit("time", growth_share=0.1)) == []
    nothing = (change("peak_memory_bytes", None, None, "unknown"),)
    unknown = replace(comparison, totals=nothing)
    assert held(unknown, Limit("peak_memory_bytes", growth=0)) == []
    for base, head in ((5, None), (None, 5)):
        one = replace(comparison, totals=(change("peak_memory_bytes", base, head, "unknown"),))
        (found,) = held(one, Limit("peak_memory_bytes", growth=0))
        assert found[0] == "unknown"


def test_a_peak_of_other_pieces_says_so() -> None:
    one = compare(run(loading(1, 1), peak=5), run(loading(1, 1), id="head", peak=6))
    assert _in_other_pieces(one) == ""
    broken = [kernel("a_0", "mul"), kernel("b_1", "add", graph="forward 1")]
    two = compare(run(loading(1, 1), peak=5), run(broken, id="head", peak=6))
    text = ", since 1 graph became 2 and each has a peak of its own"
    assert _in_other_pieces(two) == text
    (found,) = held(two, Limit("peak_memory_bytes", growth=0))
    assert found[0] == "unknown"
    assert found[2] == f"peak memory 5 B → 6 B (+20 %), at most +0 B: not comparable{text}"
    (other,) = held(replace(two, totals=(change("loads", 1, 2, "unknown"),)), LOADS)
    assert text not in other[2]


def test_a_step_is_held_by_its_measured_time() -> None:
    step = TimeChange(12.31e-3, 12.70e-3, 1.031, 1.026, 1.037, verdict="slower")
    comparison = replace(
        sides(loading(1, 1), loading(1, 1)), timing=Timing(step, Floor(0.01, "assumed"))
    )
    limit = Limit("time", growth_share=0.03)
    text = "step 12.31 → 12.70 ms, +3.1 % [+2.6, +3.7], at most +3 %"
    assert of_time(comparison, limit) == text
    assert held(comparison, limit) == [("broken", 12.70e-3, text)]


# --- each kernel -----------------------------------------------------------------------------


def test_a_limit_of_kernels_is_split_into_what_each_and_what_a_group_is_held_to() -> None:
    both = Limit("loads", "*", most=1, growth=2, growth_share=0.5)
    most, growth = _alone(both)
    assert (most.most, most.growth, most.growth_share) == (1, None, None)
    assert (growth.most, growth.growth, growth.growth_share) == (None, 2, 0.5)
    for alone in (
        Limit("loads", "*", growth_share=0.5),
        Limit("loads", "*", growth=0),
        Limit("loads", "*", most=0),
    ):
        assert list(_alone(alone)) == [alone]


@pytest.mark.parametrize(
    ("share", "names"), [(0.0, "abc"), (0.01, "abc"), (0.0101, "bc"), (0.5, "c"), (1.0, "")]
)
def test_kernels_that_move_too_little_are_not_asked(share: float, names: str) -> None:
    """Of 150 kB a moves 1 %, b as it should, c most."""
    read = {"a": 1_000, "b": 49_000, "c": 98_500}
    made = [
        [kernel(f"{n}_0", n, read=b, text=f"{n}{k}", loads=k) for n, b in read.items()]
        for k in (1, 2)
    ]
    limit = Limit("loads", "*", growth=0)
    found = held(sides(*made), limit, share=share)
    assert [text[0] for _, _, text in found] == list(names)


def test_what_part_of_the_bytes_a_group_moves() -> None:
    comparison = sides(loading(1, 1), loading(1, 2))
    group = comparison.groups[0]
    assert _share(comparison, group) == 0.5
    assert _share(comparison, replace(group, changes=())) == 1.0
    unknown = (change("bytes_moved", 5, None, "unknown"),)
    assert _share(comparison, replace(group, changes=unknown)) == 1.0
    assert _share(replace(comparison, totals=()), group) == 1.0
    assert _share(replace(comparison, totals=(change("bytes_moved", 5, 0),)), group) == 1.0


def test_each_kernel_that_a_pattern_means_is_held_and_said() -> None:
    comparison = sides(loading(1, 2), loading(3, 2))
    limit = Limit("loads", "*", growth=0)
    found = list(_held(comparison, limit, []))
    assert [(each.state, each.group, each.kernel, each.text) for each in found] == [
        ("broken", 0, "a_0", "a_0: loads 1 → 3 (+200 %), at most +0"),
        ("kept", 1, "b_1", "b_1: loads 2, at most +0"),
    ]
    assert [each.kernel for each in _held(comparison, replace(limit, kernel="b"), [])] == ["b_1"]
    assert list(_held(comparison, replace(limit, kernel="c"), [])) == []


def test_the_first_exception_that_covers_a_kernel_is_named() -> None:
    comparison = sides(loading(1, 2), loading(3, 2))
    limit = Limit("loads", "*", growth=0)
    small = Allowance("a", "loads", "small", "me", "2027-01-01", 2)
    first, second = (Allowance("a", "loads", text, "me", "2027-01-01") for text in ("1", "2"))
    a, b = _held(comparison, limit, [small, first, second])
    assert (a.state, a.allowance) == ("allowed", first)
    assert (b.state, b.allowance) == ("kept", None)
    a, _ = _held(comparison, limit, [small])
    assert (a.state, a.allowance) == ("broken", None)


def test_what_is_gone_or_new_or_not_known_is_held_to_no_growth() -> None:
    limit = Limit("loads", "*", growth=0)
    gone = sides(loading(1, 2), loading(1, 2)[:1])
    assert [each.kernel for each in _held(gone, limit, [])] == ["a_0"]
    new = sides(loading(1, 2)[:1], loading(1, 2))
    registers = Limit("registers", "*", growth=0)
    assert [each.kernel for each in _held(new, registers, [])] == ["a_0"]
    assert [each.state for each in _held(new, Limit("loads", "*", most=1), [])] == [
        "kept",
        "broken",
    ]
    bare = sides(loading(1, 2), loading(1, 2, registers=None))
    assert list(_held(bare, Limit("registers", "*", most=5), [])) == []
    assert list(_held(bare, Limit("registers", "*", growth=5), [])) == []


def test_the_worst_kernel_of_a_group_that_the_pattern_means() -> None:
    head = [
        kernel("a_0", "mul", loads=3),
        kernel("b_1", "add", loads=5),
        kernel("c_2", "exp", loads=9),
    ]
    comparison = sides([kernel("abc_0", "mul", "add", "exp")], head)
    (group,) = comparison.groups
    assert _worst(comparison, Limit("loads", "[ab]"), group) == 5
    assert _worst(comparison, Limit("occupancy", "*"), group) == 0.5
    assert _worst(comparison, Limit("loads", "x"), group) is None
    facts = replace(head[0].candidates[0], occupancy=0.25)
    lower = (replace(head[0], candidates=(facts,)), *head[1:])
    changed = replace(comparison, head=replace(comparison.head, kernels=lower))
    assert _worst(changed, Limit("occupancy", "*"), group) == 0.25


# --- estimated times -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("share", "low", "high", "verdict", "state"),
    [
        (0.25, 1.26, 1.5, "slower", "broken"),
        (0.25, 1.25, 1.5, "slower", "unknown"),
        (0.25, 1.1, 1.25, "slower", "kept"),
        (0.25, 1.1, 1.26, "slower", "unknown"),
        (0.25, 0.5, 0.75, "faster", "better"),
        (None, 1.01, 1.5, "slower", "broken"),
        (None, 0.9, 1.0, "same", "kept"),
    ],
)
def test_an_estimate_lies_beyond_a_limit_or_within_it(
    share: float | None, low: float, high: float, verdict: TimeVerdict, state: LimitState
) -> None:
    estimate = estimated(verdict, low, high).estimate
    assert estimate is not None
    result = LimitResult(Limit("step_time", growth_share=share), "unknown", None, None, None)
    assert _hold_estimate(result, estimate).state == state
    for edges in ((None, high), (low, None)):
        missing = replace(estimate, low=edges[0], high=edges[1], missing=("a reason",))
        found = _hold_estimate(result, missing)
        assert found.state == "unknown"
        assert ": a reason; " in found.text
