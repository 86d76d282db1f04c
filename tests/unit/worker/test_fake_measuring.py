"""The made-up measuring worker: what its plan says, and that it does it."""

from __future__ import annotations

import statistics
from typing import Any

import pytest

from perfcli.errors import OutOfMemory, PerfcliError, WorkerFailed, WrongResult
from perfcli.fake.measuring import PREPARE_SECONDS, FakePlan, FakeStarter, _Failure, parse
from perfcli.fake.run import make_up_run
from perfcli.model import Ask, CompileRequest, MeasureRequest, SideName, Variant

MAX_READS = "triton.mix_order_reduction_max_reads"
STEP = Ask("step", 4, 1)


def request(side: SideName = "base", seed: int = 1, **options: Any) -> MeasureRequest:
    variant = Variant("v", options=options)
    compiled = CompileRequest("gqa-transformer", {"layers": 3}, None, variant, "cpu", None)
    return MeasureRequest(compiled, side, seed)


def worker(plan: FakePlan, asked: MeasureRequest | None = None) -> Any:
    return FakeStarter(plan)(asked or request(), lambda phase: None)


# --- the plan --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "plan"),
    [
        ("", None),
        ("1", None),
        ("killed:1", None),
        ("1;", FakePlan()),
        ("1;ratio=1.05", FakePlan(ratio=1.05)),
        ("user:0;noise=0.5;step=2", FakePlan(noise=0.5, step=2.0)),
        (
            "1;fail=oom:head:prepare;fail=dies:base:7",
            FakePlan(failures=(_Failure("oom", "head", 0), _Failure("dies", "base", 7))),
        ),
    ],
)
def test_what_a_plan_says(text: str, plan: FakePlan | None) -> None:
    assert parse(text) == plan


@pytest.mark.parametrize(
    "part", ["ration=1", "fail=oom", "fail=sad:head:1", "fail=oom:left:1", "fail=oom:head:now"]
)
def test_a_plan_that_nobody_understands(part: str) -> None:
    with pytest.raises(PerfcliError, match="PERFCLI_FAKE plans"):
        parse(f"1;{part}")


# --- times -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("side", "seconds"), [("base", 0.01), ("head", 0.012)])
def test_a_step_takes_what_is_planned(side: SideName, seconds: float) -> None:
    made = worker(FakePlan(ratio=1.2, noise=0.0, step=0.01), request(side))
    assert made.prepare().step_seconds == pytest.approx(seconds)
    assert made.turn(STEP).seconds == pytest.approx((seconds,) * 4)


def test_noise_scatters_as_planned() -> None:
    made = worker(FakePlan(noise=0.05, step=0.01))
    seconds = made.turn(Ask("step", 4000, 0)).seconds
    assert statistics.stdev(seconds) / 0.01 == pytest.approx(0.05, rel=0.05)
    assert statistics.median(seconds) == pytest.approx(0.01, rel=0.01)


def test_it_is_deterministic_and_no_two_sides_or_processes_agree() -> None:
    def turn(asked: MeasureRequest, earlier: int = 0) -> tuple[float, ...]:
        starter = FakeStarter()
        for _ in range(earlier):
            starter(asked, lambda phase: None)
        seconds: tuple[float, ...] = starter(asked, lambda phase: None).turn(STEP).seconds
        return seconds

    assert turn(request()) == turn(request())
    other = [turn(request("head")), turn(request(seed=2)), turn(request(), earlier=1)]
    assert len({turn(request()), *other}) == 4


def test_time_passes_on_its_own_clock_alone() -> None:
    starter = FakeStarter(FakePlan(noise=0.0, step=0.01))
    begun = starter.clock()
    made = starter(request(), lambda phase: None)
    assert starter.clock() == begun
    made.prepare()
    assert starter.clock() - begun == pytest.approx(PREPARE_SECONDS)
    begun = starter.clock()
    made.turn(STEP)
    assert starter.clock() - begun == pytest.approx(0.05, abs=0.001)


# --- kernels ---------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {MAX_READS: 1000}])
def test_its_launches_are_those_of_the_run(options: Any) -> None:
    asked = request(**options)
    run = make_up_run(asked.compile).run
    prepared = worker(FakePlan(), asked).prepare()
    generated = [launch for launch in prepared.launches if launch.generated]
    assert [(each.graph, each.name) for each in generated] == [
        (each.graph, each.name) for each in run.launches
    ]
    known = {kernel.source_hash for kernel in run.kernels}
    assert {each.source_hash for each in generated} == known
    externs = [each.name for each in prepared.launches if not each.generated]
    assert externs == ["aten::mm"] * sum(each.count for each in run.externs)
    assert prepared.launch_count == len(prepared.launches)


def test_kernels_add_up_to_the_step_and_only_the_changed_one_changes() -> None:
    plan = FakePlan(ratio=1.5, noise=0.0, step=0.01)
    sides = {}
    for side, options in (("base", {}), ("head", {"triton.mix_order_reduction": False})):
        made = worker(plan, request(side, **options))  # type: ignore[arg-type]
        launches = made.prepare().launches
        turn = made.turn(Ask("kernels", 2, 1))
        assert turn.seconds == ()
        assert len(turn.launches) == 2
        assert sum(turn.launches[0]) == pytest.approx(0.01 if side == "base" else 0.015)
        sides[side] = [(each.name, t) for each, t in zip(launches, turn.launches[0], strict=True)]
    moved = {ours[0] for ours, theirs in zip(*sides.values(), strict=True) if ours != theirs}
    assert moved == {f"triton_red_fused_sum_{layer}" for layer in range(3)}


# --- failures --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("oom", OutOfMemory),
        ("dies", WorkerFailed),
        ("hangs", WorkerFailed),
        ("garbage", WorkerFailed),
        ("wrong", WrongResult),
        ("interrupt", KeyboardInterrupt),
    ],
)
def test_it_fails_where_it_is_planned_to(kind: str, error: type[BaseException]) -> None:
    early = worker(FakePlan(failures=(_Failure(kind, "base", 0),)))
    with pytest.raises(error):
        early.prepare()
    late = worker(FakePlan(failures=(_Failure(kind, "base", 3),)))
    late.prepare()
    late.turn(STEP)
    late.turn(STEP)
    with pytest.raises(error):
        late.turn(STEP)
    other = worker(FakePlan(failures=(_Failure(kind, "base", 0),)), request("head"))
    assert other.prepare().side == "head"


def test_crowded_fails_only_beside_another() -> None:
    starter = FakeStarter(FakePlan(failures=(_Failure("crowded", "head", 0),)))
    base = starter(request("base"), lambda phase: None)
    head = starter(request("head"), lambda phase: None)
    with pytest.raises(OutOfMemory):
        head.prepare()
    base.close()
    assert head.prepare().side == "head"
    head.close()
    head.close()
    assert starter.alive == set()
