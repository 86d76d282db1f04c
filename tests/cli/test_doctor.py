from __future__ import annotations

import csv
import io
import json
import os
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from perfcli import checks
from perfcli.cli import main
from perfcli.compile.stand_in import shim
from perfcli.errors import PerfcliError
from perfcli.machine import driver, environment, targets
from perfcli.machine.environment import Interpreter


def program(path: Path, output: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\ncat <<'END'\n{output}\nEND\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Interpreter:
    """A machine with all that perfcli needs, no GPU, and nothing of the real one."""
    triton = tmp_path / "triton"
    for tool in checks.TOOLS:
        path = triton / "backends" / "nvidia" / "bin" / tool
        program(path, f"{tool}: NVIDIA (R) tool\nCuda compilation tools, release 12.8, V12.8.93")
    found = environment.Interpreter(
        "/x/python", "3.11.9", "2.13.0+cpu", tmp_path / "torch", "3.7.1", triton, None, "0" * 64
    )
    monkeypatch.setattr(environment, "probe", lambda python, needs_triton: found)
    monkeypatch.setattr(targets, "has_gpu", lambda: False)
    monkeypatch.setenv("CXX", str(program(tmp_path / "cxx", "g++ (Some) 12.2.0")))
    monkeypatch.setenv("PERFCLI_CACHE_DIR", str(tmp_path / "cache"))
    for name in environment.relevant_variables(dict(os.environ)):
        if name != "CXX":
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(environment, "available_memory", lambda meminfo: 8_000_000_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: FakeUsage(50e9))
    return found


@dataclass(frozen=True)
class FakeUsage:
    free: float


def statuses(python: str | None = None) -> dict[str, checks._Check]:
    return {c.name: c for c in checks.examine(python, os.environ)}


def test_all_is_well(machine: Interpreter, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert "ok       torch         2.13.0+cpu, CPU build, tested\n" in out
    assert "ok       ptxas         12.8, V12.8.93\n" in out
    assert "g++ (Some) 12.2.0" in out
    assert "there is none: with --target everything works" in out
    assert out.endswith("0 problems, 0 warnings\n")
    assert "\x1b" not in out


def test_the_checks_as_a_table(
    machine: Interpreter, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert main(["doctor", "--csv", "-"]) == 2
    printed = capsys.readouterr()
    rows = {row["name"]: row for row in csv.DictReader(io.StringIO(printed.out))}
    assert rows["python"]["found"] == "3.11.9 (/x/python)"
    assert (rows["C++ compiler"]["status"], rows["disk"]["status"]) == ("failed", "ok")
    assert rows["C++ compiler"]["advice"] != ""
    assert "1 problem" in printed.err


def test_json(machine: Interpreter, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--json", "-"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["ok"] is True
    assert document["checks"][0] == {
        "name": "python",
        "status": "ok",
        "found": "3.11.9 (/x/python)",
        "advice": "",
    }


def test_no_torch_is_a_problem_and_the_rest_is_still_checked(
    machine: Interpreter, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def nothing(python: str | None, needs_triton: bool) -> None:
        raise PerfcliError("/x/python has no torch: install one there")

    monkeypatch.setattr(environment, "probe", nothing)
    assert main(["doctor"]) == 2
    out = capsys.readouterr().out
    assert "failed   torch         /x/python has no torch\n" in out
    assert "→ install one there\n" in out
    assert "ok       memory        8 GB available\n" in out
    assert out.endswith("1 problem, 0 warnings\n")


def test_an_untested_torch_is_a_warning(machine: Interpreter) -> None:
    check = checks._check_torch(replace(machine, torch="2.99.0", cuda="13.0"))
    assert (check.status, check.found) == ("warning", "2.99.0, CUDA 13.0 build")
    assert "knows 2.11 to 2.15" in check.advice


def test_missing_triton_and_tools(machine: Interpreter) -> None:
    assert checks._check_triton(replace(machine, triton=None, triton_dir=None)).status == "failed"
    assert machine.tools is not None
    (machine.tools / "ptxas").unlink()
    program(machine.tools / "nvdisasm", "").chmod(0o644)
    assert statuses()["ptxas"].status == "failed"
    assert "does not run" in statuses()["nvdisasm"].found
    assert main(["doctor"]) == 2


def test_no_compiler_matters_until_the_shim_is_built(
    machine: Interpreter, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CXX", str(tmp_path / "nothing"))
    assert statuses()["C++ compiler"].status == "failed"
    assert "apt-get install g++" in statuses()["C++ compiler"].advice
    library = shim.library_path(
        shim.TorchInstallation(machine.torch_dir, machine.torch), tmp_path / "cache"
    )
    library.parent.mkdir(parents=True)
    library.touch()
    assert statuses()["C++ compiler"].status == "warning"
    assert statuses()["device shim"].found == f"built ({library})"


def test_folders(machine: Interpreter, tmp_path: Path) -> None:
    assert statuses()["cache folder"].found == f"{tmp_path / 'cache'} (not made yet)"
    (tmp_path / "cache" / "deep").mkdir(parents=True)
    (tmp_path / "cache" / "deep" / "file").write_bytes(b"x" * 1500)
    assert statuses()["cache folder"].found == f"{tmp_path / 'cache'}, 1.5 kB"
    refused = checks._check_folder("cache folder", Path("/proc/perfcli"), "set X")
    assert (refused.status, refused.advice) == ("failed", "set X")
    assert "can't be written" in refused.found


def test_disk_memory_and_variables(machine: Interpreter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: FakeUsage(1e9))
    monkeypatch.setattr(environment, "available_memory", lambda meminfo: 1_000_000_000)
    monkeypatch.setenv("TORCHINDUCTOR_MAX_AUTOTUNE", "1")
    found = statuses()
    assert (found["disk"].status, found["memory"].status) == ("warning", "warning")
    assert found["variable"].found == "TORCHINDUCTOR_MAX_AUTOTUNE is set"
    monkeypatch.setattr(shutil, "disk_usage", lambda path: FakeUsage(1e6))
    assert statuses()["disk"].status == "failed"


def test_available_memory_is_read_in_bytes(tmp_path: Path) -> None:
    path = tmp_path / "meminfo"
    path.write_text("MemTotal:       32000000 kB\nMemAvailable:    1000 kB\n")
    assert environment.available_memory(path) == 1_024_000
    assert environment.available_memory(tmp_path / "none") is None


def test_a_gpu_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(targets, "has_gpu", lambda: True)
    monkeypatch.setattr(targets, "this_gpu", lambda: targets.get("h200"))
    monkeypatch.setattr(driver, "driver_version", lambda: "580.1")
    assert checks._check_gpu().found == "NVIDIA H200 (sm_90), driver 580.1"
