"""Which launch configuration is expected to win, and how wide intervals are."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from handmade import candidate, kernel, run
from handmade_estimate import weighed_kernel, weighed_run, work

from perfcli.diff.compare import compare
from perfcli.machine import targets
from perfcli.model import KernelFacts, Launch, Run, Target
from perfcli.predict.calibration import calibration_for, shipped
from perfcli.predict.step import class_of, compare_steps, estimate_step

H200 = targets.get("h200")


def with_candidates(*candidates: tuple[int, int]) -> KernelFacts:
    """A kernel whose launch configurations have so many blocks, and so many bytes of stack."""
    made = tuple(
        candidate(blocks_per_sm=8, work=work(blocks), stack_bytes=stack, registers=32)
        for blocks, stack in candidates
    )
    return replace(kernel("triton_red_fused_mul_0", "1"), candidates=made, launches=1)


def on(target: Target, *kernels: KernelFacts) -> Run:
    return replace(run(list(kernels)), target=target, weighed=True)


def winner(*candidates: tuple[int, int]) -> int | None:
    step = estimate_step(on(H200, with_candidates(*candidates)))
    assert step is not None
    (estimate,) = step.kernels
    assert estimate is not None
    return estimate.candidate


def test_the_fastest_configuration_is_expected_to_win() -> None:
    assert winner((8192, 0), (2048, 0), (4096, 0)) == 1


def test_a_configuration_that_spills_too_much_is_not_timed() -> None:
    """16 words may be spilled (64 bytes), 17 may not."""
    assert winner((8192, 0), (2048, 68)) == 0
    assert winner((8192, 0), (2048, 64)) == 1


def test_where_all_spill_the_first_is_taken_however_slow() -> None:
    assert winner((8192, 400), (2048, 200)) == 0


def test_intervals_are_those_of_the_class() -> None:
    step = estimate_step(on(H200, with_candidates((8192, 0))))
    calibration = calibration_for(H200)
    assert step is not None
    assert calibration is not None
    (estimate,) = step.kernels
    assert estimate is not None
    spread = calibration.residuals_of(estimate.kind).q90
    assert estimate.high == pytest.approx(estimate.seconds * math.exp(spread))
    assert estimate.low == pytest.approx(estimate.seconds * math.exp(-spread))
    assert estimate.kind in calibration.residuals


@pytest.mark.parametrize(
    ("first", "seconds", "kind"),
    [
        ("DRAM", 4.9e-6, "memory, short"),
        ("L2 to SM", 5e-6, "memory, long"),
        ("latency", 1e-3, "latency, long"),
        ("issue", 1e-6, "throughput, short"),
    ],
)
def test_classes(first: str, seconds: float, kind: str) -> None:
    assert class_of({first: 0.8, "other": 0.2}, seconds) == kind


def test_other_targets_derive_theirs_from_the_nearest() -> None:
    own = shipped()["h200"]
    h100 = targets.get("h100")
    derived = calibration_for(h100)
    assert derived is not None
    assert derived.derived == "h200"
    ratio = h100.bandwidth / H200.bandwidth
    assert derived.constants["dram"] == pytest.approx(own.constants["dram"] * ratio)
    assert derived.residuals["all"].q90 > own.residuals["all"].q90
    assert derived.pair["k80"] > own.pair["k80"]
    assert derived.pair["floor"] == own.pair["floor"]


def test_a_target_of_another_vendor_has_none() -> None:
    assert calibration_for(targets.get_for_kernels("mi300x")) is None


def test_runs_without_work_have_no_estimate() -> None:
    base = replace(on(H200, kernel("triton_red_fused_mul_0", "1")), weighed=False)
    assert compare_steps(base, base, ()) is None


def with_traits(**traits: Any) -> KernelFacts:
    made = with_candidates((8192, 0))
    (only,) = made.candidates
    assert only.work is not None
    return replace(made, candidates=(replace(only, work=replace(only.work, **traits)),))


@pytest.mark.parametrize("traits", [{"indirect": True}, {"unknown_loops": True}])
def test_what_nobody_can_tell_makes_intervals_twice_as_wide(traits: dict[str, bool]) -> None:
    found = [estimate_step(on(H200, each)) for each in (with_traits(), with_traits(**traits))]
    sure, doubtful = (step.kernels[0] for step in found if step)
    assert sure is not None
    assert doubtful is not None
    assert not sure.doubts
    assert doubtful.doubts
    assert doubtful.seconds == sure.seconds
    assert math.log(doubtful.high / doubtful.seconds) == pytest.approx(
        2 * math.log(sure.high / sure.seconds)
    )


def test_sums_that_finish_a_kernel_are_part_of_the_step() -> None:
    """One sum over 8 MB after each of two launches: 8 and 10 microseconds each."""
    summing = replace(with_candidates((8192, 0)), finishing_bytes=8_000_000, launches=2)
    launch = Launch(summing.graph, summing.name)
    total = Launch(summing.graph, "aten.sum.dim_IntList", extern=True, finishing=True)
    alone = estimate_step(replace(on(H200, summing), launches=(launch, launch)))
    step = estimate_step(replace(on(H200, summing), launches=(launch, total, launch, total)))
    assert alone is not None
    assert step is not None
    (estimate,) = step.kernels
    assert estimate is not None
    assert estimate.finishing == pytest.approx(18e-6)
    assert step.seconds == pytest.approx(2 * (estimate.seconds + 18e-6))
    assert alone.seconds == pytest.approx(2 * (estimate.seconds + 10e-6))


@pytest.mark.parametrize("kept", [0, 4096])
def test_which_side_is_the_base_does_not_matter(kept: int) -> None:
    """Twice the work is as surely slower as half the work is faster, in a step of one kernel as
    beside one that stays."""
    others = [weighed_kernel("triton_poi_fused_kept_1", "9", blocks=kept)] if kept else []

    def made(blocks: int, text: str) -> Run:
        changed = weighed_kernel("triton_red_fused_add_1", "1", blocks=blocks, text=text)
        return weighed_run(changed, *others, id=text)

    less, more = made(4096, "less"), made(8192, "more")
    slower, faster = compare(less, more).estimate, compare(more, less).estimate
    assert slower is not None
    assert faster is not None
    assert slower.ratio == pytest.approx(1 / (faster.ratio or math.nan))
    assert slower.low == pytest.approx(1 / (faster.high or math.nan))
    assert slower.high == pytest.approx(1 / (faster.low or math.nan))


def test_a_step_of_one_kernel_has_the_interval_that_pairs_were_measured_to_have() -> None:
    """However much slower it got: its share of the step is all of it, and never more."""
    calibration = calibration_for(H200)
    assert calibration is not None
    pair = calibration.pair
    less, more = (
        on(H200, weighed_kernel("triton_red_fused_add_1", "1", blocks=blocks, text=text))
        for blocks, text in ((4096, "less"), (16384, "more"))
    )
    found = compare(less, more).estimate
    assert found is not None
    assert found.ratio is not None
    assert found.ratio > 2
    half = pair["k80"] * math.hypot(1, pair["floor"])
    assert math.log((found.high or 0) / found.ratio) == pytest.approx(half)
    assert math.log(found.ratio / (found.low or 1)) == pytest.approx(half)
