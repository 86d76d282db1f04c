"""How good estimates are, against times that are made of them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from handmade_estimate import weighed_kernel, weighed_run
from handmade_record import measurement, prepared

from perfcli.calibrate.accuracy import _check_run, _sum_up
from perfcli.errors import PerfcliError
from perfcli.machine import targets
from perfcli.model import MeasuredLaunch, Measurement, Round, Run, Turn
from perfcli.predict.step import estimate_step

NAMES = ("triton_a_0", "triton_b_0", "triton_c_0")


def weighed() -> Run:
    kernels = (
        weighed_kernel(NAMES[0], "mul", blocks=4096),
        replace(weighed_kernel(NAMES[1], "sum", blocks=1024), launches=2),
        weighed_kernel(NAMES[2], "add", blocks=512),
    )
    return replace(weighed_run(*kernels), target=targets.get("h200"))


def measured(run: Run, factors: tuple[float, ...]) -> Measurement:
    """Each kernel takes so many times its estimate; the second is launched twice a step."""
    step = estimate_step(run)
    assert step is not None
    seconds = [e.seconds * f for e, f in zip(step.kernels, factors, strict=True) if e is not None]
    launches = tuple(MeasuredLaunch(NAMES[n], run.kernels[n].graph) for n in (0, 1, 1, 2))
    times = (seconds[0], seconds[1], seconds[1], seconds[2])
    turn = Turn((), launches=(times, times, tuple(t * 1.5 for t in times)))
    made = Round(0, 0, "kernels", "base", 0.0, turn, turn)
    sides = tuple(replace(prepared(side), launches=launches) for side in ("base", "head"))
    return replace(
        measurement(), base=run.id, head="other", device="cuda", prepared=sides, rounds=(made,)
    )


def test_each_kernel_has_its_error_per_launch() -> None:
    run = weighed()
    checked = {each.name: each for each in _check_run(run, measured(run, (1.25, 0.8, 1.0)))}
    assert checked[NAMES[0]].error == pytest.approx(1 / 1.25 - 1)
    assert checked[NAMES[1]].error == pytest.approx(1 / 0.8 - 1)
    assert checked[NAMES[1]].launches == 2
    assert checked[NAMES[2]].error == pytest.approx(0.0)


def test_the_longest_of_the_step_comes_first() -> None:
    run = weighed()
    names = [each.name for each in _check_run(run, measured(run, (0.01, 1.0, 1.0)))]
    assert names == [NAMES[1], NAMES[2], NAMES[0]]


def test_far_outside_is_twice_the_interval() -> None:
    run = weighed()
    step = estimate_step(run)
    assert step is not None and step.kernels[0] is not None
    reach = step.kernels[0].high / step.kernels[0].seconds
    checked = {e.name: e for e in _check_run(run, measured(run, (reach**1.9, reach**2.1, 1.0)))}
    assert [checked[name].is_inside for name in NAMES] == [False, False, True]
    assert [checked[name].is_far for name in NAMES] == [False, True, False]


def test_median_percentile_and_coverage() -> None:
    run = weighed()
    found = _sum_up(_check_run(run, measured(run, (1.02, 10.0, 1.0))))
    assert found is not None
    assert found.kernels == 3
    assert found.median == pytest.approx(1 - 1 / 1.02)
    assert found.p90 == pytest.approx(0.9)
    assert found.covered == pytest.approx(2 / 3)  # no interval is as narrow as 2 %


def test_launches_below_3_microseconds_say_little() -> None:
    run = weighed()
    assert _sum_up(_check_run(run, measured(run, (1e-3, 1e-3, 1e-3)))) is None


def test_a_run_without_work_can_not_be_checked() -> None:
    run = weighed()
    made = measured(run, (1.0, 1.0, 1.0))
    with pytest.raises(PerfcliError, match="has no estimate to check"):
        _check_run(replace(run, weighed=False), made)


def test_a_measurement_of_other_kernels_is_told() -> None:
    run = weighed()
    made = replace(measured(run, (1.0, 1.0, 1.0)), rounds=())
    with pytest.raises(PerfcliError, match="has no times of its kernels"):
        _check_run(run, made)
