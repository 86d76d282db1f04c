"""What the counts of two hand-made runs come to where a gain and a loss stand side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from handmade import kernel, run

from perfcli.diff.compare import compare
from perfcli.diff.verdict.decide import _find_most_to_blame, _without_repetition, judge_counts
from perfcli.diff.verdict.words import (
    _describe_kernels,
    _join_counts,
    _one_of,
    _say_unaffected,
    _write_change,
    _write_counted,
    describe_change,
    pick_kernel,
)
from perfcli.model import (
    Because,
    Change,
    Comparison,
    ExternCall,
    KernelFacts,
    KernelGroup,
    Match,
    Outcome,
    Relation,
)

# Two spilled words: a stack of 8 bytes in a kernel with as many registers as there are.
SPILLING = kernel("a_0", "mul", loads=6, stack=8, registers=255, read=10_000, text="1")


def spared(in_loops: int = 0, **more: Any) -> KernelFacts:
    made = kernel("a_0", "mul", **{"loads": 6, "read": 10_000, "text": "2", **more})
    assert made.source_facts is not None
    return replace(made, source_facts=replace(made.source_facts, loads_in_loops=in_loops))


def held(head: Sequence[KernelFacts], base: Sequence[KernelFacts] = (SPILLING,)) -> Comparison:
    return compare(run(base), run(head, id="head"))


def test_a_trifle_that_costs_nothing_is_better() -> None:
    comparison = held([spared()])
    assert comparison.outcome == "better"
    assert comparison.reason.startswith("spilled words 2 → 0: a_0 changed")


def test_a_trifle_hides_no_loss() -> None:
    """Two spilled words and 0.58 % of the bytes for a kernel, a launch and seven loads more."""
    base = [SPILLING, kernel("b_1", "add", loads=1, read=90_000)]
    more = kernel("copy_2", "clone", loads=7, read=200, written=100)
    comparison = held([spared(read=9_110), base[1], more], base)
    outcomes = {c.metric: (c.outcome, c.delta) for c in comparison.totals}
    assert outcomes["spilled_words"] == ("better", -2)
    assert outcomes["bytes_moved"] == ("better", -590)  # of 101 kB: 0.58 %
    assert outcomes["launches"] == ("worse", 1)
    assert comparison.outcome == "unknown"
    assert comparison.reason == (
        "launches 2 → 3 (+50 %): copy_2 is new (nothing → 1 kernel, 7 loads, +1 launches), "
        "though spilled words −2, bytes moved −590 B (−0.584 %); "
        "too little was gained to tell which weighs more"
    )
    because = comparison.because
    assert because is not None
    assert (because.kernel, because.how, because.group) == ("copy_2", "is new", 2)
    assert because.also == "kernels +1 (+50 %), loads +7 (+100 %)"


@pytest.mark.parametrize(
    ("base", "head", "outcome"),
    [
        ({}, {"in_loops": 2}, "unknown"),
        ({}, {"loads": 7}, "unknown"),
        ({}, {"loads": 5}, "better"),
        ({"stack": 64}, {"loads": 7}, "unknown"),
        ({"stack": 68}, {"loads": 7}, "better"),  # 17 spilled words are no trifle
        ({"read": 10_100}, {"loads": 7}, "unknown"),
        ({"read": 10_200}, {"loads": 7}, "better"),  # nor are 1.9 % of the bytes
        ({}, {"loads": 7, "read": 10_200}, "worse"),  # what decides is worse
    ],
)
def test_how_much_makes_up_for_a_loss(
    base: dict[str, Any], head: dict[str, Any], outcome: Outcome
) -> None:
    spills = {"stack": 8, "registers": 255, "text": "1"}
    comparison = held([spared(**head)], [spared(**{**spills, **base})])
    assert comparison.outcome == outcome


@pytest.mark.parametrize(("peak", "outcome"), [(985, "unknown"), (979, "better")])
def test_a_little_memory_is_a_trifle(peak: int, outcome: Outcome) -> None:
    base, head = run([spared(text="1")], peak=1000), run([spared(loads=7)], id="head", peak=peak)
    assert compare(base, head).outcome == outcome


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"read": 20_000}, "a_0 is the same code, over other data"),
        ({"launches": 2}, "a_0 is the same code, launched another number of times"),
    ],
)
def test_the_same_code_that_costs_more_says_how(more: dict[str, Any], said: str) -> None:
    given: dict[str, Any] = {"text": "1", "read": 10_000}
    before, after = kernel("a_0", "mul", **given), kernel("a_0", "mul", **{**given, **more})
    comparison = held([after], [before])
    assert comparison.outcome == "worse"
    assert said in comparison.reason


# --- one group -------------------------------------------------------------------------------


def grouped(
    relation: Relation, base: Sequence[int] = (0,), head: Sequence[int] = (0,)
) -> KernelGroup:
    return KernelGroup(Match(tuple(base), tuple(head), relation, "", 1.0), ())


@pytest.mark.parametrize(
    ("group", "text"),
    [
        (grouped("new", ()), "is new"),
        (grouped("gone", (0,), ()), "is gone"),
        (grouped("fused", (0, 1)), "fuses 2 kernels"),
        (grouped("split", (0,), (0, 1)), "comes from a split into 2 kernels"),
        (grouped("regrouped", (0, 1), (0, 1)), "was regrouped with others (2 → 2)"),
        (grouped("same"), "is the same code, over other data"),
        (grouped("same", (0, 1)), "is the same code, launched another number of times"),
        (grouped("changed"), "changed"),
    ],
)
def test_what_became_of_a_group(group: KernelGroup, text: str) -> None:
    base = head = run([kernel("a_0"), kernel("b_1")])
    assert describe_change(group, base, head) == text


@pytest.mark.parametrize(
    ("before", "after", "relation", "text"),
    [
        ("persistent-reduction", "reduction", "changed", "now loops over what it held at once"),
        ("reduction", "persistent-reduction", "changed", "changed"),
        ("persistent-reduction", "persistent-reduction", "changed", "changed"),
        ("persistent-reduction", "reduction", "fused", "fuses 1 kernels"),
    ],
)
def test_a_reduction_that_loops_now(before: str, after: str, relation: Any, text: str) -> None:
    base, head = run([kernel("a_0", kind=before)]), run([kernel("a_0", kind=after)])
    assert describe_change(grouped(relation), base, head) == text


@pytest.mark.parametrize(
    ("nodes", "text"),
    [
        ("exp", "comes from a split into 2 kernels"),
        ("exp erf", "is one of 2 kernels that compute more than the one before"),
    ],
)
def test_work_that_was_added_is_no_split(nodes: str, text: str) -> None:
    base = run([kernel("a_0", "mul", "exp")])
    head = run([kernel("a_0", "mul"), kernel("b_1", *nodes.split())])
    assert describe_change(grouped("split", (0,), (0, 1)), base, head) == text


def test_of_two_kernels_none_looped() -> None:
    held_at_once = [kernel(name, kind="persistent-reduction") for name in ("a_0", "b_1")]
    head = run([kernel("ab_0", kind="reduction")])
    assert describe_change(grouped("changed", (0, 1)), run(held_at_once), head) == "changed"


@pytest.mark.parametrize(
    ("head", "name"),
    [
        ([kernel("a"), kernel("b", read=2000)], "b"),
        ([kernel("a", read=9000), kernel("b", stack=8, registers=255)], "b"),
        ([kernel("a", launches=0, read=9000), kernel("b")], "b"),
        ([kernel("a", launches=0), kernel("b", launches=0, read=9000)], "b"),
        (
            [kernel("a", read=None, written=None, registers=None), kernel("b", read=1, written=0)],
            "b",
        ),
        ([kernel("a"), kernel("b")], "a"),
    ],
)
def test_the_kernel_that_spills_most_and_then_moves_most_is_picked(
    head: list[KernelFacts], name: str
) -> None:
    base = [kernel("base", read=10**6)]
    assert pick_kernel(grouped("split", (0,), (0, 1)), run(base), run(head)) == name
    assert pick_kernel(grouped("gone", (0, 1), ()), run(head), run(base)) == name


def test_a_groups_kernels_and_their_loads() -> None:
    base = run([kernel("a_0", loads=6), kernel("b_1", loads=8), kernel("c_2", launches=0)])
    head = run([kernel("ab_0", loads=1), kernel("x_1", source_facts=None)], id="head")
    assert _describe_kernels(grouped("fused", (0, 1), (0,)), base, head) == (
        "2 kernels, 14 loads → 1 kernel, 1 load"
    )
    assert _describe_kernels(grouped("new", (), (1,)), base, head) == "nothing → 1 kernel"
    assert _describe_kernels(grouped("gone", (2,), ()), base, head) == "1 kernel → nothing"
    assert (
        _describe_kernels(grouped("gone", (0, 2), ()), base, head) == "2 kernels, 6 loads → nothing"
    )


@pytest.mark.parametrize(
    ("relation", "alike", "text"),
    [
        ("new", [((), (0,))], ""),
        ("new", [((), (0,)), ((), (1, 2))], "; one of 3 new kernels"),
        ("gone", [((0,), ()), ((1, 2), ())], "; one of 3 that are gone"),
        ("changed", [((0,), (0,)), ((1,), (1,))], ""),
    ],
)
def test_one_kernel_of_several_new_ones_says_so(
    relation: Relation, alike: list[tuple[tuple[int, ...], tuple[int, ...]]], text: str
) -> None:
    groups = [grouped(relation, *sides) for sides in alike]
    other = grouped("same", (7,), (7,))
    assert _one_of(groups[0], [other, *groups]) == text


# --- what can't be told ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("base", "head", "reason"),
    [
        ([], ["a"], "the base has no generated kernel, the other side 1 kernel"),
        (["a", "b"], [], "the head has no generated kernel, the other side 2 kernels"),
    ],
)
def test_a_side_without_kernels_can_t_be_compared(
    base: list[str], head: list[str], reason: str
) -> None:
    comparison = held([kernel(name) for name in head], [kernel(name) for name in base])
    assert (comparison.outcome, comparison.reason) == ("unknown", reason)


UNKNOWN = "can't be compared: not known for some kernels of"


@pytest.mark.parametrize(
    ("base", "head", "reason"),
    [
        ({}, {"read": None, "written": None}, f"bytes moved {UNKNOWN} one side (see their notes)"),
        ({}, {"registers": None}, f"spilled words {UNKNOWN} one side (see their notes)"),
        (
            {"registers": None},
            {"registers": None},
            f"spilled words {UNKNOWN} both sides (see their notes)",
        ),
    ],
)
def test_spills_and_bytes_have_to_be_known(
    base: dict[str, Any], head: dict[str, Any], reason: str
) -> None:
    comparison = held(
        [kernel("a_0", "mul", text="2", **head)], [kernel("a_0", "mul", text="1", **base)]
    )
    assert (comparison.outcome, comparison.reason) == ("unknown", reason)


def test_of_identical_kernels_and_on_a_cpu_spills_need_not_be_known() -> None:
    without = kernel("a_0", "mul", registers=None)
    assert held([without], [without]).outcome == "same"
    other = kernel("a_0", "mul", registers=None, text="other")
    base, head = (run([side], device="cpu", target=None) for side in (without, other))
    comparison = compare(base, head)
    assert comparison.outcome == "same"
    assert "spills" not in comparison.reason


# --- the same --------------------------------------------------------------------------------


def test_identical_kernels_are_the_same_and_counted() -> None:
    one, two = kernel("a_0", "mul"), kernel("b_1", "add")
    assert held([one], [one]).reason == "the only kernel is identical"
    assert held([one, two], [one, two]).reason == "both kernels are identical"
    calls = (ExternCall("aten.mm", "forward 0", 2),)
    comparison = compare(run([one]), run([one], id="head", externs=calls))
    assert comparison.reason == "the only kernel is identical, but extern calls 0 → 2 (aten.mm +2)"


def test_kernels_that_changed_without_effect_say_what_stayed() -> None:
    base, head = kernel("a_0", "mul", text="1"), kernel("a_0", "mul", text="2")
    said = "1 group of kernels changed, but neither spills nor bytes"
    assert held([head], [base]).reason == said
    calls = (ExternCall("aten.mm", "forward 0", 2),)
    more = compare(run([base]), run([head], id="head", externs=calls))
    assert more.reason == f"{said}; but extern calls 0 → 2 (aten.mm +2)"


def test_what_changed_besides_is_told_as_it_stands() -> None:
    """An operator's name may have a comma and a conjunction."""
    base, head = kernel("a_0", "mul", text="1"), kernel("a_0", "mul", text="2")
    calls = (ExternCall("mine.fast, but rough", "forward 0", 2),)
    more = compare(run([base]), run([head], id="head", externs=calls))
    assert more.reason.endswith("nor bytes; but extern calls 0 → 2 (mine.fast, but rough +2)")


def change(metric: str, outcome: Outcome = "same", base: Any = 1, head: Any = 1) -> Change:
    return Change(metric, base, head, outcome)


@pytest.mark.parametrize(
    ("deciding", "text"),
    [
        (
            [change("lower_bound_seconds"), change("peak_memory_bytes", "unknown")],
            "1 group of kernels changed, but nothing that decides (peak memory can't be compared)",
        ),
        ([change("spilled_words")], "1 group of kernels changed, but not spills"),
        (
            [change("spilled_words"), change("bytes_moved")],
            "1 group of kernels changed, but neither spills nor bytes",
        ),
        (
            [
                change("spilled_words"),
                change("bytes_moved"),
                change("vector_loads"),
                change("lower_bound_seconds"),
                change("peak_memory_bytes", "unknown"),
                change("bytes_swept", "unknown"),
            ],
            "1 group of kernels changed, but neither spills, bytes nor vector loads "
            "(peak memory, bytes swept can't be compared)",
        ),
    ],
)
def test_what_stayed_is_listed(deciding: list[Change], text: str) -> None:
    assert _say_unaffected(deciding, [grouped("changed"), grouped("same")]) == text


def test_where_nothing_can_be_compared_that_is_said() -> None:
    comparison = held([kernel("a_0", "mul", text="2")], [kernel("a_0", "mul", text="1")])
    nothing = replace(comparison, totals=(change("peak_memory_bytes", "unknown"),))
    nothing = replace(nothing, head=replace(comparison.head, device="cpu"))
    verdict = _write_counted(judge_counts(nothing), nothing)
    assert (verdict.outcome, verdict.reason) == (
        "unknown",
        "nothing that decides can be compared: no spills, bytes or memory",
    )


# --- worse and better ------------------------------------------------------------------------


def test_what_is_worse_besides_and_what_is_better_is_told() -> None:
    """Spills are worse and decide; memory is worse besides; bytes are better."""
    base = run([kernel("a_0", "mul", read=10_000, text="1")], peak=1000)
    spilling = kernel("a_0", "mul", read=5_000, stack=8, registers=255, text="2")
    comparison = compare(base, run([spilling], id="head", peak=1500))
    verdict = _write_counted(judge_counts(comparison), comparison)
    assert verdict.outcome == "worse"
    assert verdict.because is not None
    assert verdict.because.also == "peak memory +500 B (+50 %)"
    assert verdict.because.though == "bytes moved −5 kB"
    assert verdict.reason == (
        "spilled words 0 → 2: a_0 changed (1 kernel, 2 loads → 1 kernel, 2 loads, "
        "+2 spilled words), though bytes moved −5 kB"
    )


def test_bytes_in_other_units_are_not_told_beside_bytes() -> None:
    changes = [change("bytes_moved"), change("bytes_swept"), change("lower_bound_seconds")]
    assert _without_repetition(changes) == changes[:1]
    assert _without_repetition(changes[1:]) == changes[1:]


@pytest.mark.parametrize(
    ("metric", "base", "head", "text"),
    [
        ("spilled_words", 2, 4, "spilled words +2"),
        ("launches", 2, 4, "launches +2 (+100 %)"),
        ("launches", 0, 4, "launches +4"),
        ("bytes_moved", 2000, 1000, "bytes moved −1 kB (−50 %)"),
    ],
)
def test_a_change_is_written_with_its_share(metric: str, base: int, head: int, text: str) -> None:
    assert _write_change(change(metric, "worse", base, head)) == text


@pytest.mark.parametrize(
    ("delta", "deltas", "blamed"),
    [
        (4, [1, 3], 1),
        (4, [3, 1], 0),
        (4, [2, 2], 0),  # a tie: the first
        (4, [-1, 0], None),
        (4, [0, 0], None),
        (4, [], None),
        (-4, [1, -3], 1),
        (-4, [-1, -1], 0),
        (-4, [1, 3], None),
        (0, [-3, 2], 0),  # what did not grow sinks
        (1, [0.5], 0),
        (4, [None, 1], 1),
    ],
)
def test_the_group_that_adds_most_is_to_blame(
    delta: int, deltas: list[float | None], blamed: int | None
) -> None:
    groups = [
        replace(
            grouped("changed"),
            changes=(
                change("stores", "worse", 0, 99),
                change("loads", "worse", None if each is None else 0, each),
            ),
        )
        for each in deltas
    ]
    assert _find_most_to_blame(change("loads", "worse", 10, 10 + delta), groups) == blamed


def test_a_metric_that_a_group_does_not_know_adds_nothing() -> None:
    bare = replace(grouped("changed"), changes=(change("stores", "worse", 0, 5),))
    assert _find_most_to_blame(change("loads", "worse", 1, 2), [bare]) is None


@pytest.mark.parametrize(
    ("because", "text"),
    [
        (Because("loads +1"), "loads +1"),
        (Because("loads +1", kernel="a_0", how="is new", sums="x"), "loads +1: a_0 is new (x)"),
        (Because("loads +1", though="y", why="z"), "loads +1, though y; z"),
        (Because("loads +1", why="z"), "loads +1; z"),
    ],
)
def test_a_reason_is_written_of_its_parts(because: Because, text: str) -> None:
    assert _join_counts(because) == text
