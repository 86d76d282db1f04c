"""What a gate warns of, which day it is, and a baseline of another build."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from perfcli.gate.baseline.update import Update
from perfcli.gate.request import GateRequest, iso, today

CONFIG = """
[kernels."triton_*"]
registers = 255
[kernels."triton_of_nobody*"]
registers = 128
loads = "+0"
[[checks]]
name = "norm"
scenario = "rmsnorm"
kernels."*_gone".spilled_words = 0
[[checks]]
scenario = "softmax"
"""
BASELINE = Path("perfcli-baseline.toml")


@pytest.fixture
def gated(perfcli: Any) -> Any:
    Path("perfcli.toml").write_text(CONFIG, encoding="utf-8")
    assert perfcli("baseline", "update", "--reason", "first").code == 0
    return perfcli


def test_a_pattern_of_no_kernel_is_warned_of_once(gated: Any) -> None:
    result = gated("gate")
    assert result.code == 0
    lines = [line for line in (result.out + result.err).splitlines() if "hold nothing" in line]
    said = [" ".join(line.split()) for line in lines]
    assert [line[line.index("the limits") :] for line in said] == [
        'the limits of kernels."triton_of_nobody*" hold nothing: no kernel of norm@h100, '
        "softmax@h100 is called so",
        'the limits of kernels."*_gone" hold nothing: no kernel of norm@h100 is called so',
    ]
    some = gated("gate", "norm")
    assert "hold nothing" not in some.out + some.err  # another check may have such kernels


def test_a_baseline_of_another_commits_build_is_another_torch(gated: Any) -> None:
    text = BASELINE.read_text().replace('torch = "2.13.0"', 'torch = "2.13.0+gitaaaa"')
    BASELINE.write_text(text)
    result = gated("gate", "norm")
    assert result.code == 4
    assert "torch 2.13.0+gitaaaa instead of 2.13.0" in result.out


@pytest.fixture(params=["XXX-14", "XXX+12"])
def far_away(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """In one of the two it is another day than in UTC, whatever time it is."""
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("far_away")
def test_a_day_is_that_of_utc() -> None:
    before = datetime.now(UTC).date()
    assert before <= today() <= datetime.now(UTC).date()
    for made in (GateRequest, Update):
        (field,) = (each for each in fields(made) if each.name == "today")
        assert callable(field.default_factory)
        assert field.default_factory() in (before.isoformat(), iso())
