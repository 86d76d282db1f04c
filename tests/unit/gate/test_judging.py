"""What breaks a limit, what excepts it, and what follows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from handmade import candidate, kernel, run
from handmade_estimate import estimated
from handmade_timing import changed

from perfcli.diff.compare import compare
from perfcli.diff.verdict.conclude import conclude
from perfcli.gate.allowances import _in_force, _named, warnings
from perfcli.gate.holding import _bounds
from perfcli.gate.judging import (
    Policy,
    Ruling,
    _confirm,
    _excuse_few_words,
    _find_doubt,
    _is_said_by_loads,
    _list_broken,
    _settle,
    _write_place,
    judge,
)
from perfcli.gate.limits import SIGNS, USUAL
from perfcli.model import (
    Allowance,
    Change,
    Comparison,
    Finding,
    FindingResult,
    Floor,
    GraphFacts,
    KernelFacts,
    Limit,
    LimitResult,
    Origin,
    Severity,
    TimeVerdict,
    Timing,
    WrongResults,
)

BASE = [kernel("a_0", "mul", loads=6), kernel("b_1", "add", loads=5), kernel("z_2", "neg")]


def of(head: Sequence[KernelFacts], base: Sequence[KernelFacts] = BASE, **more: Any) -> Comparison:
    return compare(run(base), run(head, id="head", **more))


def held(comparison: Comparison, *limits: Limit, allow: Sequence[Allowance] = ()) -> Ruling:
    return judge(comparison, Policy(limits, tuple(allow)))


def states(result: Ruling) -> list[tuple[str, str]]:
    return [(r.limit.metric, r.state) for r in result.limits]


def one(result: Ruling) -> LimitResult:
    (found,) = result.limits
    return found


def allowance(limit: str, kernel: str = "*", most: float | None = None) -> Allowance:
    return Allowance(kernel, limit, "known", "me", "2026-12-31", most)


# --- bounds ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limit", "state", "allowed"),
    [
        (Limit("loads", growth=0), "broken", 13),
        (Limit("loads", growth=2), "kept", 15),
        (Limit("loads", growth=1), "broken", 14),
        (Limit("loads", growth_share=0.2), "kept", 15.6),
        (Limit("loads", most=15), "kept", 15),
        (Limit("loads", most=14), "broken", 14),
        (Limit("loads", most=100, growth=0), "broken", 13),
        (Limit("stores", growth=0), "kept", 3),
        (Limit("kernels", most=3), "kept", 3),
    ],
)
def test_bounds(limit: Limit, state: str, allowed: float) -> None:
    result = one(held(of([replace_loads(BASE[0], 8), *BASE[1:]]), limit))
    assert result.state == state
    assert result.allowed == pytest.approx(allowed)
    assert result.group is None


def replace_loads(old: KernelFacts, loads: int) -> KernelFacts:
    return kernel(old.name, *(o.node for o in old.origins), loads=loads, text=f"{loads} loads")


def test_the_text_names_the_kernel_that_adds_most() -> None:
    result = one(held(of([replace_loads(BASE[0], 8), *BASE[1:]]), Limit("loads", growth=0)))
    assert result.text == "loads 13 → 15 (+15.4 %), at most +0: a_0 changed"


def test_fewer_is_better_and_passes() -> None:
    comparison = of([replace_loads(BASE[0], 2), *BASE[1:]])
    result = held(comparison, Limit("loads", growth=0))
    assert (states(result), result.outcome) == ([("loads", "better")], "pass")


def test_what_neither_side_knows_is_not_asked() -> None:
    assert held(of(BASE), Limit("vector_loads", growth=0), Limit("time", growth_share=0)) == Ruling(
        of(BASE), (), (), "pass", "all 3 kernels are identical"
    )


def test_what_one_side_does_not_know_is_unsure() -> None:
    unknown = kernel("a_0", "mul", registers=None, text="other")
    result = held(of([unknown, *BASE[1:]]), Limit("spilled_words", growth=0))
    assert (states(result), result.outcome) == ([("spilled_words", "unknown")], "unsure")


def test_peak_memory_of_another_torch_is_unsure() -> None:
    graphs = (GraphFacts("forward 0", "forward", 0, 10, 2 * 10**9),)
    base = run(BASE, graphs=graphs)
    other = replace(base.environment, torch="2.14.0")
    head = run(BASE, id="head", graphs=(replace(graphs[0], peak_memory_bytes=3 * 10**9),))
    limit = Limit("peak_memory_bytes", growth_share=0.01)
    assert held(compare(base, head), limit).outcome == "fail"
    result = held(compare(base, replace(head, environment=other)), limit)
    assert result.outcome == "unsure"
    assert result.reason.endswith("at most +1 %: not comparable")


def test_peak_memory_of_another_number_of_graphs_is_unsure() -> None:
    """It is that of the worst graph: in more pieces it falls though nothing got better."""
    graphs = (
        GraphFacts("forward 0", "forward", 0, 10, 2 * 10**9),
        GraphFacts("backward 0", "backward", 0, 10, 462 * 10**6),
    )
    base, head = run(BASE, graphs=graphs), run(BASE, id="head", graphs=graphs[1:])
    limit = Limit("peak_memory_bytes", growth_share=0.01)
    result = held(compare(base, head), limit)
    assert (states(result), result.outcome) == ([("peak_memory_bytes", "unknown")], "unsure")
    assert result.reason == (
        "peak memory 2 GB → 462 MB (−76.9 %), at most +1 %: not comparable, since 2 graphs became "
        "1 and each has a peak of its own"
    )


# --- the usual limits ------------------------------------------------------------------------

USUAL_POLICY = Policy(USUAL, signs=frozenset(SIGNS))


@pytest.mark.parametrize(
    ("head", "breaks"),
    [
        (kernel("a_0", "mul", loads=6, stack=8, text="n"), {"spilled_words"}),
        (kernel("a_0", "mul", loads=7, text="n"), {"loads"}),
        (kernel("a_0", "mul", loads=6, read=1100, text="n"), {"bytes_moved"}),
        (kernel("a_0", "mul", loads=6, launches=2, text="n"), {"bytes_moved", "launches"}),
        (
            kernel("a_0", "mul", loads=6, candidates=(candidate(registers=160),), text="n"),
            {"occupancy"},
        ),
    ],
)
def test_what_breaks_a_usual_limit(head: KernelFacts, breaks: set[str]) -> None:
    result = judge(of([head, *BASE[1:]]), USUAL_POLICY)
    assert {r.limit.metric for r in result.limits if r.state == "broken"} == breaks
    assert result.outcome == "fail"


def test_a_kernel_more_is_no_loss_where_it_spares_spills() -> None:
    spilling = [kernel("ab_0", "mul", "add", loads=9, stack=368, read=2000, written=1000), BASE[2]]
    result = judge(of(BASE, spilling), USUAL_POLICY)
    assert result.outcome == "pass"
    assert ("spilled_words", "better") in states(result)
    own = Policy((*USUAL, Limit("kernels", growth=0)), signs=frozenset(SIGNS) - {SIGNS[0]})
    assert judge(of(BASE, spilling), own).outcome == "fail"


def multiplying(words: int, in_loops: int = 0, **more: Any) -> KernelFacts:
    made = kernel("a_0", "mul", **{"loads": 6, "stack": 4 * words, **more})
    assert made.source_facts is not None
    return replace(made, source_facts=replace(made.source_facts, loads_in_loops=in_loops))


def test_a_trifle_makes_up_for_no_kernel_more() -> None:
    """Of 101,000 bytes 590 less, and no spilled words where two were."""
    big = kernel("b_1", "add", loads=1, read=90_000)
    base = [multiplying(2, read=10_000, text="1"), big]
    copy = kernel("copy_2", "clone", loads=7, read=200, written=100)
    comparison = of([multiplying(0, read=9_110, text="2"), big, copy], base)
    result = judge(comparison, USUAL_POLICY)
    assert (comparison.outcome, result.outcome) == ("unknown", "fail")
    assert result.reason == "kernels 2 → 3 (+50 %), at most +0: copy_2 is new (and 2 more)"


def test_a_trifle_makes_up_for_no_loop() -> None:
    base = [multiplying(2, kind="persistent-reduction", text="1"), BASE[2]]
    looping = multiplying(0, in_loops=6, kind="reduction", text="2")
    comparison = of([looping, BASE[2]], base)
    result = judge(comparison, USUAL_POLICY)
    change = "loads in loops 0 → 6"
    how = "a_0 now loops over what it held at once"
    assert result.outcome == "fail"
    assert result.reason == f"{change}, at most +0: {how}"
    assert comparison.outcome == "unknown"
    assert comparison.reason.startswith(f"{change}: {how} (1 kernel, 6 loads")
    assert "though spilled words −2" in comparison.reason


def test_a_loop_fails_where_nothing_else_changed() -> None:
    base = [multiplying(0, kind="persistent-reduction", text="1"), BASE[2]]
    looping = multiplying(0, in_loops=6, kind="reduction", text="2")
    comparison = of([looping, BASE[2]], base)
    assert (comparison.outcome, judge(comparison, USUAL_POLICY).outcome) == ("same", "fail")


@pytest.mark.parametrize(
    ("in_loops", "loads", "broken"),
    [
        (2, 8, ["loads"]),  # both new ones are in the loop
        (3, 8, ["loads_in_loops", "loads"]),  # one moved there
        (2, 7, ["loads_in_loops", "loads"]),
        (2, 5, ["loads_in_loops"]),
    ],
)
def test_new_loads_in_a_loop_are_for_the_limit_on_loads(
    in_loops: int, loads: int, broken: list[str]
) -> None:
    comparison = of([multiplying(0, in_loops, loads=loads, text="2")], [multiplying(0, text="1")])
    result = judge(comparison, USUAL_POLICY)
    assert [r.limit.metric for r in result.limits if r.state == "broken"] == broken
    own = Limit("loads_in_loops", growth=0)
    assert held(comparison, own).outcome == "fail"  # written by hand it holds as it says


def test_a_loop_is_no_loss_where_many_words_are_spilled_no_more() -> None:
    base = [multiplying(92, kind="persistent-reduction", text="1"), BASE[2]]
    comparison = of([multiplying(0, in_loops=6, kind="reduction", text="2"), BASE[2]], base)
    assert (comparison.outcome, judge(comparison, USUAL_POLICY).outcome) == ("better", "pass")


def test_narrower_loads_of_a_kernel_that_matters() -> None:
    def loading(name: str, bits: dict[str, int], read: int) -> KernelFacts:
        return kernel(name, name, read=read, candidates=(candidate(global_loads=bits),), text=name)

    base = [loading("big", {"128": 4}, 10**9), loading("tiny", {"128": 4}, 10)]
    narrow = [replace(k, source_hash="x") for k in base]
    head = [
        replace(k, candidates=(candidate(global_loads={"128": 1, "32": 3}, binary_hash="n"),))
        for k in narrow
    ]
    result = judge(of(head, base), USUAL_POLICY)
    (broken,) = [r for r in result.limits if r.state == "broken"]
    assert (broken.limit.metric, broken.kernel, broken.base, broken.head) == (
        *("load_bits", "big", 128, 56),
    )
    assert broken.text == "big: bits per load 128 → 56 (−56.2 %), at most 25 % less"


def test_vectors_that_are_not_needed_any_more() -> None:
    def cpp(loads: int, vectors: int) -> KernelFacts:
        facts = replace(
            kernel("x").source_facts, loads=loads, vector_loads=vectors, vector_stores=1
        )  # type: ignore[type-var]
        more: dict[str, Any] = {"language": "cpp", "kind": "cpp", "source_facts": facts}
        return kernel("cpp_0", "mul", registers=None, text=f"{loads} {vectors}", **more)

    limit = Limit("vector_loads", growth=0)
    fewer = compare(run([cpp(8, 8)], device="cpu"), run([cpp(6, 6)], device="cpu", id="h"))
    assert states(held(fewer, limit)) == [("vector_loads", "kept")]
    lost = compare(run([cpp(8, 8)], device="cpu"), run([cpp(8, 2)], device="cpu", id="h"))
    assert states(held(lost, limit)) == [("vector_loads", "broken")]


# --- kernels ---------------------------------------------------------------------------------


def test_a_pattern_holds_each_kernel_alone() -> None:
    head = [kernel("a_0", "mul", registers=130), kernel("b_1", "add", registers=90), BASE[2]]
    result = held(of(head, head), Limit("registers", kernel="[ab]", most=128))
    assert [(r.kernel, r.state, r.head) for r in result.limits] == [
        ("a_0", "broken", 130),
        ("b_1", "kept", 90),
    ]
    assert result.limits[0].text == "a_0: registers 130, at most 128"


def test_growth_of_a_split_kernel_is_that_of_its_parts_together() -> None:
    base = [kernel("ab_0", "mul", "add", stack=80)]
    head = [kernel("a_0", "mul", stack=40), kernel("b_1", "add", stack=48)]
    result = one(held(of(head, base), Limit("spilled_words", kernel="*", growth=1)))
    assert (result.state, result.base, result.head, result.group) == ("broken", 20, 22, 0)


def test_a_new_kernel_is_held_to_absolute_limits() -> None:
    head = [*BASE, kernel("new_3", "exp", stack=8, registers=255)]
    new = Limit("registers", kernel="new", growth=0)
    assert held(of(head), new).limits == ()
    assert one(held(of(head), replace(new, growth=None, most=64))).state == "broken"
    assert one(held(of(head), Limit("spilled_words", "new", growth=0))).state == "broken"


def test_patterns_need_no_numbers() -> None:
    assert _named("triton_red_*", "triton_red_fused_add_12")
    assert _named("triton_red_fused_add", "triton_red_fused_add_12")
    assert not _named("triton_red_fused", "triton_red_fused_add_12")


# --- exceptions ------------------------------------------------------------------------------


def spilling(words: int) -> list[KernelFacts]:
    return [kernel("a_0", "mul", loads=6, stack=4 * words, text=f"{words}"), *BASE[1:]]


SPILLS = Limit("spilled_words", growth=0)


@pytest.mark.parametrize(
    ("exception", "state"),
    [
        (allowance("spilled_words", "a"), "allowed"),
        (allowance("spilled_words", "a", most=8), "allowed"),
        (allowance("spilled_words", "a", most=7), "broken"),
        (allowance("spilled_words", "b"), "broken"),
        (allowance("spilled_words"), "allowed"),
        (allowance("loads", "a"), "broken"),
    ],
)
def test_an_exception_for_a_kernel_covers_what_it_adds_to_a_total(
    exception: Allowance, state: str
) -> None:
    result = held(of(spilling(8)), SPILLS, allow=[exception])
    assert one(result).state == state
    assert result.outcome == ("pass" if state == "allowed" else "fail")
    assert result.used == ({exception} if state == "allowed" else set())


def test_an_exception_covers_no_other_kernel() -> None:
    head = spilling(8)
    head[1] = kernel("b_1", "add", loads=5, stack=16, text="b spills")
    assert held(of(head), SPILLS, allow=[allowance("spilled_words", "a")]).outcome == "fail"


def test_what_has_expired_excepts_nothing_and_is_warned_of() -> None:
    old, new = (replace(allowance("loads"), expires=day) for day in ("2026-11-21", "2026-11-22"))
    assert _in_force([old, new], "2026-11-22") == (new,)
    assert list(warnings([old, new], {new}, "2026-11-22")) == [
        "exception for loads of * (me: known) expired on 2026-11-21 and excepts nothing: "
        "take it out or renew it"
    ]
    (unused,) = warnings([new], set(), "2026-11-22")
    assert unused.endswith("excepts nothing any more: take it out")


# --- findings --------------------------------------------------------------------------------


def finding(severity: Severity = "warning", **more: Any) -> Finding:
    given: dict[str, Any] = {"kernels": (0,), "appearance": "new", **more}
    return Finding("PC204", severity, "loads 2 bytes at a time", **given)


def with_finding(found: Finding, head: Sequence[KernelFacts] = BASE) -> Comparison:
    return replace(of(head), findings=(found,))


@pytest.mark.parametrize(
    ("found", "fail_on", "outcome"),
    [
        (finding("error"), "error", "fail"),
        (finding("warning"), "error", "unsure"),
        (finding("warning"), "warning", "fail"),
        (finding("info"), "warning", "pass"),
        (finding("info"), "info", "fail"),
        (finding("error"), None, "pass"),
        (finding("error", appearance="same"), "info", "pass"),
        (finding("error", appearance="worse"), "warning", "fail"),
        (finding("error", appearance="gone", on_base=True), "info", "pass"),
        (finding("error", doubt=True), "info", "pass"),
        (finding("error", explained_by="PC101"), "info", "pass"),
    ],
)
def test_findings_that_came_with_the_head(
    found: Finding, fail_on: Severity | None, outcome: str
) -> None:
    result = judge(with_finding(found), Policy((), fail_on=fail_on))
    assert result.outcome == outcome
    if outcome == "fail":
        assert result.reason == "PC204 loads 2 bytes at a time"


def test_a_warning_is_a_doubt_where_the_numbers_got_better() -> None:
    better = [kernel("a_0", "mul", loads=6, read=100, text="n"), *BASE[1:]]
    assert judge(with_finding(finding(), better), Policy(())).outcome == "unsure"
    assert judge(with_finding(finding("error"), better), Policy(())).outcome == "fail"


def test_an_allowed_finding() -> None:
    for pattern, outcome in (("a", "pass"), ("b", "fail"), ("*", "pass")):
        policy = Policy((), (allowance("PC204", pattern),))
        assert judge(with_finding(finding()), policy).outcome == outcome


def test_wrong_results_fail_whatever_is_configured() -> None:
    wrong = replace(of(BASE), wrong=WrongResults("head", "the head's outputs are wrong"))
    assert judge(wrong, Policy((), fail_on=None)).outcome == "fail"


# --- time ------------------------------------------------------------------------------------

TIME = Limit("time", growth_share=0.03)


def timed(ratio: float, verdict: TimeVerdict) -> Comparison:
    outcome: Any = {"slower": "worse", "faster": "better", "same": "same", "unsure": "unknown"}
    comparison = of(BASE)
    step = changed(0.01, 0.01 * ratio, verdict=verdict)
    timing = Timing(step, Floor(0.01, "assumed"))
    return replace(comparison, timing=timing, outcome=outcome[verdict])


@pytest.mark.parametrize(
    ("ratio", "verdict", "outcome", "state"),
    [
        (1.05, "slower", "fail", "broken"),
        (1.02, "slower", "pass", "kept"),
        (0.9, "faster", "pass", "better"),
        (1.0, "same", "pass", "kept"),
        (1.05, "unsure", "unsure", "unknown"),
    ],
)
def test_time(ratio: float, verdict: TimeVerdict, outcome: str, state: str) -> None:
    result = held(timed(ratio, verdict), TIME)
    assert (result.outcome, one(result).state) == (outcome, state)


def test_as_slow_as_is_allowed_is_kept() -> None:
    """A half more is exact in binary: 0.01 and 0.015."""
    limit = Limit("time", growth_share=0.5)
    assert one(held(timed(1.5, "slower"), limit)).state == "kept"
    assert one(held(timed(1.51, "slower"), limit)).state == "broken"


def test_slower_twice_is_slower_and_once_is_unsure() -> None:
    first = held(timed(1.05, "slower"), TIME)
    twice = _confirm(first, held(timed(1.06, "slower"), TIME))
    assert twice.outcome == "fail"
    assert twice.reason.endswith("confirmed in fresh processes")
    once = _confirm(first, held(timed(1.0, "same"), TIME))
    assert once.outcome == "unsure"
    assert "but not confirmed in fresh processes" in once.reason
    assert one(once).state == "unknown"


def test_a_few_words_less_are_no_reason_for_more_kernels() -> None:
    base = [kernel("ab_0", "mul", "add", loads=9, stack=8, read=2000, written=1000), BASE[2]]
    result = judge(of(BASE, base), USUAL_POLICY)
    assert {r.limit.metric for r in result.limits if r.state == "broken"} >= {"kernels", "loads"}


@pytest.mark.parametrize(
    ("limit", "text"),
    [
        (Limit("kernels", most=40, growth=0, growth_share=0.01), "at most 40 and +0 and +1 %"),
        (Limit("peak_memory_bytes", most=8e9), "at most 8 GB"),
        (Limit("occupancy", "*", most=0.5, growth_share=0.25), "at least 50 %, at most 25 % less"),
        (Limit("vector_loads", growth=3), "at most 3 less"),
    ],
)
def test_bounds_in_words(limit: Limit, text: str) -> None:
    assert _bounds(limit) == text


# --- estimated time --------------------------------------------------------------------------


def usual(comparison: Comparison, *more: Limit, fail_on_written: bool = False) -> Ruling:
    """What a configuration without limits asks, and ``more`` that somebody wrote."""
    written = {(each.kernel, each.metric) for each in more}
    kept = [each for each in USUAL if (each.kernel, each.metric) not in written]
    policy = Policy(
        (*kept, *more),
        signs=frozenset(SIGNS),
        usual=frozenset(kept),
        usual_fail_on=not fail_on_written,
    )
    return judge(conclude(comparison), policy)


@pytest.mark.parametrize(
    ("verdict", "low", "high", "outcome"),
    [
        ("slower", 1.031, 1.5, "fail"),  # all of it beyond the 3 % that hold anyway
        ("slower", 1.025, 1.5, "unsure"),
        ("unsure", 0.95, 1.2, "unsure"),
        ("unsure", 0.99, 1.029, "pass"),  # whatever it is, it is no 3 %
        ("same", 0.99, 1.01, "pass"),
        ("faster", 0.7, 0.9, "pass"),
    ],
)
def test_an_estimated_step_is_held_by_its_whole_interval(
    verdict: TimeVerdict, low: float, high: float, outcome: str
) -> None:
    """The head spills, which nobody limited: the time decides."""
    found = usual(estimated(verdict, low, high))
    assert found.outcome == outcome
    assert ("spilled_words", "broken") not in states(found)


def test_a_broken_limit_on_estimated_time_names_the_kernel() -> None:
    found = usual(estimated("slower", 1.2, 1.5))
    assert found.reason == (
        "estimated step 90.0 → 120.0 µs, +33 % [+20, +50], at most +3 %: "
        "triton_red_fused_mul_add_4 changed"
    )


def test_an_unsure_estimate_says_what_would_make_it_sure() -> None:
    assert "--device cuda" in usual(estimated("unsure", 0.95, 1.2)).reason


def test_counts_that_somebody_limits_hold_beside_an_estimate() -> None:
    found = usual(estimated("faster", 0.7, 0.9), Limit("spilled_words", growth=0))
    assert ("spilled_words", "broken") in states(found)
    assert found.outcome == "fail"


def test_counts_decide_where_the_limit_on_estimated_time_is_taken_away() -> None:
    given = conclude(estimated("faster", 0.7, 0.9))
    without = tuple(each for each in USUAL if each.metric != "step_time")
    found = judge(given, Policy(without, signs=frozenset(SIGNS), usual=frozenset(without)))
    assert ("spilled_words", "broken") in states(found)


def test_a_kernel_without_an_estimate_is_unsure_and_named() -> None:
    missing = ("triton_user: its work could not be counted",)
    found = usual(estimated("unsure", 1.0, 1.0, missing=missing))
    assert found.outcome == "unsure"
    assert "triton_user: its work could not be counted" in found.reason


def came(severity: Severity) -> Finding:
    return Finding("PC999", severity, "it is idle", (0,), appearance="new")


@pytest.mark.parametrize(("severity", "outcome"), [("warning", "pass"), ("error", "unsure")])
def test_findings_explain_an_estimate_and_an_error_contradicts_it(
    severity: Severity, outcome: str
) -> None:
    given = replace(estimated("same", 0.99, 1.01), findings=(came(severity),))
    assert usual(given).outcome == outcome
    assert usual(given, fail_on_written=True).outcome == "fail"


def test_an_estimate_is_not_held_where_the_step_was_measured() -> None:
    timing = Timing(changed(1.0, 1.0), Floor(0.01, "assumed"))
    found = usual(replace(estimated("slower", 1.2, 1.5), timing=timing))
    assert "step_time" not in dict(states(found))
    assert dict(states(found))["time"] == "kept"


# --- each part alone -------------------------------------------------------------------------


def ruling(comparison: Comparison | None = None, *limits: LimitResult, **more: Any) -> Ruling:
    return Ruling(comparison or of(BASE), limits, more.pop("findings", ()), **more)


def said(state: Any, text: str = "loads", metric: str = "loads", **more: Any) -> LimitResult:
    return LimitResult(Limit(metric, growth=0), state, 1, 2, 1, text=text, **more)


@pytest.mark.parametrize(
    ("location", "code", "text"),
    [
        ("", "x", ""),
        ("a.py:1", "", " (a.py:1)"),
        ("a.py:1", "  x()  ", " (a.py:1: x())"),
        ("a.py:1", "x" * 60, f" (a.py:1: {'x' * 60})"),
        ("a.py:1", "x" * 61, f" (a.py:1: {'x' * 59}…)"),
    ],
)
def test_a_place_in_a_reason(location: str, code: str, text: str) -> None:
    assert _write_place(Origin("", "", location=location, code=code)) == text
    assert _write_place(None) == ""


def test_what_is_broken_is_listed_with_the_cause_first() -> None:
    place = Origin("", "", location="a.py:1")
    limits = (
        said("broken", "bytes", origin=place),
        said("kept", "kept"),
        said("broken", "graph breaks", "graph_breaks"),
        said("broken", "loads"),
    )
    findings = tuple(
        replace(finding(), code=code, headline="it", origin=place) for code in ("PC101", "PC903")
    )
    comparison = replace(of(BASE), findings=findings)
    counted = (FindingResult(0, "broken"), FindingResult(1, "broken"), FindingResult(0, "allowed"))
    made = ruling(comparison, *limits, findings=counted)
    listed = ["graph breaks", "bytes (a.py:1)", "loads", "PC101 it (a.py:1)", "PC903 it (a.py:1)"]
    assert list(_list_broken(made)) == listed
    wrong = replace(comparison, wrong=WrongResults("head", "it is wrong"))
    assert list(_list_broken(replace(made, comparison=wrong))) == ["it is wrong", *listed[:-1]]
    base = replace(comparison, wrong=WrongResults("base", "it is wrong"))
    assert list(_list_broken(replace(made, comparison=base))) == listed[:-1]


@pytest.mark.parametrize(
    ("limits", "outcome", "reason"),
    [
        ([said("broken", "a")], "fail", "a"),
        ([said("broken", "a"), said("broken", "b")], "fail", "a (and 1 more)"),
        ([said("broken", "a"), said("broken", "b"), said("broken", "c")], "fail", "a (and 2 more)"),
        ([said("unknown", "u"), said("broken", "a")], "fail", "a"),
        ([said("unknown", "u"), said("unknown", "v")], "unsure", "u"),
        ([said("kept")], "pass", "all 3 kernels are identical"),
    ],
)
def test_what_follows(limits: list[LimitResult], outcome: str, reason: str) -> None:
    settled = _settle(ruling(None, *limits))
    assert (settled.outcome, settled.reason) == (outcome, reason)


@pytest.mark.parametrize(
    ("outcome", "allowed", "reason"),
    [
        ("worse", True, "allowed: it"),
        ("worse", False, "within the limits: it"),
        ("unknown", False, "within the limits: it"),
        ("same", True, "it"),
        ("better", False, "it"),
    ],
)
def test_what_passes_although_it_is_worse_says_why(
    outcome: Any, allowed: bool, reason: str
) -> None:
    comparison = replace(of(BASE), outcome=outcome, reason="it")
    limits = [said("allowed", allowance=allowance("loads"))] if allowed else [said("kept")]
    assert _settle(ruling(comparison, *limits)).reason == reason


def test_the_exceptions_that_were_used() -> None:
    first, second, third = (allowance("loads", name) for name in "abc")
    made = ruling(
        None,
        said("allowed", allowance=first, also=(second,)),
        said("kept"),
        findings=(FindingResult(0, "allowed", third), FindingResult(0, "broken")),
    )
    assert made.used == {first, second, third}
    assert ruling().used == set()


@pytest.mark.parametrize(
    ("found", "fails", "doubt"),
    [
        (finding(), False, "PC204 loads 2 bytes at a time"),
        (finding(), True, ""),
        (finding("error"), False, ""),
        (finding("info"), False, ""),
        (finding(doubt=True), False, ""),
        (finding(explained_by="PC101"), False, ""),
        (finding(appearance="same"), False, ""),
    ],
)
def test_a_warning_that_fails_nothing_is_a_doubt(found: Finding, fails: bool, doubt: str) -> None:
    judged = (FindingResult(0, "allowed"),) if fails else ()
    made = ruling(with_finding(found), findings=judged)
    assert _find_doubt(made) == doubt
    assert _find_doubt(replace(made, warnings_doubt=False)) == ""


def test_times_or_counts_that_cannot_be_told_are_a_doubt() -> None:
    unknown = replace(timed(1.05, "unsure"), reason="too few rounds")
    assert _find_doubt(ruling(unknown)) == "too few rounds"
    assert _find_doubt(ruling(replace(unknown, outcome="same"))) == ""
    wrong = replace(unknown, timing=None, wrong=WrongResults("base", "it"))
    assert _find_doubt(ruling(wrong)) == "too few rounds"
    counts = of([kernel("a_0", "mul", read=None, text="n"), *BASE[1:]])
    assert _find_doubt(ruling(counts)) == counts.reason != ""
    assert _find_doubt(ruling()) == ""


@pytest.mark.parametrize(
    ("first", "second", "outcome", "text"),
    [
        ("broken", "broken", "fail", "second, confirmed in fresh processes"),
        (
            "broken",
            "kept",
            "unsure",
            "first, but not confirmed in fresh processes: second",
        ),
        ("kept", "broken", "fail", "second"),
    ],
)
def test_two_measurements(first: str, second: str, outcome: str, text: str) -> None:
    loads = said("kept", "loads")
    before = ruling(None, loads, said(first, "first", "time"))
    after = replace(
        ruling(None, loads, said(second, "second", "time")), outcome="fail", reason="second"
    )
    made = _confirm(before, after)
    assert made.outcome == outcome
    assert [each.text for each in made.limits] == ["loads", text]


@pytest.mark.parametrize(
    ("more", "moved", "state"),
    [
        ({}, "better", "unknown"),
        ({"head": 17}, "better", "unknown"),
        ({"head": 18}, "better", "broken"),
        ({}, "same", "broken"),
        ({"state": "kept"}, "better", "kept"),
        ({"limit": Limit("loads", growth=0)}, "better", "broken"),
        ({"limit": Limit("spilled_words", "*", growth=0)}, "better", "broken"),
    ],
)
def test_a_few_words_beside_fewer_bytes(more: dict[str, Any], moved: Any, state: str) -> None:
    """Of one word that was spilled before, 17 are 16 more."""
    comparison = replace(of(BASE), totals=(Change("bytes_moved", 2000, 1000, moved),))
    result = LimitResult(Limit("spilled_words", growth=0), "broken", 1, 2, 1, text="words")
    found = _excuse_few_words(comparison, replace(result, **more))
    assert found.state == state
    weighed = "words; but bytes moved 2 kB → 1 kB: can't tell which weighs more"
    assert found.text == (weighed if state == "unknown" else "words")
    assert _excuse_few_words(replace(comparison, totals=()), result) == result


@pytest.mark.parametrize(
    ("grown", "head", "state", "metric", "said_by_loads"),
    [
        (1, 2, "broken", "loads_in_loops", True),
        (1, 3, "broken", "loads_in_loops", False),
        (0, 2, "broken", "loads_in_loops", False),
        (None, 2, "broken", "loads_in_loops", False),
        (1, 2, "kept", "loads_in_loops", False),
        (1, 2, "broken", "loads", False),
    ],
)
def test_new_loads_in_loops_are_said_by_the_limit_on_loads(
    grown: int | None, head: int, state: Any, metric: str, said_by_loads: bool
) -> None:
    limit = Limit(metric, growth=0)
    totals = () if grown is None else (Change("loads", 5, 5 + grown, "worse"),)
    result = LimitResult(limit, state, 1, head, 1)
    policy = Policy((limit,), signs=frozenset({limit}))
    comparison = replace(of(BASE), totals=totals)
    assert _is_said_by_loads(comparison, result, policy) is said_by_loads
    assert not _is_said_by_loads(comparison, result, Policy((limit,)))
