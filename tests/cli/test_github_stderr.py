"""GitHub Actions reads workflow commands from stderr as well: a user's text is none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from perfcli.console.notes import Notes, guard_commands
from perfcli.errors import UserCodeFailed
from perfcli.fake import executor

DETAIL = "Traceback:\n::error file=a.py::mine\n  ::add-mask::a\n##[error]old\nend"


@pytest.mark.parametrize("command", ["gate", "compare"])
@pytest.mark.parametrize("is_github", [True, False])
def test_a_traceback_gives_no_workflow_command(
    perfcli: Any, monkeypatch: pytest.MonkeyPatch, command: str, is_github: bool
) -> None:
    Path("perfcli.toml").write_text('[[checks]]\nscenario = "softmax"\n')
    perfcli("baseline", "update", "--reason", "first")
    failure = UserCodeFailed("model raised", DETAIL)
    monkeypatch.setattr(executor, "_failure", lambda *_: failure)
    monkeypatch.setenv("PERFCLI_FAKE", "user:all")
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    if is_github:
        monkeypatch.setenv("GITHUB_ACTIONS", "true")
    more = ["softmax", "-b", "max_autotune=1"] if command == "compare" else []
    err = perfcli(command, *more, "--fresh").err
    commands = [line for line in err.splitlines() if line.lstrip().startswith(("::", "##["))]
    assert (len(commands), "::error file=a.py::mine" in err) == (0 if is_github else 3, True)


def test_a_remark_of_ones_own_is_as_it_was(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    assert guard_commands("a\n  b :: c") == "a\n  b :: c"
    Notes(False).say("\n::group::x")
    assert capsys.readouterr().err == "\n| ::group::x\n"
