"""Fitting finds constants that are known, because the times were made of them."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from handmade_estimate import weighed_kernel, work

from perfcli.calibrate import fit
from perfcli.calibrate.measuring import _TimedCase
from perfcli.calibrate.steps import _TimedKernel, _TimedStep
from perfcli.machine import targets
from perfcli.model.kernel_work import CorpusCase
from perfcli.predict.calibration import Calibration, shipped
from perfcli.predict.launch import stack

H200 = targets.get("h200")
START = shipped()["h200"]


def unknown_gpu() -> Calibration:
    """As if another target's constants had been scaled to this one."""
    return replace(START, derived="h100")


def case(blocks: int, sectors: int, kernel: str = "strided_copy") -> _TimedCase:
    size = blocks * sectors * 32 // 2
    tensors = (("in_ptr0", "bf16", size), ("out", "bf16", size))
    described = CorpusCase(kernel, (blocks, 1, 1), 4, tensors, {"n": size}, {"XBLOCK": 1024})
    return _TimedCase(described, 32, 0, 0, work(blocks, float(sectors)), ((1.0,), (1.0,)))


def timed_with(constants: dict[str, float]) -> list[_TimedCase]:
    """Cases whose times are what these constants make, with 2 % of noise."""
    kernels = ("row_sum", "transpose", "gather", "held", "chase")
    made = [
        case(blocks, sectors, kernels[(blocks + sectors) % 5])
        for blocks in (1, 3, 16, 100, 132, 500, 1056, 4096, 20_000, 50_000, 90_000)
        for sectors in (4, 16, 33, 64, 256, 1024)
    ]
    noise = np.random.default_rng(1)
    found = []
    for each in made:
        times = []
        for cold in (1.0, 0.0):
            one = fit.Samples(
                stack([fit._demand(each, START, cold)]), np.ones(1), ("",), np.array([True])
            )
            micros = float(fit.estimate_micros(one, constants, START)[1][0])
            times.append(tuple(micros * math.exp(0.02 * n) for n in noise.normal(size=5)))
        found.append(replace(each, times=(times[0], times[1])))
    return found


def test_constants_that_differ_from_the_start_are_found() -> None:
    true = {**START.constants, "dram": START.constants["dram"] * 0.7, "launch": 1.6}
    start = unknown_gpu()
    samples = fit._list_samples(timed_with(true), START)
    found = fit.fit_constants(samples, start)
    assert found["launch"] == pytest.approx(1.6, rel=0.03)
    # Other bounds come close to that of the memory, so that it is not told from them exactly …
    assert found["dram"] < START.constants["dram"] * 0.85
    # … but a launch that was not timed is estimated as the true constants do.
    untimed = fit.Samples(
        stack([fit._demand(case(70_000, 512), START, 1.0)]), np.ones(1), ("",), np.array([True])
    )
    times = [fit.estimate_micros(untimed, each, start)[1][0] for each in (found, true)]
    assert times[0] == pytest.approx(times[1], rel=0.05)
    assert found["cache_bytes"] == start.constants["cache_bytes"]  # nothing says anything of it
    _, micros = fit.estimate_micros(samples, found, start)
    assert np.median(np.abs(np.log(micros / samples.micros))) < 0.02


def test_constants_of_this_gpu_are_left_more_slowly_than_derived_ones() -> None:
    true = {**START.constants, "launch": 1.6}
    samples = fit._list_samples(timed_with(true), START)
    own, derived = fit.fit_constants(samples, START), fit.fit_constants(samples, unknown_gpu())
    before = START.constants["launch"]
    assert before < own["launch"] < derived["launch"] <= 1.6 * 1.03


def test_a_cold_launch_that_memory_holds_up_is_left_out() -> None:
    # 20,000 blocks move 32 kB each way: 1.3 GB, 273 µs at 4.8 TB/s.
    large = replace(case(20_000, 1024), times=((300.0,), (300.0,)))
    assert fit._list_samples([large], START).micros.tolist() == [300.0]  # the warm one
    slow = replace(large, times=((800.0,), (300.0,)))
    assert fit._list_samples([slow], START).micros.tolist() == [800.0, 300.0]


def test_a_launch_that_is_all_overhead_is_left_out() -> None:
    short = replace(case(1, 4), times=((1.1,), (1.3,)))
    assert fit._list_samples([short], START).micros.tolist() == [1.3]


def test_residuals_are_quantiles_by_class() -> None:
    errors = np.array([0.01 * n * (-1) ** n for n in range(100)])
    classes = ["memory, long"] * 60 + ["latency, short"] * 40
    classes[0] = "throughput, long"  # too few for residuals of their own
    found = fit._sum_up_residuals(errors, classes)
    assert set(found) == {"all", "memory, long", "latency, short"}
    assert found["all"].kernels == 100
    assert found["all"].median == pytest.approx(0.495)
    assert found["all"].q90 == pytest.approx(0.891)
    assert found["memory, long"].q80 == pytest.approx(0.474)  # of 0.01 … 0.59


def test_a_calibration_says_what_it_rests_on() -> None:
    versions = ("2.12.0", "3.7.0", "2027-01-01")
    with ThreadPoolExecutor(1) as pool:
        made = fit._fit_calibration(timed_with(dict(START.constants)), [], START, versions, pool)
    assert (made.target, made.torch, made.date) == (START.target, "2.12.0", "2027-01-01")
    assert made.pair == START.pair
    assert any("no pairs of options were measured" in note for note in made.notes)
    assert made.residuals["all"].median < 0.03
    assert made.constants.keys() == START.constants.keys()


# --- steps -------------------------------------------------------------------------------------


def step_of(scenario: str, micros: float, blocks: int = 4096) -> _TimedStep:
    kernel = weighed_kernel("triton_a_0", "mul", blocks=blocks)
    timed = _TimedKernel(kernel.name, kernel.candidates[0], kernel.buffers, 1.0, micros * 1e-6)
    return _TimedStep(scenario, scenario, {}, (timed,), 0)


def test_a_launch_that_repeats_itself_finds_everything_warm() -> None:
    """One block of almost nothing takes a launch, which is shorter there; a step's takes what the
    constant says."""
    alone = fit._list_samples([replace(case(1, 4), times=((1.5,), (1.5,)))], START)
    in_step = replace(alone, repeated=np.array([False, False]))
    times = [fit.estimate_micros(s, START.constants, START)[1][1] for s in (alone, in_step)]
    saved = START.constants["launch"] * (1 - fit._REPEATED["launch"])
    assert times[1] - times[0] == pytest.approx(saved, rel=0.05)
    # Both at once are each as they are alone.
    both = fit.join_samples(alone, in_step)
    found, micros = fit.estimate_micros(both, START.constants, START)
    assert micros[[1, 3]].tolist() == pytest.approx(times)
    assert found["DRAM"].shape == (4,)


def test_kernels_of_steps_are_samples_of_their_own() -> None:
    found = fit._list_step_samples(
        [step_of("a", 90.0), step_of("b", 80.0), step_of("c", 1.1)], START
    )
    assert found is not None
    assert found.micros.tolist() == pytest.approx([90.0, 80.0])  # 1.1 µs is all overhead
    assert (found.kernels, found.repeated.tolist()) == (("a", "b"), [False, False])
    assert fit._list_step_samples([step_of("c", 1.1)], START) is None


def test_a_calibration_has_the_residuals_of_steps_and_names_them() -> None:
    (sample,) = [s for s in [fit._list_step_samples([step_of("a", 1.0e3)], START)] if s]
    expected = float(fit.estimate_micros(sample, START.constants, START)[1][0])
    steps = [step_of(f"model {n}", expected * 1.5) for n in range(3)]
    with ThreadPoolExecutor(1) as pool:
        made = fit._fit_calibration(
            timed_with(dict(START.constants)), steps, START, ("2.12.0", "3.7.0", "2027"), pool
        )
    assert made.residuals["steps"].kernels == 3
    assert made.residuals["steps"].median == pytest.approx(math.log(1.5), rel=0.3)
    assert "3 kernels of steps (model 0, model 1, model 2)" in made.notes[0]
