"""The simulation of two clocks, and the bench that measures them, with the simulation's workers."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[3] / "bench"))

import two_clocks_models
import two_clocks_on_device
from two_clocks import CASES, Machinery, Worker, measure_pair, write_table
from two_clocks_on_device import Bench, main, write_summary

from perfcli.model import MeasureRequest, Prepared, Turn

WAITING = "two layers, 2.1 of 5.4 ms"


def test_a_percent_of_device_time_is_found_though_the_step_waits() -> None:
    found = [measure_pair(CASES[WAITING], planted, 20.0, 5) for planted in (0.0, 0.01)]
    assert [each["device"] for each in found] == ["same", "slower"]
    assert [each["verdict"] for each in found] == ["same", "slower"]
    assert all(each["seconds"] < 20.0 for each in found)
    assert all(each["error"] < 0.003 for each in found)


class Made:
    """A worker of the simulation, of which a planted one takes 3 % longer."""

    def __init__(self, request: MeasureRequest) -> None:
        planted = 0.03 if request.compile.params["extra"] else 0.0
        place = Machinery(CASES["a block, 4.3 ms"], planted, np.random.default_rng(request.seed))
        self.worker = Worker(place, request.side)

    def prepare(self) -> Prepared:
        from dataclasses import replace

        return replace(self.worker.prepare(), copy_bandwidth=4e12)

    def turn(self, ask: Any) -> Turn:
        return self.worker.turn(ask)

    def close(self) -> None:
        pass


def test_batches_follow_each_other_and_every_pair_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        two_clocks_on_device, "Starter", lambda *_: lambda request, told: Made(request)
    )
    monkeypatch.setattr(two_clocks_on_device, "GETTING_READY", 0.0)
    path = tmp_path / "found.json"

    def monotonic() -> float:
        """The seconds are spent once a batch is written, however long that takes."""
        written = json.loads(path.read_text())["pairs"] if path.exists() else []
        return 1e9 if len(written) >= 6 else 0.0

    monkeypatch.setattr(two_clocks_on_device, "time", SimpleNamespace(monotonic=monotonic))
    names = ["--names", "softmax", "gnn"]
    given = ["--seconds", "2", "--budget", "0.2", *names, "--out", str(path)]
    monkeypatch.setattr(sys, "argv", ["bench", *given])
    main()
    document = json.loads(path.read_text())
    first = [(pair["name"], pair["planted"]) for pair in document["pairs"]]
    assert first == [("softmax", 0), ("gnn", 0), *[("softmax", 0.03)] * 2, *[("gnn", 0.03)] * 2]
    ratios = {pair["planted"]: pair["device"]["ratio"] for pair in document["pairs"]}
    assert ratios[0.03] / ratios[0] == pytest.approx(1.03, abs=0.01)
    # 3 % of 4.3 ms at 4 TB/s, of a kernel that reads and writes each float
    extra = {side["extra"] for side in document["sides"] if side["planted"]}
    assert all(size == pytest.approx(0.03 * 4.3e-3 * 4e12 / 8, rel=0.02) for size in extra)
    assert "planted 3 %, busy, device:" in capsys.readouterr().out
    assert Bench(tmp_path, 1.0, [0.03]).pairs == []
    assert any("waiting, verdict" in line for line in write_summary(document["pairs"]))


def test_the_table_has_a_row_for_each_case() -> None:
    words = dict.fromkeys(("slower", "faster", "same", "unsure"), 0.25)
    row = {"case": "a", "planted": 0.01, "device": words, "step": words, "verdict": words}
    row |= {"seconds, median": 2.0, "half width, median": 0.001}
    assert list(write_table([row]))[-1].startswith("| a | +1 % | 25 | 25 | 25 | 25 | 25 |")


@pytest.mark.torch
@pytest.mark.parametrize("name", ["tiny", "gnn"])
def test_a_planted_kernel_changes_no_output(name: str) -> None:
    torch = pytest.importorskip("torch")
    outputs = []
    for extra in (0, 1024):
        torch.manual_seed(1)
        made = two_clocks_models.build(name, extra)
        outputs.append(made.call(*made.inputs))
    assert torch.equal(*outputs)
