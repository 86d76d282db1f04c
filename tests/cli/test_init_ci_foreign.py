"""perfcli init-ci in a repository with odd names, links and values."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any

import pytest

from perfcli.ci import source
from perfcli.gate import config

CHECK = '[[checks]]\nname = "a"\nscenario = "softmax"\n'
MODEL = "import torch\ndef build():\n    return torch.nn.Linear(1, 1), (1,)\n"


@pytest.fixture(autouse=True)
def installed_from_git(monkeypatch: pytest.MonkeyPatch) -> None:
    """This perfcli came from a git URL, as pip writes it down (PEP 610)."""
    document = {
        "url": "https://example.com/perfcli",
        "vcs_info": {"vcs": "git", "commit_id": "0123abcd", "requested_revision": "v0.1.0"},
    }
    monkeypatch.setattr(source, "_read_direct_url", lambda: document)


def test_a_gpu_measures_the_same_variant(perfcli: Any) -> None:
    more = (
        'dynamic = true\nparams = { rows = 3, dtype = "bfloat16" }\n'
        'options = { "triton.max_tiles" = 2, max_autotune = true, x = [1.5] }\n'
    )
    Path("perfcli.toml").write_text(f"{CHECK}{more}")
    assert perfcli("init-ci", "--github").code == 0
    (ours,) = tomllib.loads(Path("perfcli.toml").read_text())["checks"]
    (gpu,) = tomllib.loads(Path("perfcli-gpu.toml").read_text())["checks"]
    assert gpu == ours


def test_a_date_is_no_parameter(perfcli: Any) -> None:
    Path("perfcli.toml").write_text(f"{CHECK}params = {{ day = 2026-01-31 }}\n")
    result = perfcli("init-ci", "--github")
    assert (result.code, "a check has 2026-01-31" in result.complaint) == (2, True)


@pytest.mark.parametrize("name", ['mo"del', "mo\\del", "mo\x7fdel", "models"])
def test_any_file_name_is_toml(perfcli: Any, name: str) -> None:
    Path(f"{name}.py").write_text(MODEL)
    assert perfcli("init-ci", "--pre-commit").code == 0
    (check,) = config._read(Path("perfcli.toml")).checks
    assert check.scenario == f"{name}.py:build"


@pytest.mark.parametrize("name", ["perfcli.toml", "pyproject.toml", ".pre-commit-config.yaml"])
@pytest.mark.parametrize("exists", [True, False])
def test_nothing_is_written_through_a_link(
    perfcli: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, exists: bool
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    target = tmp_path / "target"
    if exists:
        target.write_text("")
    os.symlink(target, name)
    result = perfcli("init-ci", "--pre-commit")
    if exists:
        assert target.read_text() == ""
        return
    assert not target.exists()
    if name == "perfcli.toml":  # the others need not be written
        assert result.complaint == f"perfcli: can't write {name}: it is a link, a file is expected"


def test_nothing_is_written_through_a_linked_folder(
    perfcli: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work, other = tmp_path / "work", tmp_path / "other"
    for folder in (work, other):
        folder.mkdir()
    monkeypatch.chdir(work)
    os.symlink(other, ".github")
    result = perfcli("init-ci", "--github")
    assert (result.code, "a link leads out of the repository" in result.complaint) == (2, True)
    assert list(other.iterdir()) == []
