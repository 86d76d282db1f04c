"""The edits that the gate is tried on, and a few of them through the gate."""

from __future__ import annotations

import ast
import sys
import tomllib
from pathlib import Path
from subprocess import CompletedProcess

import gate_planted
import pytest
from gate_planted import PLANTED, SMOKE, Outcome, main
from gate_planted_edit import REPOSITORY, apply, edit, lay_out
from gate_planted_harmless import HARMLESS

from perfcli.cli import main as perfcli


def test_thirty_of_each_that_apply_and_parse(tmp_path: Path) -> None:
    every = {each.name: each for each in (*PLANTED, *HARMLESS)}
    assert len(PLANTED) >= 30
    assert len(HARMLESS) >= 30
    assert len(every) == len(PLANTED) + len(HARMLESS), "names are different"
    assert set(SMOKE) <= set(every)
    assert all(each.metric for each in PLANTED)
    for each in every.values():
        lay_out(tmp_path)
        before = _texts(tmp_path)
        apply(each, tmp_path)
        assert _texts(tmp_path) != before, each.name
        for path in tmp_path.rglob("*.py"):
            ast.parse(path.read_text(), str(path))
        tomllib.loads((tmp_path / "pyproject.toml").read_text())


def _texts(folder: Path) -> dict[str, str]:
    return {str(p.relative_to(folder)): p.read_text() for p in folder.rglob("*.*") if p.is_file()}


def test_a_text_that_is_not_there_once() -> None:
    twice = edit("twice", "", "", "model.py", "import", "from")
    with pytest.raises(ValueError, match=r"model\.py has 'import'"):
        apply(twice, REPOSITORY)


@pytest.mark.torch
@pytest.mark.usefixtures("warm_workers")
def test_two_planted_are_caught_and_two_harmless_pass(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def run_here(folder: Path, *arguments: str) -> CompletedProcess[str]:
        before = capsys.readouterr()
        with monkeypatch.context() as patch:
            patch.chdir(folder)
            code = perfcli(arguments)
        out, err = capsys.readouterr()
        sys.stdout.write(before.out)
        return CompletedProcess(arguments, code, out, err)

    monkeypatch.setattr(gate_planted, "perfcli", run_here)
    names = ["no-online-softmax", "new-token", "rename-function", "extract-function"]
    code = main(["--folder", str(tmp_path), "--checks", "sampler", "--only", *names])
    said = capsys.readouterr().out
    assert code == 0, said
    assert "2 of 2 planted regressions caught\n0 of 2 harmless edits failed\n" in said


def test_what_is_not_worse_is_not_caught() -> None:
    """The gate's own opinion is not enough: the number that an edit is said to worsen has to."""
    bytes_moved = edit("x", "", "bytes_moved", "model.py")
    assert Outcome(bytes_moved, 1, 0.0, (), 10.0, 11.0).right
    assert not Outcome(bytes_moved, 1, 0.0, (), 10.0, 10.0).right
    assert not Outcome(bytes_moved, 0, 0.0, (), 10.0, 11.0).right
    assert not Outcome(bytes_moved, 2, 0.0).right
    assert Outcome(edit("x", "", "load_bits", "model.py"), 1, 0.0, (), 128.0, 16.0).right
    assert not Outcome(edit("x", "", "", "model.py"), 4, 0.0).right
