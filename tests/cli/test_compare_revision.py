"""``model.py:block@HEAD~1``: whose files are compiled, what is said of it, what is left behind."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from perfcli.fake.executor import FakeExecutor
from perfcli.model import Bundle, CompileRequest
from perfcli.storing import store


def git(*arguments: str, folder: Path | str = ".") -> str:
    own = ["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "protocol.file.allow=always"]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    command = ["git", "-C", str(folder), *own, *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=clean)
    return done.stdout.strip()


def commit(text: str, folder: Path | str = ".") -> str:
    git("add", "--all", folder=folder)
    git("commit", "--quiet", "--message", text, folder=folder)
    return git("rev-parse", "HEAD", folder=folder)


@pytest.fixture
def revisions(perfcli: Any) -> tuple[str, str]:
    """The commits of a repository in which the file ``model.py`` changed once."""
    git("init", "--quiet")
    Path("model.py").write_text("def block(): return 1\n")
    Path(".gitignore").write_text(".perfcli\n")
    first = commit("Begin")
    Path("model.py").write_text("def block(): return 2\n")
    Path("late.py").write_text("def block(): return 3\n")
    return first, commit("Return two")


@pytest.fixture
def texts(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The text of each file that was compiled, by the folder that it was in."""
    seen: dict[str, str] = {}
    compile_ = FakeExecutor.compile

    def watched(
        self: FakeExecutor, requests: Sequence[CompileRequest], progress: Callable[..., None]
    ) -> Iterator[Bundle]:
        for request in requests:
            path = request.scenario.partition(":")[0]
            seen[request.folder] = (Path(request.folder) / path).read_text()
        return compile_(self, requests, progress)

    monkeypatch.setattr(FakeExecutor, "compile", watched)
    return seen


def test_each_side_is_compiled_from_its_own_files(
    perfcli: Any, revisions: tuple[str, str], texts: dict[str, str]
) -> None:
    Path("model.py").write_text("def block(): return 4\n")
    result = perfcli("compare", "model.py:block@HEAD~1", "model.py:block")
    assert result.code == 0
    (folder,) = (each for each in texts if each)
    assert texts == {folder: "def block(): return 1\n", "": "def block(): return 4\n"}
    assert not Path(folder).exists()
    assert git("worktree", "list").count("\n") == 0
    first = revisions[0][:12]
    assert f"model.py:block@HEAD~1: HEAD~1 is {first}" in result.err
    assert "Begin" in result.err
    assert f"model.py:block@{first} → model.py:block" in result.out


def test_a_run_of_a_revision_is_found_again_until_the_name_means_another(
    perfcli: Any, revisions: tuple[str, str], texts: dict[str, str]
) -> None:
    assert perfcli("run", "model.py:block@HEAD").code == 0
    (stored,) = store.runs()
    assert store.read(stored.path).scenario == f"model.py:block@{revisions[1][:12]}"
    texts.clear()
    Path("model.py").write_text("def block(): return 5\n")
    assert "nothing changed since run" in perfcli("run", "model.py:block@HEAD").err
    assert texts == {}
    commit("Return five")
    perfcli("run", "model.py:block@HEAD")
    assert list(texts.values()) == ["def block(): return 5\n"]


def test_a_file_that_is_gone_now_has_revisions(
    perfcli: Any, revisions: tuple[str, str], texts: dict[str, str]
) -> None:
    Path("model.py").unlink()
    commit("Remove it")
    assert perfcli("run", "model.py:block@HEAD~1").code == 0
    assert list(texts.values()) == ["def block(): return 2\n"]


def test_two_revisions_and_a_stored_run(perfcli: Any, revisions: tuple[str, str]) -> None:
    assert perfcli("compare", "model.py:block@HEAD~1", "model.py:block@HEAD").code == 0
    (run, *_) = (each.header.id for each in store.runs())
    result = perfcli("compare", run, "model.py:block@HEAD")
    assert (result.code, "not comparable" in result.err) == (0, False)


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        ("model.py:block@nope", "has no revision 'nope'"),
        ("model.py:block@", "a git revision stands behind the @, model.py:block@HEAD~1"),
        ("late.py:block@HEAD~1", "no late.py in revision HEAD~1: it came later, or had another"),
        ("new.py:block@HEAD", "no new.py in revision HEAD: git does not track it"),
        ("gone.py:block@HEAD", "no gone.py in revision HEAD: nor is it here now"),
        ("../outside.py:block@HEAD", "is in no repository"),
        ("softmax@HEAD", "softmax has no git revisions"),
    ],
)
def test_what_has_no_such_revision(
    perfcli: Any, revisions: tuple[str, str], reference: str, said: str
) -> None:
    Path("new.py").touch()
    result = perfcli("run", reference)
    assert result.code == 2
    assert said in result.complaint
    assert store.runs() == []


@pytest.mark.parametrize("failure", ["interrupt", "user", "killed"])
def test_nothing_is_left_behind(
    perfcli: Any, revisions: tuple[str, str], monkeypatch: pytest.MonkeyPatch, failure: str
) -> None:
    monkeypatch.setenv("PERFCLI_FAKE", f"{failure}:0")
    result = perfcli("compare", "model.py:block@HEAD~1", "model.py:block")
    assert result.code in (2, 130)
    assert git("worktree", "list").count("\n") == 0
    assert "perfcli-revision" not in result.err


def test_a_submodule_has_the_files_of_that_revision(
    perfcli: Any, revisions: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    git("init", "--quiet", folder=other)
    (other / "layer.py").write_text("one\n")
    commit("One", other)
    git("submodule", "--quiet", "add", str(other), "sub")
    commit("Add it")
    Path("sub/layer.py").write_text("two\n")
    commit("Two", "sub")
    commit("Take two")
    seen: list[str] = []
    compile_ = FakeExecutor.compile

    def watched(
        self: FakeExecutor, requests: Sequence[CompileRequest], progress: Callable[..., None]
    ) -> Iterator[Bundle]:
        seen.extend((Path(each.folder) / "sub/layer.py").read_text() for each in requests)
        return compile_(self, requests, progress)

    monkeypatch.setattr(FakeExecutor, "compile", watched)
    assert perfcli("compare", "model.py:block@HEAD~1", "model.py:block@HEAD").code == 0
    assert seen == ["one\n", "two\n"]
    assert perfcli("run", "sub/layer.py:f@HEAD~1").code == 0, "a repository of its own"
