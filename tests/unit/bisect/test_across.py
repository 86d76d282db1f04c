"""What the good one of two torch installations itself has."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from perfcli.bisect import across
from perfcli.bisect.forge import Forge
from perfcli.bisect.knowledge import Knowledge
from perfcli.bisect.metrics import METRICS
from perfcli.bisect.sides import SearchScope
from perfcli.bisect.space import Installations, Settings, Space
from perfcli.fake.executor import FakeGenerator
from perfcli.machine import targets
from perfcli.model import CompileRequest, Variant

SPACE = Space((), {}, {})
ESTIMATED, MEASURED = 4e9, 5e9


def request(python: str) -> CompileRequest:
    variant = Variant("", {"online_softmax": False}, {}, python)
    return CompileRequest("x", {"layers": 1}, None, variant, "cuda", targets.get("h100"))


def good_value(setting: object) -> float:
    jobs = [
        SimpleNamespace(request=request(python), interpreter=SimpleNamespace(torch=python))
        for python in ("old", "new")
    ]
    plan = SimpleNamespace(jobs=jobs, installations=Installations(SPACE))
    metric = METRICS["peak-memory"]
    asked = SimpleNamespace(plan=plan, metric=metric, setting=setting, context=None)
    forge = Forge(FakeGenerator(), jobs[1].request, SPACE, metric, Knowledge())
    found = across._across_of(cast(SearchScope, asked), forge)
    assert found is not None
    return found.good_value


class Stopwatch:
    """Measures the good side on its own torch, and nothing else."""

    @classmethod
    def of(cls, forge: Forge, setting: object, job: Any, context: object) -> Stopwatch:
        assert forge.request.variant.python == job.request.variant.python == "old"
        return cls()

    def memory(self, settings: Settings) -> float:
        assert settings == {"online_softmax": False}
        return MEASURED

    def close(self) -> None:
        """There is nothing to close."""


def test_where_the_bad_side_is_measured_so_is_the_good_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(across, "Stopwatch", Stopwatch)
    assert good_value(setting=object()) == MEASURED
    assert good_value(setting=None) == ESTIMATED
