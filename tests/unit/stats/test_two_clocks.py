"""The device's own time beside the step's: which decides, what tells it, when both are settled."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from typing import Any, get_args

import handmade_timing as made
import pytest
from handmade import run
from handmade_timing import changed, conclude_timed, prepared

from perfcli.model import (
    DeviceClock,
    Floor,
    Measurement,
    Round,
    RoundKind,
    SideName,
    TimeChange,
    TimeVerdict,
    Timing,
    Turn,
    choose_clock,
)
from perfcli.rules.host_bound import RULE
from perfcli.stats import floor, stopping, timing
from perfcli.stats.timing import judge_clocks

# --- which decides -----------------------------------------------------------------------------


def said(verdict: str) -> TimeChange:
    ratios = {"slower": 1.03, "faster": 0.97, "same": 1.0, "unsure": 1.02}
    return TimeChange(1e-3, 1e-3, ratios[verdict], verdict=verdict)  # type: ignore[arg-type]


@pytest.mark.parametrize("waits", [True, False])
@pytest.mark.parametrize("device", get_args(TimeVerdict))
@pytest.mark.parametrize("step", get_args(TimeVerdict))
def test_slower_on_either_clock_is_slower_and_the_device_decides_the_rest(
    device: str, step: str, waits: bool
) -> None:
    pair = said(device), said(step)
    clock = choose_clock(*pair, "both", waits=waits)
    verdict = pair[clock == "step"].verdict
    assert (verdict == "slower") == ("slower" in (device, step))
    if "slower" not in (device, step):
        wanted = {
            ("same", "faster"): "faster" if waits else "same",
            ("unsure", "same"): "unsure" if waits else "same",
            ("unsure", "faster"): "unsure" if waits else "faster",
        }.get((device, step), device)
        assert verdict == wanted
    assert choose_clock(*pair, "step", waits=waits) == "step"
    assert choose_clock(*pair, "device", waits=waits) == "device"
    assert choose_clock(None, pair[1], "both", waits=waits) == "step"


def two(device: TimeChange, step: TimeChange, **more: Any) -> tuple[Any, Timing]:
    """A comparison whose step waits for its host."""
    comparison, timing = made.gpu()
    given = {"device_clock": "graph", "device_floor": Floor(0.005, "assumed"), **more}
    return comparison, replace(timing, device=device, step=step, **given)


WAITING = changed(4.60e-3, 4.74e-3, 0.001, "slower"), changed(12.3e-3, 12.4e-3, 0.004, "same")


def test_the_verdict_names_its_clock_and_how_long_the_other_one_waits() -> None:
    comparison = conclude_timed(*two(*WAITING))
    assert comparison.outcome == "worse"
    because = comparison.because
    assert because is not None
    assert because.change == "device 4.600 → 4.740 ms, +3.0 % [+2.9, +3.1], floor 0.5 %"
    assert because.clock == "step SAME, it waits for the host 63 % of the time"
    assert comparison.reason.endswith(because.clock)


def test_the_clock_that_was_asked_for_decides() -> None:
    by_step = conclude_timed(*two(*WAITING, clocks="step"))
    assert by_step.outcome == "same"
    assert by_step.because is not None
    assert by_step.because.change.startswith("step 12.30 → 12.40 ms")
    assert by_step.because.clock == "it waits for the host 63 % of the time"
    by_device = conclude_timed(*two(*WAITING, clocks="device"))
    assert by_device.outcome == "worse"


def test_a_slower_step_is_worse_though_the_device_is_not() -> None:
    device, step = changed(4.6e-3, 4.6e-3, 0.001), changed(12.3e-3, 14.8e-3, 0.01)
    comparison = conclude_timed(*two(device, step))
    assert comparison.outcome == "worse"
    assert comparison.because is not None
    assert comparison.because.change.startswith("step 12.30 → 14.80 ms, +20.3 %")
    assert comparison.because.clock == ("device SAME, the step waits for the host 69 % of the time")


def test_waiting_is_that_of_the_side_that_waits_more() -> None:
    assert two(*WAITING)[1].waiting == pytest.approx(1 - 4.60 / 12.3)
    assert made.gpu()[1].waiting is None
    busy = changed(12.4e-3, 12.4e-3)
    assert two(busy, changed(12.3e-3, 12.3e-3))[1].waiting == 0


# --- what tells it -----------------------------------------------------------------------------


def measure(device: float, *clocks: DeviceClock, rounds: int = 60) -> Measurement:
    """Steps of 10 ms whose device is busy for 4 ms, and ``device`` times that in the head."""
    dice = random.Random(5)

    def turn(kind: RoundKind, seconds: float) -> Turn:
        taken = tuple(seconds * dice.lognormvariate(0, 1e-3) for _ in range(3))
        if kind == "kernels":
            return Turn((), launches=tuple((s / 2, s / 2) for s in taken))
        return Turn(taken)

    kinds: tuple[RoundKind, ...] = ("step", "device", "kernels")
    taken = []
    for number in range(rounds * len(kinds)):
        kind = kinds[number % len(kinds)]
        base, head = (1e-2, 1e-2) if kind == "step" else (4e-3, 4e-3 * device)
        sides = turn(kind, base), turn(kind, head)
        taken.append(Round(number, 0, kind, "base", number * 0.03, *sides, took=0.03))
    names: tuple[SideName, SideName] = ("base", "head")
    workers = tuple(
        prepared(side, made.H200, device_clock=clock, no_graph="" if clock == "graph" else "why")
        for side, clock in zip(names, clocks, strict=True)
    )
    return Measurement(
        *("m", "2026-11-23", "base", "head", "softmax", "cuda", 1, 20.0, "in turns"),
        workers, tuple(taken), "precise enough",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("clocks", "by", "assumed"),
    [
        (("graph", "graph"), "graph", floor.ASSUMED_OF_GRAPH),
        (("graph", "profiler"), "profiler", floor.ASSUMED["cuda"]),
        (("profiler", "profiler"), "profiler", floor.ASSUMED["cuda"]),
    ],
)
def test_the_device_is_told_by_graphs_of_both_sides_or_by_the_profiler(
    clocks: tuple[DeviceClock, DeviceClock], by: str, assumed: float
) -> None:
    found = timing.derive(measure(1.03, *clocks), run([]), run([]), ())
    assert found.device is not None
    assert found.device.ratio == pytest.approx(1.03, abs=1e-3)
    assert (found.device.verdict, found.step.verdict) == ("slower", "same")
    assert (found.clock, found.device_clock) == ("device", by)
    assert found.device_floor is not None
    assert found.device_floor.relative == assumed
    assert found.no_graph == ("" if by == "graph" else "why")
    assert found.waiting == pytest.approx(0.6, abs=0.02)


def test_one_clock_alone_where_nobody_tells_the_device() -> None:
    found = timing.derive(measure(1.03, "", ""), run([]), run([]), ())
    assert (found.device, found.clock, found.device_floor) == (None, "step", None)


def test_a_percent_of_device_time_is_slower_and_half_of_it_is_not() -> None:
    for ratio, verdict in ((1.01, "slower"), (1.004, "same"), (1.0, "same"), (0.99, "faster")):
        found = timing.derive(measure(ratio, "graph", "graph"), run([]), run([]), ())
        assert found.deciding.verdict == verdict


# --- when they are settled ---------------------------------------------------------------------


def steps(spread: float, count: int, kind: RoundKind, log: float = -5.0) -> list[Round]:
    dice = random.Random(3)
    turns = [Turn((dice.lognormvariate(log, spread),)) for _ in range(2 * count)]
    return [
        Round(n, 0, kind, "base", n * 0.1, turns[2 * n], turns[2 * n + 1], took=0.1)
        for n in range(count)
    ]


def test_a_step_that_waits_is_settled_by_the_time_that_it_took() -> None:
    noisy, device = steps(0.2, 67, "step"), steps(0.2, 67, "device", -5.2)
    why = stopping.reason_to_stop([*noisy, *device], 0.01)
    assert why == "the device's time precise enough; the step waits for its host"
    assert stopping.reason_to_stop(noisy, 0.01) is None
    busy = steps(0.2, 67, "device", -5.01)
    assert stopping.reason_to_stop([*noisy, *busy], 0.01) is None
    assert stopping.reason_to_stop([*noisy, *device], 0.01, "device") is None
    hasty = [replace(r, at=r.at / 2) for r in [*noisy, *device]]
    assert stopping.reason_to_stop(hasty, 0.01) is None


def test_a_step_that_waits_and_looks_changed_is_measured_on() -> None:
    def slower(made: list[Round], factor: float) -> list[Round]:
        return [replace(r, head=Turn((r.head.seconds[0] * factor,))) for r in made]

    noisy, device = steps(0.2, 67, "step"), steps(0.001, 67, "device", -5.2)
    assert stopping.reason_to_stop([*slower(noisy, 1.5), *device], 0.01) is None
    quiet = steps(0.001, 67, "step")
    assert stopping.reason_to_stop([*slower(quiet, 1.1), *device], 0.01) is None
    assert stopping.reason_to_stop(slower(quiet, 1.1), 0.01) == "precise enough"
    longer = [replace(r, at=r.at * 3) for r in [*slower(quiet, 1.1), *device]]
    assert stopping.reason_to_stop(longer, 0.01) == "precise enough"


def test_ranks_that_wait_for_each_other_are_judged_by_what_keeps_their_devices_busy() -> None:
    """Kernels of rank 0 with a collective that waits for another host, as long as it likes."""
    draw = random.Random(5)

    def turn(busy: float) -> Turn:
        return Turn(
            (), launches=((busy, draw.uniform(0, 5e-3)),), busy=(busy * draw.gauss(1, 3e-3),)
        )

    rounds = [
        Round(n, 0, "kernels", "base", n * 0.1, turn(2e-3), turn(head))
        for head in (2e-3, 2.06e-3)
        for n in range(40)
    ]
    waits = steps(0.05, 40, "step", math.log(12e-3))
    same, slower = (
        judge_clocks([*waits, *some], "cuda", "profiler") for some in (rounds[:40], rounds[40:])
    )
    assert same.device is not None and slower.device is not None
    assert (same.device.verdict, slower.device.verdict) == ("same", "slower")
    assert slower.device.ratio == pytest.approx(1.03, abs=4e-3)
    assert (slower.step.verdict, slower.clock) == ("unsure", "device")
    assert same.waiting == pytest.approx(1 - 2 / 12, abs=0.02)


def test_a_step_that_waits_has_the_floor_of_two_processes() -> None:
    # 8 % and 0.2 ms of 6.74 ms (e^-5 s); see docs/noise.md
    for share, least in ((0.4, 0.08 + 2e-4 / math.exp(-5)), (0.95, 0.01)):
        rounds = [*steps(1e-4, 60, "step"), *steps(1e-4, 60, "device", -5 + math.log(share))]
        found = judge_clocks(rounds, "cuda", "graph").floor.relative
        assert found == pytest.approx(least, rel=1e-3)
        stored = judge_clocks(rounds, "cuda", "graph", (), (0.012, "perfcli noise"))
        assert stored.floor.relative == 0.012


def test_each_clock_counts_its_own_rounds() -> None:
    quiet = steps(1e-4, 30, "device")
    assert stopping.reason_to_stop(quiet, 0.01, "device") == "precise enough"
    assert stopping.reason_to_stop(quiet, 0.01, "step") is None


# --- the finding -------------------------------------------------------------------------------


def test_a_step_that_waits_is_a_finding_of_its_measured_share() -> None:
    comparison, timing = two(*WAITING)
    (finding,) = RULE.of_comparison(replace(comparison, timing=timing))
    assert finding.headline == (
        "the step waits for the host 62 % of the time: it takes 12.4 ms, and the device 4.74 ms "
        "of that"
    )
    assert "42 launches per step, 1 of them of generated kernels" in finding.evidence
    assert (finding.appearance, finding.severity) == ("same", "info")
    assert finding.cost is not None
    assert finding.cost.seconds == pytest.approx(7.66e-3)
    assert RULE.is_measured(replace(comparison, timing=timing))


@pytest.mark.parametrize(
    ("base", "head", "step", "appearance", "severity"),
    [
        (11.9e-3, 6.0e-3, changed(12e-3, 12e-3), "same", "info"),
        (11.9e-3, 11.9e-3, changed(12e-3, 20e-3), "new", "warning"),
        (6.0e-3, 6.0e-3, changed(12e-3, 6.1e-3), "gone", "info"),
    ],
)
def test_what_became_of_it(
    base: float, head: float, step: TimeChange, appearance: str, severity: str
) -> None:
    comparison, timing = two(changed(base, head), step)
    (finding,) = RULE.of_comparison(replace(comparison, timing=timing))
    assert (finding.appearance, finding.severity) == (appearance, severity)
    assert finding.on_base == (appearance == "gone")


def test_a_busy_device_and_an_old_measurement_raise_nothing() -> None:
    comparison, timing = two(changed(11.9e-3, 12.0e-3), changed(12.3e-3, 12.4e-3))
    assert not list(RULE.of_comparison(replace(comparison, timing=timing)))
    old = replace(comparison, timing=made.gpu()[1])
    assert not list(RULE.of_comparison(old))
    assert not RULE.is_measured(old)
