"""action.yml: its steps run as GitHub runs them, in a made-up GitHub, with the fake executor."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

ROOT = Path(__file__).parents[2]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
STEPS = {step["name"]: step for step in ACTION["runs"]["steps"]}
SCHEMA = ROOT / "tests" / "fixtures" / "schemas" / "github-actions.json"
# GitHub's own words for `shell: bash`.
BASH = ("bash", "--noprofile", "--norc", "-eo", "pipefail")
SPILLS = "triton.mix_order_reduction_max_reads"


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    outputs: Mapping[str, str]
    summary: str


@dataclass(frozen=True)
class Github:
    """A runner's folder, with a repository that has a configuration and a baseline."""

    folder: Path

    def step(self, name: str, **inputs: str) -> Ran:
        """One step with the action's defaults and these inputs; expressions are put in as GitHub
        does, into ``env`` alone."""
        step = STEPS[name]
        values = {key: str(each.get("default", "")) for key, each in ACTION["inputs"].items()}
        values |= {"python": sys.executable, **inputs}
        output, summary = self.folder / "output", self.folder / "summary"
        output.write_text("")
        summary.write_text("")
        given = {key: filled(text, values) for key, text in step.get("env", {}).items()}
        environment = {
            **os.environ,
            "PERFCLI_FAKE": "1",
            "PYTHONPATH": str(ROOT),
            "GITHUB_ACTIONS": "true",
            "GITHUB_OUTPUT": str(output),
            "GITHUB_STEP_SUMMARY": str(summary),
            "GITHUB_ACTION_PATH": str(ROOT),
            "GITHUB_REPOSITORY": "team/models",
            "RUNNER_TEMP": str(self.folder),
            **given,
        }
        script = self.folder / "step.sh"
        script.write_text(step["run"], encoding="utf-8")
        work = self.folder / "repo" / values["working-directory"]
        done = subprocess.run(
            [*BASH, str(script)], cwd=work, env=environment, capture_output=True, text=True
        )
        lines = dict(line.split("=", 1) for line in output.read_text().splitlines())
        return Ran(done.returncode, done.stdout + done.stderr, lines, summary.read_text())


def filled(text: str, values: Mapping[str, str]) -> str:
    def value(found: re.Match[str]) -> str:
        room, _, name = found[1].partition(".")
        return values[name] if room == "inputs" else values.get(found[1], "")

    return re.sub(r"\$\{\{ ([\w.-]+) \}\}", value, text)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("team") / "repo"
    found.mkdir()
    configure(found, "")
    command = [sys.executable, "-m", "perfcli", "baseline", "update", "--reason", "first", "-q"]
    environment = {**os.environ, "PERFCLI_FAKE": "1", "PYTHONPATH": str(ROOT)}
    subprocess.run(command, cwd=found, env=environment, check=True)
    return found


@pytest.fixture
def github(tmp_path: Path, repository: Path) -> Github:
    shutil.copytree(repository, tmp_path / "repo")
    return Github(tmp_path)


def configure(repository: Path, more: str) -> None:
    text = f'[[checks]]\nname = "norm"\nscenario = "rmsnorm"\npreset = "smoke"\n{more}\n'
    (repository / "perfcli.toml").write_text(text)


def test_it_is_an_action() -> None:
    jsonschema.validate(ACTION, json.loads(SCHEMA.read_text()))
    outputs = {each["value"] for each in ACTION["outputs"].values()}
    assert outputs == {f"${{{{ steps.gate.outputs.{name} }}}}" for name in ACTION["outputs"]}


def test_no_expression_in_a_script() -> None:
    """What GitHub puts into a script is run; a branch can be called ``$(command)``."""
    for step in STEPS.values():
        assert "${{" not in step.get("run", "")


def test_the_gate_passes(github: Github) -> None:
    ran = github.step("Gate")
    assert (ran.code, ran.outputs["outcome"], ran.outputs["exit-code"]) == (0, "pass", "0")
    for name in ("sarif", "junit", "json", "markdown", "html"):
        path = Path(ran.outputs[name])
        assert path.parent == github.folder / "repo" / "perfcli-reports"
        assert path.stat().st_size > 100, name
    assert json.loads(Path(ran.outputs["json"]).read_text())["outcome"] == "pass"
    assert "PASS" in ran.summary
    assert github.step("Result", **{"steps.gate.outputs.exit-code": "0"}).code == 0


def test_a_regression_fails_after_the_reports_are_there(github: Github) -> None:
    configure(github.folder / "repo", f'options = {{ "{SPILLS}" = 1000 }}')
    ran = github.step("Gate")
    # The step itself goes on, so that what comes after it can upload; the last one fails.
    assert (ran.code, ran.outputs["outcome"], ran.outputs["exit-code"]) == (0, "fail", "1")
    assert "::error" in ran.out
    assert Path(ran.outputs["sarif"]).exists()
    assert github.step("Result", **{"steps.gate.outputs.exit-code": "1"}).code == 1


def test_no_baseline(github: Github) -> None:
    (github.folder / "repo" / "perfcli-baseline.toml").unlink()
    ran = github.step("Gate")
    assert (ran.outputs["outcome"], ran.outputs["exit-code"]) == ("no-baseline", "4")
    assert "perfcli baseline update" in ran.out


@pytest.mark.parametrize(
    ("inputs", "code", "said"),
    [
        ({"checks": "norm"}, "0", ""),
        ({"checks": "norm\nnorm@h100\n"}, "0", ""),
        ({"checks": "other"}, "2", "no check 'other'"),
        ({"config": "perfcli.toml"}, "0", ""),
        ({"config": "no such file.toml"}, "2", "no such file.toml"),
        ({"args": "--jobs\n1\n"}, "0", ""),
        ({"args": "--jobs 1"}, "2", "--jobs 1"),
        ({"checks": "--help"}, "2", "no check '--help'"),
    ],
)
def test_inputs(github: Github, inputs: dict[str, str], code: str, said: str) -> None:
    ran = github.step("Gate", **inputs)
    assert ran.outputs["exit-code"] == code, ran.out
    assert said in ran.out


@pytest.mark.parametrize("name", ["checks", "config", "base-rev", "args", "reports"])
def test_nothing_that_comes_in_is_run(github: Github, name: str) -> None:
    trap = github.folder / "trap"
    evil = f"\"; touch {trap}; $(touch {trap}) `touch {trap}` '; touch {trap} #"
    github.step("Gate", **{name: evil})
    assert not trap.exists()


def test_a_folder_called_like_the_command_is_not_run(github: Github) -> None:
    (github.folder / "repo" / "perfcli").mkdir()
    (github.folder / "repo" / "perfcli" / "__main__.py").write_text("raise SystemExit(77)")
    assert github.step("Gate").outputs["exit-code"] == "0"


def test_another_working_directory(github: Github) -> None:
    inner = github.folder / "repo" / "models"
    inner.mkdir()
    for name in ("perfcli.toml", "perfcli-baseline.toml"):
        (github.folder / "repo" / name).rename(inner / name)
    ran = github.step("Gate", **{"working-directory": "models"})
    assert ran.outputs["exit-code"] == "0"
    assert Path(ran.outputs["junit"]).parent == inner / "perfcli-reports"


GH = """#!{python}
import json, os, sys
log = os.environ["GH_LOG"]
body = next((a[6:] for a in sys.argv if a.startswith("body=@")), None)
with open(log, "a") as file:
    file.write(json.dumps([sys.argv[1:], open(body).read() if body else None]) + "\\n")
if "--jq" in sys.argv:
    print(os.environ["GH_ANSWER"], end="")
"""


@pytest.mark.parametrize(("answer", "method"), [("", "POST"), ("42\n43\n", "PATCH")])
def test_the_comment_is_written_once_then_again(
    github: Github, monkeypatch: pytest.MonkeyPatch, answer: str, method: str
) -> None:
    ran = github.step("Gate")
    tool = github.folder / "gh"
    tool.write_text(GH.format(python=sys.executable))
    tool.chmod(0o755)
    log = github.folder / "log"
    monkeypatch.setenv("PATH", f"{github.folder}:{os.environ['PATH']}")
    monkeypatch.setenv("GH_LOG", str(log))
    monkeypatch.setenv("GH_ANSWER", answer)
    values: dict[str, Any] = {
        "steps.gate.outputs.markdown": ran.outputs["markdown"],
        "github.event.pull_request.number": "7",
    }
    assert github.step("Comment", **values).code == 0
    asked, written = (json.loads(line) for line in log.read_text().splitlines())
    assert asked[0][1] == "repos/team/models/issues/7/comments"
    place = "comments/42" if method == "PATCH" else "7/comments"
    assert [a for a in written[0] if a.startswith("repos")] == [f"repos/team/models/issues/{place}"]
    assert method in written[0]
    assert written[1].startswith("<!-- perfcli gate -->\n")
    assert Path(ran.outputs["markdown"]).read_text() in written[1]
