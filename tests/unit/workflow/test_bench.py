"""What to try where a scenario is too large."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from perfcli.loading import registry
from perfcli.workflow.bench import suggest_smaller


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
