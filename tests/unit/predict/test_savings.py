"""What a step would save, held against estimates of kernels that are made without the fault."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from handmade import candidate, kernel
from handmade_estimate import MICRO, weighed_kernel, weighed_run, work

from perfcli.machine import targets
from perfcli.model import ExternCall, KernelFacts, LaunchWork, Run, TimeEstimate
from perfcli.predict.calibration import calibration_for
from perfcli.predict.launch import Demand
from perfcli.predict.savings import estimate_loss, estimate_saving, estimate_total
from perfcli.predict.step import estimate_run
from perfcli.rules._evidence.demands import without_spills


def made(*kernels: KernelFacts) -> Run:
    return estimate_run(weighed_run(*kernels))


def spilling(local_bytes: float, stack: int, issued: float, stalls: float) -> KernelFacts:
    counted = work()
    warp = replace(counted.warp, local_bytes=local_bytes, issued={"fp32": issued})
    warp = replace(warp, stall_cycles=stalls)
    counted = LaunchWork(counted.grid, 4, counted.traffic, warp, warp)
    config = candidate(blocks_per_sm=8, work=counted, stack_bytes=stack, registers=255)
    return kernel("triton_red_fused_mul_0", "1", candidates=(config,), sizes={"x": 4096})


def seconds(run: Run, number: int = 0) -> float:
    found = run.kernels[number].step_seconds
    assert found is not None
    return found


def test_the_saving_is_what_the_kernel_without_the_fault_takes_less() -> None:
    """4096 bytes are 32 words of a warp: 32 of 1032 instructions, and of their stalls."""
    faulty = made(spilling(4096.0, 400, 1032.0, 1032.0))
    clean = made(spilling(0.0, 0, 1000.0, 1000.0))
    cost = estimate_saving(faulty, {0: (without_spills,)})
    assert cost is not None
    assert cost.seconds == pytest.approx(seconds(faulty) - seconds(clean))
    assert cost.seconds > 0
    assert cost.share == pytest.approx(cost.seconds / seconds(faulty))


def halve(demand: Demand) -> None:
    demand.blocks /= 2


def test_launches_and_further_seconds_count() -> None:
    large = weighed_kernel("triton_poi_fused_a_0", "1", blocks=8192)
    few = made(replace(large, launches=1))
    often = made(replace(large, launches=3))
    once, thrice = (estimate_saving(run, {0: (halve,)}) for run in (few, often))
    added = estimate_saving(often, {0: (halve,)}, added=2 * MICRO)
    assert once is not None and thrice is not None and added is not None
    assert thrice.seconds == pytest.approx(3 * once.seconds)
    assert added.seconds == pytest.approx(thrice.seconds - 2 * MICRO)


def test_what_the_edit_costs_or_saves_has_an_interval_around_it() -> None:
    run = made(weighed_kernel("triton_poi_fused_a_0", "1", blocks=8192))
    saved = estimate_saving(run, {0: (halve,)})
    lost = estimate_saving(run, {0: ()}, added=MICRO)
    assert saved is not None and lost is not None
    assert 0 < saved.low < saved.seconds < saved.high
    assert saved.high / saved.seconds == pytest.approx(saved.seconds / saved.low)
    assert lost.seconds == pytest.approx(-MICRO)
    assert lost.low < lost.seconds < lost.high < 0


def test_a_loss_is_as_unsure_as_a_step_of_these_kernels() -> None:
    base, head = (made(weighed_kernel("triton_poi_fused_a_0", "1", blocks=n)) for n in (4096, 8192))
    cost = estimate_loss(base, [0], head, [0])
    calibration = calibration_for(targets.get("h100"))
    assert cost is not None and calibration is not None
    half = calibration.pair["k80"] * math.sqrt(1 + calibration.pair["floor"] ** 2)
    assert seconds(head) - cost.low == pytest.approx(seconds(base) * math.exp(half))
    assert seconds(head) - cost.high == pytest.approx(seconds(base) * math.exp(-half))


def test_nothing_is_said_without_an_estimate() -> None:
    whole = made(weighed_kernel("triton_poi_fused_a_0", "1"))
    unweighed = replace(whole, weighed=False)
    bare = replace(whole.kernels[0], estimate=None)
    rough = replace(bare, estimate=TimeEstimate(1e-5, 1e-6, 1e-4, kind="bytes"))
    assert estimate_saving(unweighed, {0: (halve,)}) is None
    for kernel_ in (bare, rough):
        run = replace(whole, kernels=(kernel_,))
        assert estimate_saving(run, {0: (halve,)}) is None
        assert estimate_loss(whole, [0], run, [0]) is None


def test_a_loss_is_the_difference_of_both_sides() -> None:
    base = made(weighed_kernel("triton_poi_fused_a_0", "1"))
    head = made(
        weighed_kernel("triton_poi_fused_a_0", "1", blocks=8192),
        weighed_kernel("triton_poi_fused_b_1", "2"),
    )
    cost = estimate_loss(base, [0], head, [0, 1])
    assert cost is not None
    assert cost.seconds == pytest.approx(seconds(head) + seconds(head, 1) - seconds(base))
    other = replace(base, estimated_with="other constants")
    assert estimate_loss(other, [0], head, [0]) is None


def test_the_total_is_of_all_that_is_known() -> None:
    run = made(weighed_kernel("triton_poi_fused_a_0", "1"))
    operator = ExternCall("aten.mm", "forward 0", 3, estimate=TimeEstimate(1e-4, 9e-5, 2e-4))
    assert estimate_total(replace(run, externs=(operator,))) == pytest.approx(3e-4 + seconds(run))
    bare = replace(run.kernels[0], estimate=None)
    assert estimate_total(replace(run, kernels=(bare,))) is None
