"""perfcli gate --base-rev: what it leaves behind, and whose files the base reads."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from perfcli.fake.executor import FakeExecutor
from perfcli.model import CompileRequest
from perfcli.worker.roles import Compiled


def git(*arguments: str) -> str:
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c", *arguments]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=clean)
    return done.stdout


@pytest.fixture
def repository(perfcli: Any) -> Any:
    Path("perfcli.toml").write_text('[[checks]]\nscenario = "models/model.py:build"\n')
    Path("models").mkdir()
    Path("models/model.py").write_text("def build(): ...\n")
    git("init", "--quiet")
    git("add", ".")
    git("commit", "--quiet", "-m", "first")
    return perfcli


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> list[CompileRequest]:
    """All that were compiled."""
    seen: list[CompileRequest] = []
    compile_ = FakeExecutor.compile

    def watched(
        self: FakeExecutor, requests: Sequence[CompileRequest], progress: Callable[..., None]
    ) -> Iterator[tuple[int, Compiled]]:
        seen.extend(requests)
        assert all(not request.folder or Path(request.folder).is_dir() for request in requests)
        return compile_(self, requests, progress)

    monkeypatch.setattr(FakeExecutor, "compile", watched)
    return seen


def test_other_worktrees_stay_known_though_their_disk_is_away(
    repository: Any, tmp_path: Path
) -> None:
    away = tmp_path.parent / f"{tmp_path.name}-away"
    git("worktree", "add", "--quiet", "--detach", str(away))
    os.rename(away, f"{away}-unmounted")
    assert repository("gate", "--base-rev", "HEAD").code == 0
    assert git("worktree", "list").splitlines()[1].startswith(str(away))
    assert git("worktree", "list").count("\n") == 2  # and ours is gone
    os.rename(f"{away}-unmounted", away)
    assert git("-C", str(away), "status", "--porcelain") == ""


def test_a_worktree_that_a_model_broke_is_forgotten(
    repository: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from perfcli.gate import bases

    def breaking(base: Any, *_: Any) -> Any:
        (base.revision.folder / ".git").unlink()
        raise KeyError("gone")

    monkeypatch.setattr(bases, "_ask_base", breaking)
    assert repository("gate", "--base-rev", "HEAD").code == 2
    assert git("worktree", "list").count("\n") == 1


def test_the_base_runs_in_the_same_folder_of_its_revision(
    repository: Any, requests: list[CompileRequest], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir("models")
    assert repository("gate", "--base-rev", "HEAD").code == 0
    base, head = requests
    assert (Path(base.folder).name, head.folder) == ("models", "")
    assert Path(base.folder) / "model.py" == Path(base.scenario.partition(":")[0])


def test_the_base_runs_in_the_nearest_folder_that_its_revision_has(
    repository: Any, requests: list[CompileRequest], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("new/inner").mkdir(parents=True)
    monkeypatch.chdir("new/inner")
    assert repository("gate", "--base-rev", "HEAD").code == 0
    assert Path(requests[0].folder) / "models" == Path(requests[0].scenario).parent


@pytest.mark.parametrize(
    ("scenario", "head", "folders"),
    [
        ("train.py 8", "../train.py 8", ("other", "")),
        ("-m net.train 8", "-m net.train 8", ("", ".")),
    ],
)
def test_a_script_is_the_one_in_the_configurations_folder(
    repository: Any,
    requests: list[CompileRequest],
    monkeypatch: pytest.MonkeyPatch,
    scenario: str,
    head: str,
    folders: tuple[str, str],
) -> None:
    """From wherever the gate is called; a module runs where Python finds it."""
    Path("perfcli.toml").write_text(f'[[checks]]\nscenario = "{scenario}"\n')
    for folder in ("net", "other"):
        Path(folder).mkdir()
        Path(folder, "__init__.py").touch()
    for script in ("train.py", "net/train.py"):
        Path(script).write_text("if __name__ == '__main__': ...\n")
    git("add", ".")
    git("commit", "--quiet", "-m", "second")
    root = Path.cwd()
    monkeypatch.chdir("other")
    result = repository("gate", "--base-rev", "HEAD")
    assert result.code == 0, result.err
    base, ours = requests
    assert ours.scenario == head
    assert ours.folder == (str(root / folders[1]) if folders[1] else "")
    assert Path(base.folder).name == (folders[0] or root.name)
    assert base.script is not None
    assert base.script.arguments == ("8",)
    assert base.script.path in ("net.train", str(Path(base.folder).parent / "train.py"))


def test_a_module_that_the_base_lacks_is_new(repository: Any) -> None:
    Path("perfcli.toml").write_text('[[checks]]\nscenario = "-m net.train"\n')
    Path("net").mkdir()
    Path("net/train.py").write_text("if __name__ == '__main__': ...\n")
    result = repository("gate", "--base-rev", "HEAD")
    assert "-m net.train@h100 is new: HEAD has no net/train.py" in " ".join(result.out.split())


def test_only_the_head_is_stored(repository: Any) -> None:
    for _ in range(2):
        Path("models/model.py").write_text("def build(): pass  # edited\n")
        assert repository("gate", "--base-rev", "HEAD", "--html", "a.html").code == 0
        (run,) = Path(".perfcli/runs").glob("*.json")
        assert '"scenario":"models/model.py:build"' in run.read_text().splitlines()[0]


def test_a_shipped_scenario_is_the_same_for_both(
    repository: Any, requests: list[CompileRequest]
) -> None:
    Path("perfcli.toml").write_text('[[checks]]\nscenario = "softmax"\n')
    assert repository("gate", "--base-rev", "HEAD").code == 0
    assert [request.folder for request in requests] == [""]  # the head is the stored base


def test_settings_of_git_hold(
    repository: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """``safe.directory`` for one comes in ``GIT_CONFIG_…``; a hook's repository does not count."""
    trace = tmp_path / "trace"
    monkeypatch.setenv("GIT_TRACE", str(trace))
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    assert repository("gate", "--base-rev", "HEAD").code == 0
    assert "worktree" in trace.read_text()


def test_an_internal_error_is_a_fault_of_one_check(
    repository: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from perfcli.gate import run as _gate_run
    from perfcli.gate.judging import judge

    text = Path("perfcli.toml").read_text()
    Path("perfcli.toml").write_text(f'{text}[[checks]]\nscenario = "softmax"\n')

    def failing(comparison: Any, policy: Any) -> Any:
        if comparison.head.scenario == "softmax":
            return judge(comparison, policy)
        raise KeyError("no such\nthing")

    monkeypatch.setattr(_gate_run, "judge", failing)
    result = repository("gate", "--base-rev", "HEAD", "--json", "a.json", "--junit", "a.xml")
    assert result.code == 2
    assert "Traceback" not in result.err
    first, second = json.loads(Path("a.json").read_text())["checks"]
    assert (first["outcome"], second["outcome"]) == ("fault", "pass")
    assert first["fault"].startswith("internal error: KeyError: 'no such\\nthing' (test_gate_rev")
    assert Path("a.xml").read_text().count("<error") == 1
    monkeypatch.setenv("PERFCLI_DEBUG", "1")
    assert "Traceback" in repository("gate", "--base-rev", "HEAD").err


def test_a_repository_that_is_a_package(repository: Any, tmp_path: Path) -> None:
    from perfcli.workflow.revision import Revision

    (tmp_path / "__init__.py").touch()
    worktree = tmp_path.parent / "above" / tmp_path.name
    revision = Revision("main", "abc", tmp_path, worktree)
    assert revision.import_folders([tmp_path / "models" / "model.py", tmp_path / "act.py"]) == [
        *(worktree / "models", worktree.parent),
    ]
