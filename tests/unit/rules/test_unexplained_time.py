from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from handmade import kernel, run
from handmade_timing import changed

from perfcli.diff.compare import compare
from perfcli.model import (
    Comparison,
    EstimatedChange,
    Finding,
    Floor,
    GroupTiming,
    StepEstimate,
    TimeEstimate,
    Timing,
)
from perfcli.rules.unexplained_time import RULE

MICRO = 1e-6


def measured(micros: float, share: float = 0.5, launches: int = 1) -> Comparison:
    """A kernel that is estimated to take 10 µs a launch, 8 to 12.5 in nine of ten cases."""
    estimate = TimeEstimate(10 * MICRO, 8 * MICRO, 12.5 * MICRO)
    made = kernel("triton_poi_fused_neg_1", "2", launches=launches, estimate=estimate)
    found = compare(run([made], id="base"), run([made], id="head"))
    seconds = micros * MICRO * launches
    group = GroupTiming(0, made.name, changed(seconds, seconds), share_of_step=share)
    step = StepEstimate(10 * MICRO, 8 * MICRO, 12.5 * MICRO, (estimate,), ())
    return replace(
        found,
        timing=Timing(changed(1.0, 1.0), Floor(0.01, "assumed"), groups=(group,)),
        estimate=EstimatedChange(step, step, "same", 1.0, 1.0, 1.0),
    )


def found_in(comparison: Comparison) -> Iterator[Finding]:
    return iter(tuple(RULE.of_comparison(comparison)))


@pytest.mark.parametrize(
    ("micros", "told"),
    [(10, False), (12.6, False), (15.5, False), (15.7, True), (6.5, False), (6.3, True)],
)
def test_a_time_twice_as_far_as_the_interval_reaches_is_told(micros: float, told: bool) -> None:
    """1.25 squared is 1.5625: 15.6 µs and 6.4 µs."""
    assert bool(list(found_in(measured(micros)))) == told


def test_it_says_what_was_measured_and_expected() -> None:
    (finding,) = found_in(measured(40, launches=3))
    assert finding.headline == (
        "triton_poi_fused_neg_1 takes 120 µs measured, 30 µs estimated: the estimate does not "
        "explain it"
    )
    assert finding.evidence == ("expected 24 µs to 37.5 µs in nine of ten cases",)
    assert (finding.severity, finding.doubt, finding.kernels) == ("info", True, (0,))


def test_what_is_short_or_small_is_not_told() -> None:
    assert not list(found_in(measured(40, share=0.005)))
    assert not list(found_in(measured(2.5)))


def test_nothing_is_told_without_a_measurement_or_an_estimate() -> None:
    given = measured(40)
    assert not list(found_in(replace(given, timing=None)))
    assert not list(found_in(replace(given, estimate=None)))
