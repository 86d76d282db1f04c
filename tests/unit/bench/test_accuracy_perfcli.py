from __future__ import annotations

import json
from pathlib import Path

import pytest
from accuracy_perfcli import command, said
from accuracy_records import Campaign, Pair
from typer.testing import CliRunner

from perfcli.cli import application

CAMPAIGN = Campaign("softmax", ("rows=4",), "smoke", 3.0, 20.0, seed=1, load="half")


def test_what_perfcli_noise_writes_is_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PERFCLI_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("PERFCLI_FAKE", "1;noise=0.002")
    ended = CliRunner().invoke(application(), command(CAMPAIGN, Pair(0, 7, loaded=False)))
    found = said(json.loads(ended.stdout))
    assert found["verdict"] == "slower"
    assert found["low"] < 1.03 < found["high"]
    assert found["rounds"] > 0
    assert 0 < found["floor"] < 0.03


def test_a_document_without_a_pair_is_no_result() -> None:
    with pytest.raises(LookupError):
        said({"pairs": [], "used_floor": None})


def test_a_path_is_found_from_another_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.py").touch()
    campaign = Campaign("model.py:block", (), "smoke", 0.0, 20.0, seed=1, load="half")
    typed = command(campaign, Pair(0, 7, loaded=False))
    assert typed[1] == f"{tmp_path / 'model.py'}:block"
    assert "--slow-head" not in typed
