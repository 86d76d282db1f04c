"""A problem timed on a clock of the test's own: who is made ready, judged, timed, left out."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from perfcli.handwritten import contenders, peers
from perfcli.handwritten.benching import _Bench, _describe_outside
from perfcli.loading import registry
from perfcli.machine import targets
from perfcli.model import LaunchPlan, Machine, Problem
from perfcli.model.kernel_work import (
    BenchAsk,
    Benched,
    BenchRequest,
    Contender,
    OutputError,
    TimedContender,
)

pytestmark = pytest.mark.torch

FIXTURES = Path(__file__).parents[2] / "fixtures" / "kernels"
PROBLEM = Problem("sum", 8, 64, "float32")
NOWHERE = LaunchPlan("eager-in-disguise", (), "no launches: sums stay as they were allocated")


class Clock:
    """Each contender takes a second more than the one before; every launch is run."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}

    def seconds(self, name: str, launch: Callable[[], object]) -> float:
        launch()
        return self._seconds.setdefault(name, 1.0 + len(self._seconds))

    def now(self) -> float:
        return 0.0


def bench(*names: Contender, file: str = "row_sum.py") -> tuple[Benched, list[str]]:
    told: list[str] = []
    ask = BenchAsk(PROBLEM, 4096, names, rounds=5, budget_seconds=1.0)
    request = BenchRequest(str(FIXTURES / file), seed=0)
    machine = Machine("a fake", "2.13.0")
    return _Bench(request, Clock(), machine, "cpu").bench(ask, told.append), told


def by_name(benched: Benched) -> dict[str, TimedContender]:
    return {timed.name: timed for timed in benched.timed}


def test_each_is_made_ready_in_order_and_timed_in_every_round() -> None:
    benched, told = bench(Contender("copy"), Contender("eager"))
    assert told == ["copy", "eager", ""]
    assert benched.rounds == 5
    assert {len(timed.seconds) for timed in benched.timed} == {5}
    eager = by_name(benched)["eager"]
    assert eager.largest_error is not None
    assert eager.largest_error < 1e-5
    assert not eager.wrong
    assert by_name(benched)["copy"].largest_error is None


def test_a_copy_moves_as_many_bytes_as_the_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    sizes: list[int] = []
    real = torch.Tensor.copy_

    def copy_(self: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
        sizes.append(self.nbytes + source.nbytes)
        return real(self, source)

    monkeypatch.setattr(torch.Tensor, "copy_", copy_)
    bench(Contender("copy"))
    assert set(sizes) == {4096}


def test_outputs_outside_tolerance_are_timed_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    family = registry.family(str(FIXTURES / "row_sum.py"))
    plan = family.plan(PROBLEM, targets.get("h100"), None)
    monkeypatch.syspath_prepend(str(FIXTURES))
    row_sum_code = importlib.import_module("row_sum_code")

    def run(problem: object, tensors: dict[str, object], _plan: object) -> dict[str, object]:
        sums = row_sum_code.eager(problem, tensors)["sum"]
        sums[5] += 1
        return {"sum": sums}

    monkeypatch.setattr(row_sum_code, "run", run)
    benched, _ = bench(Contender("ours", plan))
    ours = by_name(benched)["ours"]
    assert re.fullmatch(
        r"outside tolerance in 1 of 8 elements of sum; the worst is off by 1 where \S+ is allowed",
        ours.wrong,
    )
    assert ours.largest_error == pytest.approx(1.0, abs=1e-5)
    assert len(ours.seconds) == 5


def test_outputs_that_are_not_finite_are_told_with_what_was_expected() -> None:
    error = OutputError("y", None, 0.5, "nan", "2", (3,), 4, 70_000)
    assert _describe_outside("y", error) == (
        "outside tolerance in 4 of 70,000 elements of y; the worst is nan, not 2"
    )


def test_who_cannot_do_it_is_left_out_with_the_reason() -> None:
    benched, _ = bench(Contender("eager"), Contender("quack"), Contender("nobody"))
    found = by_name(benched)
    assert found["quack"].error in ("quack is not installed", "quack has no sum")
    assert found["nobody"].error == "there is no contender 'nobody'"
    assert found["quack"].seconds == ()
    assert len(found["eager"].seconds) == 5


def test_inductor_gets_what_eager_does(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    asked: list[tuple[object, object]] = []

    def compile_(step: Callable[..., object], **options: object) -> Callable[..., object]:
        asked.append((options["mode"], options["dynamic"]))
        return step

    monkeypatch.setattr(torch, "compile", compile_)
    benched, _ = bench(*map(Contender, contenders.MODES))
    assert asked == [(None, False), ("max-autotune-no-cudagraphs", False)]
    assert all(not timed.wrong and len(timed.seconds) == 5 for timed in benched.timed)


def test_peers_get_the_familys_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "_list_installed", lambda: ("liger",))
    table = {("liger", "sum"): lambda _p, tensors: lambda: tensors["x"].sum(1)}
    monkeypatch.setattr(peers, "_PEERS", table)
    benched, _ = bench(Contender("liger"))
    assert by_name(benched)["liger"].largest_error is not None
    assert by_name(benched)["liger"].largest_error == pytest.approx(0, abs=1e-5)


def test_peers_are_known_by_operation() -> None:
    assert peers.has_operation("quack", "softmax")
    assert not peers.has_operation("quack", "sum")
    assert replace(PROBLEM, operation="softmax").operation == "softmax"
