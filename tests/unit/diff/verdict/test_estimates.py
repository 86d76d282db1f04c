"""What estimated times make of a verdict."""

from __future__ import annotations

import math
from dataclasses import replace

import handmade_timing as made
import pytest
from handmade import kernel, run
from handmade_estimate import MICRO, estimated, runs, step

from perfcli.diff.compare import compare
from perfcli.diff.verdict.conclude import conclude
from perfcli.model import (
    Change,
    Comparison,
    EstimatedChange,
    ExternCall,
    Finding,
    GroupEstimate,
    Outcome,
    Severity,
    TimeEstimate,
    TimeVerdict,
    WrongResults,
)
from perfcli.rules.doubts import RULE as DOUBTS


def with_memory(comparison: Comparison, base: int, head: int, outcome: Outcome) -> Comparison:
    kept = [c for c in comparison.totals if c.metric != "peak_memory_bytes"]
    memory = Change("peak_memory_bytes", base, head, outcome)
    return replace(comparison, totals=(*kept, memory))


@pytest.mark.parametrize(
    ("verdict", "memory", "outcome"),
    [
        ("slower", "same", "worse"),
        ("slower", "better", "worse"),
        ("faster", "same", "better"),
        ("faster", "worse", "worse"),
        ("same", "same", "same"),
        ("same", "worse", "worse"),
        ("same", "better", "better"),
        ("unsure", "same", "unknown"),
        ("unsure", "better", "unknown"),
        ("unsure", "worse", "worse"),
    ],
)
def test_the_estimate_decides_and_memory_beside_it(
    verdict: TimeVerdict, memory: Outcome, outcome: Outcome
) -> None:
    head = {"same": 100, "worse": 200, "better": 50}[memory] * 10**6
    given = with_memory(estimated(verdict, 0.9, 1.5), 100 * 10**6, head, memory)
    assert conclude(given).outcome == outcome


def test_spills_and_bytes_are_evidence_and_no_verdict() -> None:
    """The head spills where the base does not: counts alone call it worse."""
    counted = runs()
    assert conclude(counted).outcome == "worse"
    assert "spilled words" in counted.reason
    found = conclude(estimated("faster", 0.7, 0.9, base=90.0, head=50.0))
    assert found.outcome == "better"
    assert found.because is not None
    assert "spilled words" in found.because.though


def test_the_reason_names_interval_and_kernel_with_its_share() -> None:
    """90.0 → 120.0 µs; the changed kernel adds 20 of the 30."""
    found = conclude(estimated("slower", 1.2, 1.5))
    assert found.because is not None
    assert found.because.change == "estimated step 90.0 → 120.0 µs, +33 % [+20, +50]"
    assert found.because.kernel == "triton_red_fused_mul_add_4"
    assert found.because.share == "40.00 → 60.00 µs, 67 % of the change"
    assert "triton_red_fused_mul_add_4" in found.reason


def test_seconds_without_library_operators_are_not_called_the_steps() -> None:
    given = estimated("slower", 1.2, 1.5)
    assert given.estimate is not None
    ours = replace(given.estimate.base, externs=(None,))
    found = conclude(replace(given, estimate=replace(given.estimate, base=ours)))
    assert found.reason.startswith("estimated kernels 90.0 → 120.0 µs")
    lacking = replace(given.estimate.base, missing=("triton_user: not known",))
    found = conclude(replace(given, estimate=replace(given.estimate, base=lacking)))
    assert found.reason.startswith("estimated kernels 90.0 → 120.0 µs")


def test_unsure_says_what_would_make_it_sure() -> None:
    """The interval reaches 12.2 % above the ratio: with the 2 % that are none, 15 %."""
    found = conclude(estimated("unsure", 0.95, 1.05 * 1.122, base=38.0, head=32.5))
    assert found.because is not None
    given = replace(found.estimate, ratio=1.05)  # type: ignore[type-var]
    found = conclude(replace(found, estimate=given))
    assert found.because is not None
    assert "--device cuda" in found.because.help
    assert f"beyond about {math.ceil((1.122 * 1.02 - 1) * 100)} %" in found.because.help
    assert "no change (less than 2 %)" in found.because.why


def test_a_changed_kernel_without_an_estimate_makes_it_unsure() -> None:
    missing = ("triton_user: its work could not be counted", "triton_other: the same", "x: y")
    found = conclude(estimated("unsure", 1.0, 1.0, missing=missing))
    assert found.outcome == "unknown"
    assert found.because is not None
    assert found.because.why == "triton_user: its work could not be counted (and 2 more)"
    assert "--device cuda" in found.because.help


def error(severity: Severity = "error", **more: object) -> Finding:
    found = Finding("PC120", severity, "it leaves most of the device idle", (0,))
    return replace(found, **{"appearance": "new", **more})  # type: ignore[arg-type]


@pytest.mark.parametrize("verdict", ["same", "faster"])
def test_an_error_that_contradicts_makes_it_unsure_and_not_worse(verdict: TimeVerdict) -> None:
    given = replace(estimated(verdict, 0.8, 0.9), findings=(error(),))
    found = conclude(given)
    assert found.outcome == "unknown"
    assert found.because is not None
    assert found.because.code == "PC120"
    assert "estimated step" in found.reason
    assert "--device cuda" in found.because.help


@pytest.mark.parametrize(
    ("high", "kernels", "outcome"),
    [
        # Of the head's 120 µs this kernel takes 10, and 80 at most: 190 are 1.58 times as long.
        (0.6, (2,), "better"),
        (0.65, (2,), "unknown"),
        (0.6, (0,), "unknown"),  # 60, and 480 at most
        (0.6, (), "unknown"),
    ],
)
def test_an_error_does_not_contradict_what_its_kernels_cannot_turn(
    high: float, kernels: tuple[int, ...], outcome: Outcome
) -> None:
    given = replace(estimated("faster", 0.5, high), findings=(error(kernels=kernels),))
    assert conclude(given).outcome == outcome


def test_one_of_two_errors_may_contradict() -> None:
    errors = (error(kernels=(2,)), error(kernels=(0,), code="PC205"))
    found = conclude(replace(estimated("faster", 0.5, 0.6), findings=errors))
    assert found.outcome == "unknown"
    assert found.because is not None
    assert found.because.code == "PC205"


def test_a_warning_does_not_contradict_an_estimate() -> None:
    given = replace(estimated("same", 0.99, 1.01), findings=(error("warning"),))
    assert conclude(given).outcome == "same"


@pytest.mark.parametrize(
    ("base", "head", "verdict", "outcome"),
    [
        (0, 3, "faster", "unknown"),  # it may take longer than all that the base compiles
        (0, 3, "same", "unknown"),
        (0, 3, "unsure", "unknown"),
        (0, 3, "slower", "worse"),
        (3, 0, "slower", "unknown"),
        (3, 0, "same", "unknown"),
        (3, 0, "faster", "better"),
        (3, 3, "faster", "better"),
        (3, 4, "faster", "unknown"),
        (0, 0, "faster", "better"),
    ],
)
def test_what_only_one_side_runs_eagerly_may_take_any_time(
    base: int, head: int, verdict: TimeVerdict, outcome: Outcome
) -> None:
    given = estimated(verdict, 0.5, 0.6)
    ours, theirs = (
        replace(
            side,
            eager_operators=number,
            graph_breaks={"disabled": 1} if number else {},
        )
        for side, number in ((given.base, base), (given.head, head))
    )
    given = replace(given, base=ours, head=theirs)
    found = conclude(replace(given, findings=tuple(DOUBTS.of_comparison(given))))
    assert found.outcome == outcome
    if outcome == "unknown":
        side = "head" if head > base else "base"
        assert f"but PC901: the {side} runs {abs(head - base)} operator" in found.reason


def test_a_base_that_does_not_say_what_runs_eagerly_is_no_doubt() -> None:
    """A baseline keeps graph breaks, and no number of operators."""
    given = estimated("same", 0.99, 1.01)
    broken = {"disabled": 1}
    given = replace(
        given,
        base=replace(given.base, graph_breaks=broken),
        head=replace(given.head, eager_operators=3, graph_breaks=broken),
    )
    assert conclude(given).outcome == "same"
    new = replace(given, base=replace(given.base, graph_breaks={}))
    found = conclude(replace(new, findings=tuple(DOUBTS.of_comparison(new))))
    assert found.outcome == "unknown"


def test_what_the_base_has_as_well_does_not_contradict() -> None:
    given = replace(estimated("same", 0.99, 1.01), findings=(error(appearance="same"),))
    assert conclude(given).outcome == "same"


def test_measured_times_and_wrong_results_are_stronger() -> None:
    comparison, timing = made.gpu()
    slower = EstimatedChange(step(1.0), step(2.0), "slower", 2.0, 1.5, 2.5)
    faster = replace(timing, step=replace(timing.step, verdict="faster"))
    found = made.conclude_timed(replace(comparison, estimate=slower), faster)
    assert found.outcome == "better"
    wrong = WrongResults("head", "the head's outputs are wrong")
    found = conclude(replace(estimated("faster", 0.7, 0.9), wrong=wrong))
    assert found.outcome == "worse"
    assert found.reason == "the head's outputs are wrong"


def test_identical_kernels_are_the_same_as_ever() -> None:
    kernels = [kernel("triton_poi_fused_kept_1", "9")]
    found = compare(run(kernels, id="base"), run(kernels, id="head"))
    alike = EstimatedChange(step(1.0), step(1.0), "same", 1.0, 1.0, 1.0)
    concluded = conclude(replace(found, estimate=alike))
    assert (concluded.outcome, concluded.reason) == ("same", "the only kernel is identical")


def test_identical_kernels_launched_more_often_are_judged_by_their_time() -> None:
    base = [kernel("triton_poi_fused_kept_1", "9")]
    head = [kernel("triton_poi_fused_kept_1", "9", launches=2)]
    found = compare(run(base, id="base"), run(head, id="head"))
    more = EstimatedChange(
        step(MICRO), step(2 * MICRO), "slower", 2.0, 1.6, 2.4, (GroupEstimate(0, MICRO, 2 * MICRO),)
    )
    assert conclude(replace(found, estimate=more)).outcome == "worse"


def test_a_side_without_kernels_is_unknown_whatever_is_estimated() -> None:
    found = compare(run([], id="base"), run([kernel("triton_poi_fused_kept_1", "9")], id="head"))
    unsure = EstimatedChange(step(), step(MICRO), "unsure")
    concluded = conclude(replace(found, estimate=unsure))
    assert concluded.outcome == "unknown"
    assert "no generated kernel" in concluded.reason


# --- numbers at their bounds -----------------------------------------------------------------


def ask(comparison: Comparison, **more: object) -> Comparison:
    """The conclusion where the estimate has these fields as well."""
    assert comparison.estimate is not None
    return conclude(replace(comparison, estimate=replace(comparison.estimate, **more)))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("ratio", "high", "beyond"),
    [
        (1.0, 1.2, "23 %"),  # 1.2 · 1.02 = 1.224
        (1.25, 1.5, "23 %"),  # the same error of a ratio that is not 1
        (0.5, 0.55, "13 %"),  # 1.1 · 1.02 = 1.122
        (1.0, 1.0, "3 %"),  # 1.02 in floating point is a little more than 2 %
        (1.0, 1.5, "53 %"),
        (1.0, None, ""),
        (None, 1.2, ""),
    ],
)
def test_the_change_that_an_estimate_can_tell_is_its_error_and_two_percent(
    ratio: float | None, high: float | None, beyond: str
) -> None:
    found = ask(estimated("unsure", 0.9, 1.2), ratio=ratio, high=high)
    assert found.because is not None
    said = f"; only changes beyond about {beyond} can be told by estimate" if beyond else ""
    assert found.because.help == f"measure it with --device cuda on such a GPU{said}"


TICK = 2.0**-20
"""Seconds of which sums and shares are exact."""


def with_groups(verdict: TimeVerdict, *changes: tuple[float, float], total: float) -> Comparison:
    """A step of 100 ticks that changes by ``total``, and what its two groups take of it."""
    given = estimated(verdict, 0.9, 1.2)
    assert given.estimate is not None
    places = [group.group for group in given.estimate.groups]
    groups = tuple(
        GroupEstimate(place, base * TICK, head * TICK)
        for place, (base, head) in zip(places, changes, strict=False)
    )
    before, after = step(100 * TICK), step((100 + total) * TICK)
    return ask(given, base=before, head=after, ratio=1 + total / 100, groups=groups)


CHANGED = "triton_red_fused_mul_add_4"
NEW = "triton_poi_fused_new_2"


@pytest.mark.parametrize(
    ("verdict", "changes", "total", "kernel", "share"),
    [
        # More than a fifth of the change is to blame, and what adds most.
        ("slower", [(10, 12), (0, 1)], 10, None, ""),
        ("slower", [(10, 12.125), (0, 1)], 10, CHANGED, "21 %"),
        ("slower", [(10, 13), (0, 4)], 10, NEW, "40 %"),
        ("slower", [(10, 14), (0, 3)], 10, CHANGED, "40 %"),
        ("slower", [(40, 10), (10, 50)], 10, NEW, "400 %"),
        # What is faster is explained by what takes less, however much something else grew.
        ("faster", [(10, 2), (10, 50)], -10, CHANGED, "80 %"),
        ("faster", [(10, 50), (10, 8)], -10, None, ""),
        ("faster", [(4, 0), (10, 9)], -10, CHANGED, "40 %"),
        # What is the same, or may be, has none.
        ("same", [(10, 14), (0, 3)], 10, None, ""),
        ("unsure", [(10, 14), (0, 3)], 10, None, ""),
        ("slower", [(10, 14), (0, 3)], 0, None, ""),
        ("slower", [], 10, None, ""),
    ],
)
def test_the_kernel_that_explains_more_than_a_fifth_is_to_blame(
    verdict: TimeVerdict,
    changes: list[tuple[float, float]],
    total: float,
    kernel: str | None,
    share: str,
) -> None:
    found = with_groups(verdict, *changes, total=total)
    assert found.because is not None
    assert (found.because.kernel or None) == kernel
    said = found.because.share.partition(" of the change")[0]
    assert said.rpartition(", ")[2] == share


def test_what_the_kernel_to_blame_moves_and_gained_stands_beside_it() -> None:
    """Its 64 bytes of stack are 16 words; of one to blame they are not said twice."""
    found = with_groups("slower", (10, 14), (0, 3), total=10)
    assert found.because is not None
    assert found.because.sums.endswith(", +16 spilled words")
    assert "spilled words" not in found.because.also
    assert found.reason == (
        "estimated step 95.4 → 104.9 µs, +10 % [−10, +20]: "
        f"{CHANGED} {found.because.how} ({found.because.share}; {found.because.sums})"
    )
    other = with_groups("slower", (10, 13), (0, 4), total=10)
    assert other.because is not None
    assert other.because.kernel == NEW
    assert "spilled words" in other.because.also


@pytest.mark.parametrize(
    ("verdict", "memory", "change", "though"),
    [
        ("same", "better", "peak memory 100 MB → 50 MB (−50 %)", "estimated step"),
        ("faster", "worse", "peak memory 100 MB → 200 MB (+100 %)", "estimated step"),
        ("slower", "better", "estimated step", "peak memory 100 MB → 50 MB (−50 %)"),
    ],
)
def test_memory_that_does_not_decide_is_said_beside_the_time(
    verdict: TimeVerdict, memory: Outcome, change: str, though: str
) -> None:
    head = {"worse": 200, "better": 50}[memory] * 10**6
    found = conclude(with_memory(estimated(verdict, 0.9, 1.5), 10**8, head, memory))
    assert found.because is not None
    assert found.because.change.startswith(change)
    assert though in found.because.though


@pytest.mark.parametrize(
    ("memory", "change", "also"),
    [
        ("worse", "peak memory 100 MB → 200 MB (+100 %)", "estimated step"),
        ("better", "estimated step", "peak memory 100 MB → 50 MB (−50 %)"),
    ],
)
def test_a_time_that_cannot_be_told_is_contradicted_by_nothing(
    memory: Outcome, change: str, also: str
) -> None:
    head = {"worse": 200, "better": 50}[memory] * 10**6
    found = conclude(with_memory(estimated("unsure", 0.9, 1.5), 10**8, head, memory))
    assert found.because is not None
    assert found.because.change.startswith(change)
    assert also in found.because.also
    assert "though" not in found.reason
    assert found.because.though == ""
    if memory == "better":
        assert found.reason.endswith(f"; {found.because.also}")


@pytest.mark.parametrize(
    ("verdict", "memory", "also"),
    [
        ("slower", "worse", "peak memory 100 MB → 200 MB (+100 %)"),
        ("faster", "better", "peak memory 100 MB → 50 MB (−50 %)"),
    ],
)
def test_memory_beside_a_time_that_says_the_same(
    verdict: TimeVerdict, memory: Outcome, also: str
) -> None:
    head = {"worse": 200, "better": 50}[memory] * 10**6
    found = conclude(with_memory(estimated(verdict, 0.9, 1.5), 10**8, head, memory))
    assert found.because is not None
    assert found.because.change.startswith("estimated step")
    assert found.because.also == also


def test_the_error_that_contradicts_and_what_the_estimate_says_are_both_told() -> None:
    found = conclude(replace(estimated("same", 0.99, 1.01), findings=(error("warning"), error())))
    assert found.because is not None
    assert found.because.change == (
        "estimated step 90.0 → 120.0 µs, +33.3 % [−1.0, +1.0], "
        "but PC120: it leaves most of the device idle"
    )
    assert found.because.help == "measure it with --device cuda on such a GPU"
    assert found.because.why in found.reason
    plain = conclude(estimated("same", 0.99, 1.01))
    assert plain.because is not None
    assert (found.because.also, found.because.though) == (plain.because.also, plain.because.though)


@pytest.mark.parametrize(("verdict", "outcome"), [("slower", "worse"), ("unsure", "unknown")])
def test_an_error_changes_no_verdict_that_is_not_good(
    verdict: TimeVerdict, outcome: Outcome
) -> None:
    plain = estimated(verdict, 0.9, 1.5)
    found = conclude(replace(plain, findings=(error(),)))
    assert found.outcome == outcome
    assert found.because == conclude(plain).because


def test_a_launch_that_fails_is_worse_though_it_has_no_time() -> None:
    plain = estimated("unsure", 1.0, 1.0, missing=("k: it can't be launched",))
    refused = error(code="PC108", metric="blocks_at_once", headline="k cannot be launched")
    found = conclude(replace(plain, findings=(refused,)))
    assert found.outcome == "worse"
    assert found.because is not None
    assert found.because.code == "PC108"
    assert "cannot be launched" in found.reason
    before = conclude(replace(plain, findings=(replace(refused, appearance="same"),)))
    assert before.outcome == "unknown"


def test_what_is_doubted_does_not_contradict() -> None:
    given = replace(estimated("same", 0.99, 1.01), findings=(error(doubt="its loops"),))
    assert conclude(given).outcome == "same"


@pytest.mark.parametrize(
    ("missing", "why"),
    [
        (("a: unknown",), "a: unknown"),
        (("a: unknown", "b: unknown"), "a: unknown (and 1 more)"),
    ],
)
def test_the_first_that_has_no_estimate_is_named_and_the_others_are_counted(
    missing: tuple[str, ...], why: str
) -> None:
    found = conclude(estimated("unsure", 1.0, 1.0, missing=missing))
    assert found.because is not None
    assert found.because.why == why
    assert found.because.change == "the step's time can't be estimated"


def test_the_step_is_called_so_where_every_operator_has_an_estimate() -> None:
    given = estimated("slower", 1.2, 1.5)
    assert given.estimate is not None
    known = step(MICRO).kernels
    for base, head, whole in (
        (known, known, "step"),
        ((*known, None), known, "kernels"),
        (known, (*known, None), "kernels"),
    ):
        sides = (
            replace(given.estimate.base, externs=base),
            replace(given.estimate.head, externs=head),
        )
        found = ask(given, base=sides[0], head=sides[1])
        assert found.reason.startswith(f"estimated {whole} 90.0 → 120.0 µs")


@pytest.mark.parametrize(
    ("verdict", "outcome"), [("slower", "worse"), ("faster", "better"), ("unsure", "unknown")]
)
def test_library_operators_alone_may_change_a_steps_time(
    verdict: TimeVerdict, outcome: Outcome
) -> None:
    """No kernel changed: the estimate decides where it says anything."""
    kernels = [kernel("triton_poi_fused_kept_1", "9")]
    found = compare(run(kernels, id="base"), run(kernels, id="head"))
    change = EstimatedChange(step(MICRO), step(2 * MICRO), verdict, 2.0, 1.6, 2.4)
    concluded = conclude(replace(found, estimate=change))
    assert concluded.outcome == outcome
    assert concluded.reason.startswith("estimated step 1.000 → 2.000 µs")


@pytest.mark.parametrize(("operators", "blamed"), [(30.0, True), (15.0, False)])
def test_a_library_operator_that_adds_most_is_to_blame(operators: float, blamed: bool) -> None:
    """Of the calls of one operator, each of which takes a third of what all of them do."""
    given = estimated("slower", 1.1, 1.5, base=40.0, head=60.0)  # a kernel adds 20 µs
    assert given.estimate is not None
    each = TimeEstimate(operators / 3 * MICRO, 0.0, 1.0)
    call = ExternCall("aten.bmm.default", count=3, graph="g", estimate=each)
    step = replace(given.estimate.head, externs=(each,), seconds=(120 + operators) * MICRO)
    change = replace(given.estimate, head=step)
    found = conclude(replace(given, head=replace(given.head, externs=(call,)), estimate=change))
    assert found.because is not None
    assert (found.because.kernel == "aten.bmm.default") == blamed
    assert f"{operators:g}" in found.because.share or not blamed


@pytest.mark.parametrize(
    ("low", "high", "head", "said"),
    [
        # Ratios of 1.2, 1.2, 0.833 and 1.039; the middle 80 % of a normal distribution reach 1.2816
        # standard deviations to each side.
        (0.8, 1.8, 108.0, "slower in 7 of 10 such cases, but the interval includes no change"),
        (0.97, 1.485, 108.0, "slower in 8 of 10 such cases, but the interval includes no change"),
        (0.5556, 1.25, 56.67, "faster in 7 of 10 such cases, but the interval includes no change"),
        (0.9, 1.2, 85.45, "the interval includes both no change (less than 2 %) and more"),
    ],
)
def test_unsure_says_what_is_likelier(low: float, high: float, head: float, said: str) -> None:
    found = conclude(estimated("unsure", low, high, base=90.0, head=head))
    assert found.because is not None
    assert found.because.why.startswith(said)


def test_nothing_is_likelier_where_a_kernel_has_no_estimate() -> None:
    given = estimated("unsure", 0.97, 1.485, base=90.0, head=108.0)
    assert given.estimate is not None
    assert given.estimate.chance_slower == pytest.approx(0.86, abs=0.02)
    for lacking in ({"missing": ("a: not counted",)}, {"rough": ("b: its bytes alone",)}):
        assert replace(given.estimate, **lacking).chance_slower is None  # type: ignore[arg-type]
