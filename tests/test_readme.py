"""README.md does what it shows: its commands run, its Python is executed, its outputs are true."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from perfcli.cli import main

ROOT = Path(__file__).parents[1]
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", (ROOT / "README.md").read_text(), re.M | re.S)
PYTHON = [text for language, text in BLOCKS if language == "python"]
CONSOLE = [text for language, text in BLOCKS if language == "console"]
MODEL, PYTEST, LIBRARY = PYTHON
MOST_LINES = 180
# Needs what no test has: a GPU, a second installation of torch, the runs of another day.
ELSEWHERE = re.compile(r"--device cuda|\.venv-|\b\d{6}-\d{6}\b")


def shown() -> Iterator[tuple[str, str]]:
    """Yield each perfcli command that the README shows, with the output below it."""
    for block in CONSOLE:
        for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
            line, _, output = part.partition("\n")
            if "perfcli" in line:
                yield line, output


SHOWN = dict(shown())


class Shell:
    """Runs the README's lines in this process: ``$(perfcli …)``, variables, nothing more."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys
        self.variables: dict[str, str] = {}
        self.code = 0

    def run(self, line: str) -> str:
        name, assigned, value = line.partition("=$(")
        if assigned and name.isidentifier():
            self.variables[name] = self.run(value.removesuffix(")")).strip()
            return ""
        line = re.sub(r"\$\((perfcli [^)]*)\)", lambda inner: self.run(inner[1]).strip(), line)
        line = re.sub(r"\$(\w+)", lambda variable: self.variables[variable[1]], line)
        program, *arguments = shlex.split(line)
        assert program == "perfcli"
        self.code = main(arguments)
        out, err = self.capsys.readouterr()
        assert self.code in (0, 1), f"{line}\n{err}"
        return out


@pytest.fixture
def shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Shell:
    """A shell in a repository that holds the README's model and a script."""
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "train.py").write_text("if __name__ == '__main__':\n    pass\n")
    who = ["-c", "user.name=x", "-c", "user.email=x@x"]
    for command in (["init", "-q"], ["add", "."], [*who, "commit", "-qm", "first"]):
        subprocess.run(["git", "-C", str(tmp_path), *command], check=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    for name in ("PERFCLI_DEBUG", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    return Shell(capsys)


def test_it_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= MOST_LINES


@pytest.mark.parametrize("block", CONSOLE)
def test_its_commands_run(block: str, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERFCLI_FAKE", "1")
    for line in re.findall(r"^\$ (.*perfcli.*)$", block, re.M):
        if not ELSEWHERE.search(line) and not line.startswith("make"):
            shell.run(line)


def test_make_has_its_targets() -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M)
    asked = re.findall(r"^\$ make (\S+)", "".join(CONSOLE), re.M)
    assert {"demo", "test"} <= set(asked) <= set(targets)


def test_the_options_that_came_between_two_releases(shell: Shell) -> None:
    line = "perfcli knobs mix_order --diff 2.11 2.13"
    assert shell.run(line) == SHOWN[line]


def test_the_picture_shows_what_the_demo_prints() -> None:
    """docs/report.svg, docs/demo.md and the Makefile are about the same comparison."""
    demo = (ROOT / "docs" / "demo.md").read_text()
    command, *lines = demo.partition("```console\n$ ")[2].splitlines()
    drawing = (ROOT / "docs" / "report.svg").read_text().replace("&#160;", " ")
    drawn = "".join(re.findall(r">([^<>]+)</text>", drawing))
    assert [word for line in lines[:4] for word in line.split() if word not in drawn] == []
    made = re.search(
        r"perfcli compare (gqa-transformer .*) --target", (ROOT / "Makefile").read_text()
    )
    assert made
    assert made[1] in command


def test_the_exit_codes_are_those_of_compare() -> None:
    from perfcli.console.output import EXIT_CODES
    from perfcli.errors import Interrupted, NotComparable, PerfcliError

    table = (ROOT / "README.md").read_text().partition("## Exit codes")[2].partition("\n## ")[0]
    listed = {int(code) for code in re.findall(r"^\| (\d+) \|", table, re.M)}
    errors = {error.exit_code for error in (Interrupted, NotComparable, PerfcliError)}
    assert listed == {*EXIT_CODES.values(), *errors}


@pytest.mark.torch
@pytest.mark.usefixtures("warm_workers")
def test_its_first_report_is_true(shell: Shell) -> None:
    line = next(line for line in SHOWN if line.startswith("perfcli compare model.py:block"))
    expected, more = SHOWN[line].rsplit("…\n", 1)
    assert not more
    out = shell.run(line)
    assert shell.code == 1
    assert _leave_out(out).startswith(_leave_out(expected))
    for shown, found in zip(_list_micros(expected), _list_micros(out), strict=False):
        assert found == pytest.approx(shown, rel=0.25)


def _leave_out(text: str) -> str:
    """Return a report without what another torch or another calibration changes: numbers, and how
    much of a kernel's name there is room for beside them."""
    text = re.sub(r"triton_\w*…", "…", text)
    estimated = r"[\d.,]+ → [\d.,]+ µs|[+−][\d.,]+ % \[.*\]|\d+ % of the change"
    return re.sub(estimated, "…", re.sub(r"torch \S+", "torch", text))


def _list_micros(text: str) -> list[float]:
    """Return the estimated times of a report's first lines."""
    found = re.findall(r"([\d.]+) → ([\d.]+) µs", text)
    return [float(each) for pair in found for each in pair]


COMPUTES = """
def test_model():
    f, (x,) = block(8, 16)
    f(x).sum().backward()
    assert x.grad.shape == (8, 16)
"""


@pytest.mark.torch
def test_its_model_computes_its_tests_pass_and_its_program_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, warm_given: tuple[str, ...]
) -> None:
    (tmp_path / "test_model.py").write_text(f"{MODEL}\n{COMPUTES}")
    (tmp_path / "test_norm.py").write_text(PYTEST)
    program = "".join(f"    {line}\n" for line in LIBRARY.splitlines())
    (tmp_path / "test_program.py").write_text(f"def test_it(capsys):\n{program}")
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}{os.pathsep}{Path(__file__).parent}")
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "perfcli.pytest_plugin", *warm_given]
    done = subprocess.run(
        [*command, "-p", "no:cacheprovider"], cwd=tmp_path, capture_output=True, text=True
    )
    assert "3 passed" in done.stdout, done.stdout
