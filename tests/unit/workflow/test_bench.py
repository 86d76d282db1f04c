"""Workers that are started ahead, and what to try where a scenario is too large."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from perfcli.loading import registry
from perfcli.model import MeasureRequest, Prepared, Turn
from perfcli.workflow import bench
from perfcli.workflow.bench import Bench, suggest_smaller


def too_large(
    monkeypatch: pytest.MonkeyPatch, presets: Mapping[str, Any], parameters: Mapping[str, Any]
) -> str:
    made = SimpleNamespace(
        presets=presets,
        parameters={name: SimpleNamespace(default=value) for name, value in parameters.items()},
    )
    monkeypatch.setattr(registry, "scenario", lambda _: made)
    compiled: Any = SimpleNamespace(scenario="softmax", params=parameters)
    asked: Any = SimpleNamespace(compile=compiled)
    return suggest_smaller(asked)


def test_presets_and_sizes_are_suggested(monkeypatch: pytest.MonkeyPatch) -> None:
    told = too_large(monkeypatch, {"full": {}, "smoke": {}}, {"rows": 8, "dtype": "bfloat16"})
    assert told == "try --preset smoke or less than -p rows=8"


def test_a_scenario_without_anything_smaller_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    told = too_large(monkeypatch, {"full": {}}, {"dtype": "bfloat16", "fused": True})
    assert told == "softmax declares nothing smaller to try"


# --- workers that are started ahead ------------------------------------------------------------


class Worker:
    def __init__(self, request: MeasureRequest, told: Any) -> None:
        self.request, self.told, self.closed = request, told, False

    def is_prepared(self) -> bool:
        return False

    def prepare(self) -> Prepared:
        self.told("trace")
        raise NotImplementedError

    def turn(self, ask: Any) -> Turn:
        raise NotImplementedError

    def kill(self) -> None:
        raise NotImplementedError

    def close(self) -> None:
        self.closed = True


def order(side: Any, scenario: str = "softmax") -> MeasureRequest:
    compiled: Any = SimpleNamespace(scenario=scenario)
    return MeasureRequest(compiled, side, 7)


def test_a_worker_that_was_started_ahead_is_taken_once() -> None:
    made: list[Worker] = []

    def start(request: MeasureRequest, told: Any) -> Worker:
        made.append(Worker(request, told))
        return made[-1]

    place = Bench(start)
    place.start_ahead([order("base"), order("head")])
    while len(made) < 2:
        time.sleep(0.001)
    told: list[str] = []
    taken = place.start(order("base"), told.append)
    assert taken is made[0]
    with pytest.raises(NotImplementedError):
        taken.prepare()
    assert told == ["trace"]
    assert place.start(order("base"), told.append) is made[2]  # a fresh one, to alternate
    place.close()
    assert [worker.closed for worker in made] == [False, True, False]


def test_one_that_was_started_for_something_else_is_closed() -> None:
    made: list[Worker] = []

    def start(request: MeasureRequest, told: Any) -> Worker:
        made.append(Worker(request, told))
        return made[-1]

    place = Bench(start)
    place.start_ahead([order("base", "rmsnorm")])
    assert place.start(order("base"), lambda _: None) is made[1]
    assert made[0].closed


@pytest.mark.parametrize(
    ("cores", "fake", "why"), [(2, None, ""), (8, object(), ""), (8, None, "x")]
)
def test_nothing_is_started_ahead_where_it_would_not_help(
    cores: int, fake: Any, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(cores))
    monkeypatch.setattr(bench, "why_not", lambda *_: why)
    setting: Any = SimpleNamespace(fake=fake)
    context: Any = None
    assert bench.open_ahead(setting, [], context) is None
