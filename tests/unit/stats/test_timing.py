"""From a made-up measurement to the whole ``Timing``; every planted number comes back."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import pytest
from handmade import H100, kernel, run
from handmade_timing import changed

from perfcli.model import (
    DeviceState,
    Floor,
    KernelGroup,
    Machine,
    Match,
    MeasuredLaunch,
    Measurement,
    Prepared,
    Relation,
    Round,
    Run,
    SideName,
    Timing,
    Turn,
)
from perfcli.stats import parts, timing


def launches(made: Run, externs: Sequence[str] = ()) -> tuple[MeasuredLaunch, ...]:
    kernels = {(k.graph, k.name): k for k in made.kernels}
    generated = [
        MeasuredLaunch(n.name, n.graph, source_hash=kernels[n.graph, n.name].source_hash)
        for n in made.launches
    ]
    return (*generated, *(MeasuredLaunch(name, generated=False) for name in externs))


def prepared(side: SideName, announced: tuple[MeasuredLaunch, ...], **more: Any) -> Prepared:
    machine = Machine("made up", "2.13.0")
    return Prepared(side, 0, machine, 1e-3, 1.0, announced, **more)


def group(relation: Relation, base: tuple[int, ...], head: tuple[int, ...]) -> KernelGroup:
    return KernelGroup(Match(base, head, relation, "by hand", 1.0), ())


def measure(
    base: Sequence[float],
    head: Sequence[float],
    workers: tuple[Prepared, Prepared],
    *,
    rounds: int = 60,
    overhead: float = 0.0,
    **more: Any,
) -> Measurement:
    """Rounds of both kinds: seconds of each launch per side, with 0.2 % of noise each; the step is
    their sum, and head's is ``overhead`` seconds longer."""
    dice = random.Random(2)

    def steps(seconds: Sequence[float]) -> tuple[tuple[float, ...], ...]:
        return tuple(tuple(s * dice.lognormvariate(0, 2e-3) for s in seconds) for _ in range(3))

    def turn(seconds: Sequence[float], extra: float) -> Turn:
        taken = tuple(sum(step) + extra for step in steps(seconds))
        return Turn(taken, taken, state=DeviceState(1500.0, throttle=("thermal",)))

    made: list[Round] = []
    for i in range(rounds):
        made.append(Round(2 * i, 0, "step", "base", i, turn(base, 0), turn(head, overhead)))
        pair = Turn((1.0,), launches=steps(base)), Turn((1.0,), launches=steps(head))
        made.append(Round(2 * i + 1, 0, "kernels", "head", i + 0.5, *pair))
    given: dict[str, Any] = {"device": "cuda", "rounds": tuple(made), "prepared": workers, **more}
    return Measurement(
        "m1", "2026-11-21", "base", "head", "softmax", seed=3, budget_seconds=20.0,
        method="a pair of workers, interleaved", stopped="precise enough", **given,
    )  # fmt: skip


BASE = run([kernel("same", launches=2), kernel("left"), kernel("right"), kernel("old")])
HEAD = run([kernel("same", launches=2), kernel("both", text="b"), kernel("new")], id="head")
GROUPS = (
    group("same", (0,), (0,)),
    group("fused", (1, 2), (1,)),
    group("gone", (3,), ()),
    group("new", (), (2,)),
)
OLD, NEW = [10e-6, 10e-6, 30e-6, 20e-6, 5e-6, 25e-6], [10e-6, 10e-6, 70e-6, 8e-6, 25e-6]


def both(**more: Any) -> tuple[Prepared, Prepared]:
    return (
        prepared("base", launches(BASE, ["aten::mm one"]), **more),
        prepared("head", launches(HEAD, ["aten::mm two"]), **more),
    )


def test_every_part_has_its_change() -> None:
    made = timing.derive(measure(OLD, NEW, both()), BASE, HEAD, GROUPS)
    same, fused, gone, new, mm = made.groups
    assert (same.change.base, same.change.head) == pytest.approx((20e-6, 20e-6), rel=0.01)
    assert (same.control, same.change.verdict) == (True, "same")
    assert fused.change.ratio == pytest.approx(1.4, rel=0.005)
    assert fused.change.verdict == "slower"
    assert (fused.group, fused.name) == (1, "both")
    assert gone.change.base == pytest.approx(5e-6, rel=0.01)
    assert gone.change.head is None
    assert gone.change.why == "only base launches it"
    assert new.change.base is None
    assert new.change.head == pytest.approx(8e-6, rel=0.01)
    assert (mm.group, mm.name, mm.control) == (None, "aten::mm", False)
    assert mm.change.verdict == "same"


def test_shares_of_the_step_and_of_its_change() -> None:
    made = timing.derive(measure(OLD, NEW, both()), BASE, HEAD, GROUPS)
    assert made.step.verdict == "slower"
    assert made.step.delta == pytest.approx(23e-6, rel=0.01)
    shares = [g.share_of_step for g in made.groups]
    assert shares == pytest.approx([0.20, 0.50, 0.05, 8 / 123, 0.25], rel=0.01)
    changes = [g.share_of_change for g in made.groups]
    assert changes == pytest.approx([0, 20 / 23, -5 / 23, 8 / 23, 0], abs=0.01)
    assert sum(c for c in changes if c is not None) == pytest.approx(1, abs=0.01)
    assert made.unexplained == pytest.approx(0, abs=2e-7)
    assert made.kernels_total is not None
    assert made.kernels_total.head == pytest.approx(123e-6, rel=0.01)


@pytest.mark.parametrize("new", [True, False])
def test_an_operator_of_one_side_has_its_share_of_that_sides_step(new: bool) -> None:
    """12 of the 120 µs of the side that calls it."""
    mm = ["aten::mm one"]
    sides = (mm, [*mm, "aten::relu"]) if new else ([*mm, "aten::relu"], mm)
    base, head = (launches(made, each) for made, each in zip((BASE, HEAD), sides, strict=True))
    ours = OLD if new else [*OLD[:-1], 33e-6, 12e-6]
    theirs = [*NEW[:-1], 10e-6, 12e-6] if new else NEW
    workers = prepared("base", base), prepared("head", head)
    relu = timing.derive(measure(ours, theirs, workers), BASE, HEAD, GROUPS).groups[-1]
    assert relu.name == "aten::relu"
    assert (relu.change.base is None, relu.change.head is None) == (new, not new)
    assert relu.share_of_step == pytest.approx(0.1, rel=0.01)


def test_time_between_kernels_is_unexplained() -> None:
    made = timing.derive(measure(OLD, NEW, both(), overhead=11e-6), BASE, HEAD, GROUPS)
    assert made.unexplained == pytest.approx(11e-6, abs=2e-7)


def test_a_step_that_did_not_change_has_no_shares_of_its_change() -> None:
    made = timing.derive(measure(OLD, OLD, both()[:1] * 2), BASE, BASE, ())
    assert made.step.verdict == "same"
    assert [g.share_of_change for g in made.groups] == [None] * len(made.groups)


def test_bandwidth_counts_every_launch() -> None:
    made = timing.derive(measure(OLD, NEW, both(copy_bandwidth=3e8)), BASE, HEAD, GROUPS)
    same, fused, gone, _, mm = made.groups
    assert same.head_bandwidth == pytest.approx(2 * 1500 / 20e-6, rel=0.01)
    assert fused.base_bandwidth == pytest.approx(2 * 1500 / 50e-6, rel=0.01)
    assert same.peak_share == pytest.approx(1.5e8 / H100.bandwidth, rel=0.01)
    assert same.copy_share == pytest.approx(0.5, rel=0.01)
    assert (gone.head_bandwidth, gone.peak_share, mm.head_bandwidth) == (None, None, None)
    without = timing.derive(measure(OLD, NEW, both()), BASE, replace(HEAD, target=None), GROUPS)
    assert (without.groups[0].peak_share, without.groups[0].copy_share) == (None, None)


@pytest.mark.parametrize(("device", "share"), [("cpu", 0.25), ("cuda", 0.5)])
def test_on_the_cpu_the_better_copy_counts(device: Any, share: float) -> None:
    base, head = both()
    workers = (replace(base, copy_bandwidth=6e8), replace(head, copy_bandwidth=3e8))
    measured = replace(measure(OLD, NEW, workers), device=device)
    made = timing.derive(measured, BASE, HEAD, GROUPS)
    assert made.groups[0].copy_share == pytest.approx(share, rel=0.01)


def test_kernels_are_joined_by_name_then_by_source() -> None:
    kernels = [kernel("a", text="x"), kernel("b", text="x", launches=2), kernel("c")]
    seen = [
        MeasuredLaunch("c", "forward 0"),
        MeasuredLaunch("renamed", "forward 9", source_hash=kernels[0].source_hash),
        MeasuredLaunch("b", "forward 0", source_hash=kernels[1].source_hash),
        MeasuredLaunch("renamed", "forward 9", source_hash=kernels[0].source_hash),
        MeasuredLaunch("renamed", "forward 9", source_hash=kernels[0].source_hash),
        MeasuredLaunch("c", "", generated=False),
    ]
    assert parts._join(seen, kernels) == (2, 0, 1, 1, "renamed", "c")


def test_joined_launches_are_counted() -> None:
    workers = both()
    assert timing.derive(measure(OLD, NEW, workers), BASE, HEAD, GROUPS).joined == (9, 9)
    stranger = replace(workers[0].launches[0], name="unheard of", source_hash="")
    changed = replace(workers[0], launches=(stranger, *workers[0].launches[1:]))
    made = timing.derive(measure(OLD, NEW, (changed, workers[1])), BASE, HEAD, GROUPS)
    assert made.joined == (8, 9)
    assert "unheard of" in [g.name for g in made.groups]


@pytest.mark.parametrize(
    ("what", "device", "control"),
    [
        ({}, "cuda", True),
        ({"config": "XBLOCK: 256"}, "cuda", False),
        ({"registers": 64}, "cuda", False),
        ({"registers": 64}, "cpu", True),
    ],
)
def test_a_control_runs_as_on_the_other_side(
    what: dict[str, Any], device: str, control: bool
) -> None:
    base, head = both()
    other = replace(head, launches=(replace(head.launches[0], **what), *head.launches[1:]))
    made = timing.derive(measure(OLD, NEW, (base, other), device=device), BASE, HEAD, GROUPS)
    assert made.groups[0].control is control


def test_other_code_is_no_control() -> None:
    other = replace(HEAD, kernels=(kernel("same", launches=2, text="other"), *HEAD.kernels[1:]))
    made = timing.derive(measure(OLD, NEW, both()), BASE, other, GROUPS)
    assert made.groups[0].control is False


def test_a_clock_that_jumped_and_a_profile_with_holes_are_left_out() -> None:
    whole = measure(OLD, NEW, both())
    jumped = replace(whole.rounds[0], head=Turn((1e-4, -5.0, 1e-4)))
    holed = replace(whole.rounds[1], base=Turn((1.0,), launches=((1e-6,),)))
    spoiled = replace(whole, rounds=(jumped, holed, *whole.rounds[2:]))
    made = timing.derive(spoiled, BASE, HEAD, GROUPS)
    assert made.step.rounds == 59
    assert made.groups[0].change.rounds == 59
    assert [n for n in made.notes if "left out" in n] == [
        "rounds left out because a clock jumped: 1",
        "profiled rounds left out, their launches incomplete: 1",
    ]


def test_nothing_measured_is_unsure_everywhere() -> None:
    made = timing.derive(measure(OLD, NEW, both(), rounds=0), BASE, HEAD, GROUPS)
    assert (made.step.verdict, made.step.why) == ("unsure", "no round was measured")
    assert {g.change.verdict for g in made.groups} == {"unsure"}
    assert (made.kernels_total, made.unexplained, made.wall) == (None, None, None)
    empty = replace(measure(OLD, NEW, both(), rounds=0), prepared=())
    assert timing.derive(empty, BASE, HEAD, GROUPS).joined == (0, 0)


def test_wall_time_is_told_on_a_gpu_alone_and_states_are_averaged() -> None:
    on_gpu = timing.derive(measure(OLD, NEW, both()), BASE, HEAD, GROUPS)
    assert on_gpu.wall is not None
    assert on_gpu.states["head"] == DeviceState(1500.0, throttle=("thermal",))
    on_cpu = timing.derive(measure(OLD, NEW, both(), device="cpu"), BASE, HEAD, GROUPS)
    assert on_cpu.wall is None


@pytest.mark.parametrize(("seconds", "broken"), [(0.99, True), (1.0, False), (1.01, False)])
def test_what_was_interrupted_within_a_second_decides_nothing(seconds: float, broken: bool) -> None:
    step = changed(0.01, 0.012)
    made = Timing(step, Floor(0.01, "assumed"), stopped="interrupted", seconds=seconds)
    assert timing.is_broken_off(made) is broken
    assert not timing.is_broken_off(replace(made, stopped="budget"))
    assert timing.is_broken_off(replace(made, step=replace(step, low=None)))


def test_the_rank_that_is_slowest_most_often_is_named() -> None:
    slow = Turn((2.0, 2.0), ranks=((1.0, 2.0), (2.0, 1.0)))
    slower = Turn((2.0,), ranks=((1.0,), (2.0,)))
    assert timing._name_slowest([slow, slower]) == "rank 1 in 67 % of steps"
    assert timing._name_slowest([Turn((1.0,))]) == ""


def test_ranks_and_exchanged_devices_are_told_with_their_places() -> None:
    def worker(side: SideName, *places: int) -> Prepared:
        machines = tuple(Machine(f"GPU {n % 2}", "2.13.0", device_index=n) for n in places)
        return Prepared(side, 0, machines[0], 1.0, 1.0, ranks=machines if places[1:] else ())

    def measured(*workers: Prepared, half: Literal[0, 1, 2] = 0) -> Measurement:
        slowest = Turn((2.0,), ranks=((1.0,), (2.0,)))
        made = Round(0, 0, "step", "base", 0.0, slowest, slowest, half=half)
        return Measurement(
            *("m", "2026-11-23", "base", "head", "softmax", "cuda", 1, 20.0, "in turns"),
            workers, (made,), "interrupted",
        )  # fmt: skip

    ranks = measured(worker("base", 0, 1), worker("head", 0, 1))
    assert timing._describe_ranks(ranks) == [
        "2 ranks on cuda:0 (GPU 0), cuda:1 (GPU 1); a step takes as long as its slowest rank; "
        "base: rank 1 in 100 % of steps; head: rank 1 in 100 % of steps"
    ]
    assert timing._describe_exchange(ranks, "step") == []
    one = measured(worker("base", 2), worker("head", 3), half=1)
    assert timing._describe_exchange(one, "step") == [
        "base on cuda:2 and head on cuda:3; ended before they exchanged these, so there is nothing "
        "to compare"
    ]
    assert timing._describe_ranks(one) == []
