"""Whose files a base imports, and where it finds its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from perfcli.errors import PerfcliError
from perfcli.fake.executor import fake_interpreter
from perfcli.workflow.request import Question, Side, make_jobs
from perfcli.workflow.revision import Revision, check_out, look_in


@pytest.fixture
def revision(tmp_path: Path) -> Revision:
    package = tmp_path / "repo" / "src" / "package" / "inner"
    package.mkdir(parents=True)
    for folder in (package, package.parent):
        (folder / "__init__.py").touch()
    (package / "act.py").touch()
    (tmp_path / "repo" / "model.py").touch()
    return Revision("main", "abc", tmp_path / "repo", tmp_path / "worktree")


def test_files_of_the_users_checkout_are_foreign(revision: Revision, tmp_path: Path) -> None:
    inside = revision.root / "src" / "package" / "inner" / "act.py"
    link = tmp_path / "link.py"
    os.symlink(inside, link)
    sources = [str(revision.folder / "model.py"), str(inside), "/usr/lib/x.py", str(link)]
    assert revision.foreign(sources) == [inside, inside]


def test_where_the_revision_has_the_same_packages(revision: Revision) -> None:
    inner = revision.root / "src" / "package" / "inner"
    files = [inner / "act.py", inner / "__init__.py", revision.root / "model.py"]
    assert revision.import_folders(files) == [revision.folder / "src", revision.folder]


def test_a_file_has_its_place_in_the_revision(revision: Revision) -> None:
    assert revision.place(revision.root / "model.py") == revision.folder / "model.py"
    with pytest.raises(PerfcliError, match="is not in the repository"):
        revision.place(Path("/usr/model.py"))


def test_python_looks_in_these_folders_first(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PYTHONPATH", "/own")
    (job,) = make_jobs(Question("softmax", target="h100"), [Side()], fake_interpreter)
    other = look_in(job.request, [tmp_path])
    assert other.variant.env == {"PYTHONPATH": f"{tmp_path}{os.pathsep}/own"}


def test_what_a_killed_gate_left_is_forgotten_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its folder and its entry in ``git worktree list``; a worktree of the user's own stays, though
    its folder is gone: its disk may not be mounted."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    root = tmp_path / "repo"
    root.mkdir()

    def git(*words: str) -> str:
        identity = ("-c", "user.name=a", "-c", "user.email=a@b.c")
        command = ["git", "-C", str(root), *identity, *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    git("init", "-q")
    git("commit", "-q", "--allow-empty", "-m", "one")
    git("worktree", "add", "-q", "--detach", str(tmp_path / "own"))
    shutil.rmtree(tmp_path / "own")
    killed = f"""
import os, signal
from pathlib import Path
from perfcli.workflow.revision import check_out
with check_out("HEAD", Path({str(root)!r})):
    os.kill(os.getpid(), signal.SIGKILL)
"""
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", killed], env=environment, check=False)
    (left,) = tmp_path.glob("perfcli-revision-*")
    assert str(left) in git("worktree", "list")
    with check_out("HEAD", root) as revision:
        assert not left.exists()
        assert str(left) not in git("worktree", "list")
        assert str(revision.folder) in git("worktree", "list")
    assert not list(tmp_path.glob("perfcli-*"))
    assert git("worktree", "list").count("\n") == 2
    assert str(tmp_path / "own") in git("worktree", "list")
