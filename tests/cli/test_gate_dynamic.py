"""``mark_dynamic`` against a baseline of one size, compiled for real."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

MODEL = """import torch


def squares(x):
    return x.square().mean(0)


def scenario():
    x = torch.randn(32, 4096)
    return squares, (x,)
"""
CONFIGURATION = """targets = ["h100"]

[[checks]]
scenario = "model.py:scenario"
"""


@pytest.mark.torch
def test_a_reduction_that_loops_for_any_batch_fails(perfcli: Any, warm_workers: None) -> None:
    """Its kernel is told by its operators, whose sizes are symbols now. The estimated step can't
    be told, because so short a one waits for its host; without a limit on that, the count of loads
    that moved into the loop fails it."""
    Path("perfcli.toml").write_text(CONFIGURATION)
    model = Path("model.py")
    model.write_text(MODEL)
    assert perfcli("baseline", "update", "--reason", "first").code == 0
    dynamic = "    torch._dynamo.mark_dynamic(x, 0)\n    return squares"
    model.write_text(MODEL.replace("    return squares", dynamic))
    result = perfcli("gate", "--json", "gate.json")
    assert (result.code, "1 unsure" in result.out) == (0, True), result.err
    (check,) = json.loads(Path("gate.json").read_text())["checks"]
    kinds = {
        (group["relation"], group["base"][0]["kind"], group["head"][0]["kind"])
        for group in check["comparison"]["groups"]
    }
    assert kinds == {("changed", "persistent-reduction", "reduction")}
    assert check["reason"].startswith("estimated step ")
    assert "+56 % [0, +126]" in check["reason"]  # as many launches as before
    Path("perfcli.toml").write_text(CONFIGURATION + 'limits = { step_time = "any" }\n')
    assert perfcli("gate", "--json", "gate.json").code == 1
    (check,) = json.loads(Path("gate.json").read_text())["checks"]
    assert "loads in loops 0 → 1, at most +0" in check["reason"]
    assert "now loops over what it held at once" in check["reason"]
