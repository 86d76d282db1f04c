"""perfcli init-ci: what it writes, where, and what it leaves alone."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from packaging.requirements import Requirement

from perfcli.ci import source
from perfcli.gate import config

SCHEMAS = Path(__file__).parents[1] / "fixtures" / "schemas"
WORKFLOW = Path(".github/workflows/perfcli.yml")


@pytest.fixture(autouse=True)
def installed_from_git(monkeypatch: pytest.MonkeyPatch) -> None:
    """This perfcli came from a git URL, as pip writes it down (PEP 610)."""
    document = {
        "url": "https://example.com/perfcli",
        "vcs_info": {"vcs": "git", "commit_id": "0123abcd", "requested_revision": "v0.1.0"},
    }
    monkeypatch.setattr(source, "_read_direct_url", lambda: document)


def valid(document: Any, schema: str) -> bool:
    jsonschema.validate(document, json.loads((SCHEMAS / schema).read_text()))
    return True


def parsed(path: Path) -> Any:
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    if isinstance(document, dict) and True in document:  # YAML 1.1 reads "on" as a truth value
        document["on"] = document.pop(True)
    return document


def test_a_workflow_that_is_one(perfcli: Any, tmp_path: Path) -> None:
    result = perfcli("init-ci")
    assert result.code == 0
    assert 'perfcli baseline update --reason "first baseline"' in result.out
    text = (tmp_path / WORKFLOW).read_text()
    assert not re.search(r"@[A-Z]+@", text), "nothing is left to fill in"
    document = parsed(tmp_path / WORKFLOW)
    assert valid(document, "github-workflows.json")
    assert document["permissions"] == {}
    # The job that runs a pull request's code can read, and nothing else.
    jobs = document["jobs"]
    assert jobs["gate"]["permissions"] == {"contents": "read"}
    assert jobs["gpu"]["permissions"] == {"contents": "read"}
    assert "run" not in {key for step in jobs["code-scanning"]["steps"] for key in step}


def test_no_expression_in_a_script(perfcli: Any, tmp_path: Path) -> None:
    """What GitHub puts into a script is run: a branch can be called ``$(command)``."""
    perfcli("init-ci")
    for job in parsed(tmp_path / WORKFLOW)["jobs"].values():
        for step in job["steps"]:
            assert "${{" not in step.get("run", "")
            assert step.get("with", {}).get("persist-credentials", False) is False


def test_the_configuration_is_one_that_the_gate_reads(perfcli: Any, tmp_path: Path) -> None:
    perfcli("init-ci")
    found = config._read(tmp_path / "perfcli.toml")
    assert [check.name for check in found.checks] == ["example@h100"]
    assert found.fail_on == "warning"


def test_what_it_wrote_runs(perfcli: Any) -> None:
    assert perfcli("init-ci").code == 0
    assert perfcli("gate", "-q").code == 4
    assert perfcli("baseline", "update", "--reason", "first baseline", "-q").code == 0
    assert perfcli("gate", "-q").code == 0


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_pyproject_keeps_every_byte(perfcli: Any, tmp_path: Path, end: str) -> None:
    old = end.join(["[project]   # ours", "name='x'", "[tool.ruff]", "line-length=100"])
    (tmp_path / "pyproject.toml").write_bytes(old.encode())
    assert perfcli("init-ci").code == 0
    new = (tmp_path / "pyproject.toml").read_bytes().decode()
    assert new.startswith(old)
    assert (new.count("\r\n") == new.count("\n")) is (end == "\r\n")
    assert tomllib.loads(new)["tool"]["ruff"] == {"line-length": 100}
    assert config._read(tmp_path / "pyproject.toml").checks[0].scenario == "rmsnorm"
    assert not (tmp_path / "perfcli.toml").exists()


def test_a_closed_tool_table_is_left_alone(perfcli: Any, tmp_path: Path) -> None:
    old = 'tool = { black = { line-length = 90 } }\n[project]\nname = "x"\n'
    (tmp_path / "pyproject.toml").write_text(old)
    assert perfcli("init-ci").code == 0
    assert (tmp_path / "pyproject.toml").read_text() == old
    assert config._read(tmp_path / "perfcli.toml").checks


def test_pyproject_that_is_no_toml(perfcli: Any, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[project\n")
    result = perfcli("init-ci")
    assert result.code == 2
    assert "can't read pyproject.toml" in result.complaint


def test_twice_changes_nothing_and_force_leaves_the_configuration(
    perfcli: Any, tmp_path: Path
) -> None:
    perfcli("init-ci")
    before = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    assert "kept" in perfcli("init-ci").out
    assert {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == before

    (tmp_path / WORKFLOW).write_text("mine\n")
    (tmp_path / "perfcli.toml").write_text("[[checks]]\nscenario = 'softmax'\n")
    assert "kept   .github/workflows/perfcli.yml\n" in perfcli("init-ci").out
    assert (tmp_path / WORKFLOW).read_text() == "mine\n"
    assert perfcli("init-ci", "--force").code == 0
    assert (tmp_path / WORKFLOW).read_bytes() == before[tmp_path / WORKFLOW]
    assert "softmax" in (tmp_path / "perfcli.toml").read_text()


def test_the_job_with_a_gpu_measures_the_same_checks(perfcli: Any, tmp_path: Path) -> None:
    checks = (
        '[[checks]]\nname = "a\\"b"\nscenario = "rmsnorm"\n'
        'params = { rows = 4, mode = "training" }\n'
        '[[checks]]\nscenario = "softmax"\npreset = "smoke"\ntargets = ["a100"]\n'
    )
    (tmp_path / "perfcli.toml").write_text(checks)
    assert perfcli("init-ci").code == 0
    ours, theirs = (config._read(tmp_path / f"{n}.toml").checks for n in ("perfcli", "perfcli-gpu"))
    for one, other in zip(ours, theirs, strict=True):
        assert one.scenario == other.scenario
        assert one.params == other.params
        assert one.preset == other.preset
        assert (other.device, other.target) == ("cuda", None)
    assert [check.name for check in theirs] == ['a"b@cuda', "softmax@cuda"]
    # It is a configuration: no --force touches it.
    (tmp_path / "perfcli-gpu.toml").write_text("mine")
    perfcli("init-ci", "--force")
    assert (tmp_path / "perfcli-gpu.toml").read_text() == "mine"


def test_no_checks_no_job_with_a_gpu(perfcli: Any, tmp_path: Path) -> None:
    (tmp_path / "perfcli.toml").write_text("checks = 3\n")
    assert "no     perfcli-gpu.toml" in perfcli("init-ci").out


def test_a_model_of_the_repository_is_taken_without_running_it(
    perfcli: Any, tmp_path: Path
) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "model.py").write_text(
        "import torch\nraise SystemExit('never run')\n"
        "def build(layers: int = 2):\n    return object(), (torch.ones(1),), 'training'\n"
    )
    (tmp_path / "broken.py").write_text("import torch\ndef build(:\n")
    perfcli("init-ci")
    (check,) = config._read(tmp_path / "perfcli.toml").checks
    assert (check.name, check.scenario) == ("model@h100", "src/model.py:build")


def test_a_module_alone_is_a_hint(perfcli: Any, tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text("from torch import nn\nclass Net(nn.Module):\n    pass\n")
    perfcli("init-ci")
    text = (tmp_path / "perfcli.toml").read_text()
    # The file has no function: it says that one is to be written, before it names one.
    written = (
        "# Where net.py has no such function yet, write one, for example build(), and name it:"
    )
    assert f'{written}\n# scenario = "net.py:build"\n' in text
    assert config._read(tmp_path / "perfcli.toml").checks[0].scenario == "rmsnorm"


def test_gitlab(perfcli: Any, tmp_path: Path) -> None:
    assert perfcli("init-ci", "--gitlab").code == 0
    part = parsed(tmp_path / ".gitlab/perfcli.yml")
    assert valid(part, "gitlab-ci.json")
    assert valid(parsed(tmp_path / ".gitlab-ci.yml"), "gitlab-ci.json")
    assert part["perfcli"]["artifacts"]["when"] == "always"
    assert part["perfcli"]["artifacts"]["reports"] == {"junit": "perfcli.xml"}
    assert not (tmp_path / WORKFLOW).exists()


def test_gitlab_that_is_in_use_is_told_how(perfcli: Any, tmp_path: Path) -> None:
    (tmp_path / ".gitlab-ci.yml").write_text("test:\n  script: [make]\n")
    result = perfcli("init-ci")
    assert "include: [{ local: .gitlab/perfcli.yml }]" in result.out
    assert (tmp_path / ".gitlab-ci.yml").read_text() == "test:\n  script: [make]\n"


def test_pre_commit(perfcli: Any, tmp_path: Path) -> None:
    assert perfcli("init-ci", "--pre-commit").code == 0
    (repo,) = parsed(tmp_path / ".pre-commit-config.yaml")["repos"]
    (hook,) = repo["hooks"]
    assert (repo["repo"], hook["stages"], hook["pass_filenames"]) == ("local", ["pre-push"], False)
    (shipped,) = parsed(Path(__file__).parents[2] / ".pre-commit-hooks.yaml")
    assert {k: v for k, v in shipped.items() if k != "description"} == hook


def test_pre_commit_that_is_in_use_is_told_how(perfcli: Any, tmp_path: Path) -> None:
    (tmp_path / ".pre-commit-config.yaml").write_text("repos: []\n")
    result = perfcli("init-ci", "--pre-commit")
    assert "- id: perfcli-gate" in result.out
    assert (tmp_path / ".pre-commit-config.yaml").read_text() == "repos: []\n"


def test_below_the_root(perfcli: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / "inside").mkdir()
    monkeypatch.chdir(tmp_path / "inside")
    result = perfcli("init-ci")
    assert result.code == 2
    assert str(tmp_path) in result.complaint
    assert not list((tmp_path / "inside").iterdir())


def test_a_folder_that_cannot_be_written(perfcli: Any, tmp_path: Path) -> None:
    (tmp_path / ".github").write_text("a file in the folder's place")
    result = perfcli("init-ci", "--github")
    assert result.code == 2
    assert "can't write .github/workflows/perfcli.yml" in result.complaint


def test_the_main_branch_is_the_remotes(perfcli: Any, tmp_path: Path) -> None:
    head = tmp_path / ".git" / "refs" / "remotes" / "origin" / "HEAD"
    head.parent.mkdir(parents=True)
    head.write_text("ref: refs/remotes/origin/trunk\n")
    perfcli("init-ci")
    assert parsed(tmp_path / WORKFLOW)["on"]["push"]["branches"] == ["trunk"]


# --- where CI installs perfcli from ------------------------------------------------------------


def installed(path: Path) -> list[str]:
    """What the jobs of a workflow give to pip, as a shell reads it: torch and triton left out."""
    commands = [
        shlex.split(line.replace("\\\n", " "))
        for job in parsed(path)["jobs"].values()
        for step in job["steps"]
        for line in step.get("run", "").splitlines()
        if "pip install" in line
    ]
    words = [word for command in commands for word in command[4:] if not word.startswith("-")]
    return [w for w in words if not w.startswith(("torch==", "triton==", "https://download"))]


def test_ci_installs_what_this_perfcli_was_installed_from(perfcli: Any, tmp_path: Path) -> None:
    assert perfcli("init-ci", "--github", "--gitlab").code == 0
    url = "git+https://example.com/perfcli@0123abcd"
    assert installed(tmp_path / WORKFLOW) == [f"perfcli @ {url}", f"perfcli[nvml] @ {url}"]
    (line,) = [
        line
        for line in parsed(tmp_path / ".gitlab/perfcli.yml")["perfcli"]["before_script"]
        if "perfcli" in line
    ]
    assert shlex.split(line)[-1] == f"perfcli @ {url}"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (
            "git+https://example.com/perfcli@v0.1.0#subdirectory=tool",
            "perfcli[nvml] @ git+https://example.com/perfcli@v0.1.0#subdirectory=tool",
        ),
        ("wheels/perfcli-0.1.0-py3-none-any.whl", "./wheels/perfcli-0.1.0-py3-none-any.whl[nvml]"),
        (".", ".[nvml]"),
    ],
)
def test_ci_installs_what_the_user_names(
    perfcli: Any, tmp_path: Path, given: str, expected: str
) -> None:
    (tmp_path / "wheels").mkdir()
    (tmp_path / "wheels" / "perfcli-0.1.0-py3-none-any.whl").write_bytes(b"")
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "x"\n')
    assert perfcli("init-ci", "--install", given).code == 0
    found = installed(tmp_path / WORKFLOW)
    assert found[1] == expected
    if given.startswith("git+"):
        assert (Requirement(expected).url, Requirement(expected).extras) == (given, {"nvml"})


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("perfcli", "--install perfcli: no such file here, and no index has it"),
        ("perfcli==0.1.0", "no index has it"),
        ("../other", "CI has no files from outside of the repository"),
        ("notes", "neither a wheel nor a folder with pyproject.toml"),
        ('git+https://example.com/$(id)"', "has characters that a shell or YAML reads"),
    ],
)
def test_what_ci_could_not_install_is_refused(
    perfcli: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str, says: str
) -> None:
    work = tmp_path / "work"
    (work / "notes").mkdir(parents=True)
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(work)
    result = perfcli("init-ci", "--install", given)
    assert result.code == 2
    assert says in result.complaint
    assert [path.name for path in work.iterdir()] == ["notes"]


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"url": "file:///elsewhere/perfcli", "dir_info": {"editable": True}},
        {"url": "file:///tmp/perfcli-0.1.0-py3-none-any.whl", "archive_info": {}},
        {"url": "file:///srv/perfcli", "vcs_info": {"vcs": "git", "commit_id": "1"}},
    ],
)
def test_without_a_source_it_asks_before_it_writes_anything(
    perfcli: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, document: Any
) -> None:
    monkeypatch.setattr(source, "_read_direct_url", lambda: document)
    result = perfcli("init-ci")
    assert result.code == 2
    assert result.complaint.startswith(
        "perfcli: perfcli is on no package index; say where CI gets it"
    )
    for way in ("--install git+https://", "--install ./perfcli", "--install ."):
        assert way in result.complaint
    assert not list(tmp_path.iterdir())
    # A hook runs the perfcli that is there.
    assert perfcli("init-ci", "--pre-commit").code == 0


def test_a_checkout_inside_the_repository_is_named_by_its_place(
    perfcli: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = {"url": (tmp_path / "tools/perfcli").as_uri(), "dir_info": {"editable": True}}
    monkeypatch.setattr(source, "_read_direct_url", lambda: document)
    assert perfcli("init-ci").code == 0
    assert installed(tmp_path / WORKFLOW)[0] == "./tools/perfcli"


@pytest.mark.parametrize("pushed", [True, False])
def test_a_checkout_elsewhere_is_named_by_its_remote_once_that_has_it(
    perfcli: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pushed: bool
) -> None:
    checkout, work = tmp_path / "checkout", tmp_path / "work"
    work.mkdir()

    def git(*arguments: str) -> str:
        who = ("-c", "user.name=a", "-c", "user.email=a@example.com")
        command = ["git", "-C", str(checkout), *who, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    subprocess.run(["git", "init", "-q", str(checkout)], check=True)
    git("commit", "-q", "--allow-empty", "-m", "a")
    git("remote", "add", "origin", "https://example.com/perfcli.git")
    if pushed:
        git("update-ref", "refs/remotes/origin/main", "HEAD")
    document = {"url": checkout.as_uri(), "dir_info": {"editable": True}}
    monkeypatch.setattr(source, "_read_direct_url", lambda: document)
    monkeypatch.chdir(work)
    result = perfcli("init-ci")
    if not pushed:
        assert result.code == 2
        return
    commit = git("rev-parse", "HEAD")
    url = f"git+https://example.com/perfcli.git@{commit}"
    assert installed(work / WORKFLOW)[0] == f"perfcli @ {url}"


def test_nothing_that_ships_installs_perfcli_from_an_index() -> None:
    root = Path(__file__).parents[2]
    shipped = [root / "action.yml", root / ".pre-commit-hooks.yaml"]
    shipped += [p for f in ("perfcli", "kernels", "reports") for p in (root / f).rglob("*.py")]
    shipped += list((root / "perfcli" / "data" / "ci").iterdir())
    pattern = re.compile(r"pip install[^\n]*[\s\"']perfcli(\[\w+\])?(==|[\"'\s]|$)")
    found = [str(path) for path in shipped if pattern.search(path.read_text(encoding="utf-8"))]
    assert found == []
    # The action installs the checkout that it comes with.
    assert '"${install[@]}" "$GITHUB_ACTION_PATH"' in shipped[0].read_text(encoding="utf-8")
    assert pattern.search("pip install perfcli==0.1.0")
