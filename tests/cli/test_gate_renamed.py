"""A check whose model's file or function was renamed is held against the baseline as before."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

CONFIG = '[[checks]]\nname = "block"\nscenario = "{}"\n{}'
WORSE = 'options = { "triton.mix_order_reduction_max_reads" = 1000 }\n'


@pytest.fixture
def renamed(perfcli: Any) -> Any:
    Path("model.py").write_text("def build(): ...\n")
    Path("perfcli.toml").write_text(CONFIG.format("model.py:build", ""))
    assert perfcli("baseline", "update", "--reason", "first").code == 0
    Path("model.py").rename("bert.py")
    Path("bert.py").write_text("def make(): ...\n")
    return perfcli


def test_the_same_kernels_pass(renamed: Any) -> None:
    Path("perfcli.toml").write_text(CONFIG.format("bert.py:make", ""))
    result = renamed("gate", "--json", "gate.json")
    assert result.code == 0, result.err
    (check,) = json.loads(Path("gate.json").read_text())["checks"]
    assert {group["relation"] for group in check["comparison"]["groups"]} == {"same"}


def test_worse_ones_fail(renamed: Any) -> None:
    Path("perfcli.toml").write_text(CONFIG.format("bert.py:make", WORSE))
    assert renamed("gate").code == 1
