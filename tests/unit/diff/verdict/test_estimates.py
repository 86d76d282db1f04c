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
    Finding,
    GroupEstimate,
    Outcome,
    Severity,
    TimeVerdict,
    WrongResults,
)


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


def test_a_warning_does_not_contradict_an_estimate() -> None:
    given = replace(estimated("same", 0.99, 1.01), findings=(error("warning"),))
    assert conclude(given).outcome == "same"


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
