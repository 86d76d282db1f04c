"""Which files of perfcli decide what a run holds."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import perfcli
from perfcli.machine import targets
from perfcli.machine.environment import Interpreter
from perfcli.machine.own_code import list_code
from perfcli.model import CompileRequest, Variant
from perfcli.predict.calibration import encode_calibration, shipped
from perfcli.predict.calibration_files import VARIABLE
from perfcli.workflow.fingerprint import make_job

ROOM = Path(perfcli.__file__).parent


def test_what_a_worker_reads_decides_and_what_only_reports_does_not() -> None:
    found = set(list_code())
    assert ROOM / "predict" / "operators.py" in found
    assert ROOM / "predict" / "padding.py" in found
    assert ROOM / "data" / "calibrations" / "h200.json" not in found  # estimates are made later
    assert ROOM / "stats" / "timing.py" not in found
    assert ROOM / "calibrate" / "fit.py" not in found


def test_other_times_of_operators_make_other_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker decides by them what it pads; other constants of kernels change no run."""
    monkeypatch.setenv("PERFCLI_CONFIG_DIR", str(tmp_path / "config"))
    monkeypatch.setenv(VARIABLE, "")
    python = Interpreter("/x", "3.12.3", "2.11.0", Path("/t"), "3.6.0", None, None, "0" * 64)
    request = CompileRequest("softmax", {}, None, Variant(""), "cuda", targets.get("h200"))
    known = shipped()["h200"]
    plain = json.loads(known.operators)
    plain["host_micros"]["step"] = 1.0
    others = {
        "constants": replace(known, constants={**known.constants, "launch": 9.0}),
        "operators": replace(known, operators=json.dumps(plain).encode()),
    }
    before = make_job(request, python).fingerprint
    found = {}
    for name, calibration in others.items():
        path = tmp_path / f"{name}.json"
        path.write_bytes(encode_calibration(calibration))
        monkeypatch.setenv(VARIABLE, str(path))
        found[name] = make_job(request, python).fingerprint
    assert found["constants"] == before
    assert found["operators"] != before


def test_which_gpus_are_visible_matters_only_where_one_is_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    python = Interpreter("/x", "3.12.3", "2.11.0", Path("/t"), "3.6.0", None, None, "0" * 64)
    offline = CompileRequest("softmax", {}, None, Variant(""), "cuda", targets.get("h200"))
    on_device = replace(offline, on_device=True)

    def fingerprints(visible: str) -> list[str]:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        return [make_job(request, python).fingerprint for request in (offline, on_device)]

    first, second = fingerprints("0"), fingerprints("1")
    assert first[0] == second[0]
    assert first[1] != second[1]
