"""The user's files travel by their content, and what is compiled of them says nothing of where."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from handmade import H100

from perfcli.cluster import parcel
from perfcli.cluster.parcel import address, find_root, pack, settle, unpack
from perfcli.errors import PerfcliError
from perfcli.model import CompileRequest, ScriptCommand, Variant

REQUEST = CompileRequest("models/net.py:build", {}, None, Variant("v"), "cuda", H100)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with an ignored file; the current folder is below its root."""
    root = tmp_path / "project"
    (root / "sub" / "models").mkdir(parents=True)
    (root / "sub" / "models" / "net.py").write_text("def build(): return 1\n")
    (root / "config.yaml").write_text("n: 1\n")
    (root / "weights.bin").write_text("large")
    (root / ".gitignore").write_text("*.bin\n")
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    monkeypatch.chdir(root / "sub")
    return root


def list_files(folder: Path) -> list[str]:
    return sorted(str(each.relative_to(folder)) for each in folder.rglob("*") if each.is_file())


def test_a_repository_without_what_git_ignores(project: Path, tmp_path: Path) -> None:
    root = find_root(Path("models/net.py"))
    assert root == project
    packed = pack(root)
    place = unpack(packed.sha, packed.archive, tmp_path / "cache")
    assert list_files(place) == [".gitignore", "config.yaml", "sub/models/net.py"]
    again = unpack(packed.sha, packed.archive, tmp_path / "cache")
    assert (again, len(list(place.parent.iterdir()))) == (place, 1)


def test_it_is_named_by_its_content(project: Path) -> None:
    first = pack(project)
    assert pack(project) == first
    (project / "config.yaml").touch()
    assert pack(project) == first
    (project / "config.yaml").write_text("n: 2\n")
    assert pack(project).sha != first.sha


def test_without_a_repository_environments_and_caches_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("model.py", ".venv/x.py", "env/pyvenv.cfg", "env/y.py", "__pycache__/m.pyc"):
        (tmp_path / "p" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "p" / name).write_text("1\n")
    monkeypatch.chdir(tmp_path / "p")
    packed = pack(find_root(Path("model.py")))
    assert list_files(unpack(packed.sha, packed.archive, tmp_path / "cache")) == ["model.py"]


def test_too_much_is_refused(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parcel, "MOST_BYTES", 10)
    with pytest.raises(PerfcliError, match=r"holds more than 10 B.*\.gitignore"):
        pack(project)


def test_a_request_is_settled_where_the_files_lie(project: Path) -> None:
    packed, place = pack(project), Path("/there/x")
    sent = address(REQUEST, packed)
    assert str(project) not in sent.scenario + sent.folder
    settled = settle(sent, packed.sha, place)
    assert settled.scenario == "/there/x/sub/models/net.py:build"
    assert settled.folder == "/there/x/sub"
    script = ScriptCommand("models/net.py", False, ("--lr", "1"))
    asked = replace(REQUEST, scenario="python models/net.py --lr 1", script=script)
    settled = settle(address(asked, packed), packed.sha, place)
    assert settled.script == replace(script, path="/there/x/sub/models/net.py")
