"""``bisect-commits`` over real git repositories, compiled and measured by what makes things up."""

from __future__ import annotations

import contextlib
import csv
import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cli.conftest import MAX_READS, Perfcli, Result
from repository import commit, git

from perfcli.bisect.versions import run
from perfcli.diff.verdict import conclude
from perfcli.errors import PerfcliError, UserCodeFailed
from perfcli.fake import executor, measuring
from perfcli.fake.executor import FakeGenerator
from perfcli.fake.run import make_up_run
from perfcli.model import Bundle, CompileRequest
from perfcli.worker.roles import Made

BLOCK = "def block():\n    return None, ()\n"
MEASURED = "1;ratio=1.03;noise=0.002"


def text_of(request: CompileRequest) -> str:
    """The file of a request, wherever its revision is."""
    path, _, at = request.scenario.rpartition(":")
    _, _, revision = at.partition("@")
    return git("show", f"{revision}:{path}") if revision else Path(path).read_text()


@pytest.fixture
def models(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """``model.py`` says how it is compiled: a kernel that spills where it has ``slow``; nothing
    where it has ``broken``. Returns the texts that were compiled, in their order."""
    compiled: list[str] = []
    made = FakeGenerator._made

    def read(request: CompileRequest) -> CompileRequest:
        slow = {MAX_READS: 99 if "slow" in text_of(request) else 1}
        return replace(request, variant=replace(request.variant, options=slow))

    def make_up(request: CompileRequest) -> Bundle:
        bundle = make_up_run(read(request))
        return replace(bundle, run=replace(bundle.run, variant=request.variant))

    def generate(self: FakeGenerator, request: CompileRequest) -> Made:
        text = text_of(request)
        compiled.append(text)
        if "broken" in text:
            return UserCodeFailed(f"{request.scenario} raised SyntaxError: invalid syntax")
        found = made(self, request)
        if "layout" in text and not isinstance(found, Exception):
            # Code that differs from commit to commit, though it does the same.
            return replace(found, code=text)
        return found

    start = measuring._FakeWorker.__init__

    def begin(self: Any, request: Any, *others: Any) -> None:
        start(self, replace(request, compile=read(request.compile)), *others)

    def planned(self: Any, ratio: float) -> float:
        slow = self._request.compile.variant.options[MAX_READS] > 10
        return float(self._starter.plan.step * (ratio if slow else 1.0))

    monkeypatch.setattr(executor, "make_up_run", make_up)
    monkeypatch.setattr(FakeGenerator, "_made", generate)
    monkeypatch.setattr(measuring._FakeWorker, "__init__", begin)
    monkeypatch.setattr(measuring._FakeWorker, "_planned", planned)
    return compiled


def write_history(texts: Sequence[str]) -> list[str]:
    """A repository with one commit for each text of its model, which need not define any."""
    git("init", "--quiet", "--initial-branch=main")
    Path(".gitignore").write_text(".perfcli\n*.csv\n*.json\n")
    made = []
    for number, text in enumerate(texts):
        Path("model.py").write_text(text if "def block" in text else f"{text}\n{BLOCK}")
        made.append(commit(f"Commit {number}"))
    return made


def search(perfcli: Perfcli, *words: str) -> tuple[Result, dict[str, Any]]:
    result = perfcli("bisect-commits", *words, "model.py:block", "--json", "found.json")
    return result, json.loads(Path("found.json").read_text())


@pytest.fixture(autouse=True)
def _in_repository(perfcli: Perfcli, models: list[str]) -> None:
    """Every test starts in an empty folder, with models that say how they are compiled."""


def test_exact(perfcli: Perfcli, models: list[str]) -> None:
    hashes = write_history([f"{'slow ' * (n >= 11)}# {n}" for n in range(16)])
    Path("model.py").write_text("broken, and not committed\n")
    result, found = search(perfcli, "main~15", "main", "-m", "spills", "--csv", "v.csv")
    assert (result.code, found["status"]) == (0, "found")
    assert found["first_bad"]["hash"] == hashes[11]
    assert (found["first_bad"]["subject"], found["first_bad"]["author"]) == ("Commit 11", "a")
    assert f"first bad: {hashes[11][:12]} Commit 11" in result.out
    assert found["ends"]["good"] == 0
    assert found["ends"]["bad"] > 0
    assert (found["cost"]["compiled"], found["cost"]["classes"]) == (len(models), 2)
    assert len(models) <= 2 + 2 * 4  # the ends; two at once for each of four questions
    # Its comparison with the commit before it, with the rule that names the cause.
    assert (found["comparison"]["outcome"], found["comparison"]["parent"]) == (
        "worse",
        hashes[10][:12],
    )
    assert "PC101" in {each["code"] for each in found["comparison"]["findings"]}
    assert f"model.py:block@{hashes[10][:12]} → model.py:block@{hashes[11][:12]}" in result.out
    rows = list(csv.DictReader(Path("v.csv").read_text().splitlines()))
    assert [row["version"] for row in rows] == [each[:12] for each in hashes[1:]]
    assert {r["version"]: r["probability"] for r in rows}[hashes[11][:12]] == "1.0"
    assert git("worktree", "list").count("\n") == 0


def test_measured(perfcli: Perfcli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every commit has code of its own, so that only a clock tells them apart."""
    monkeypatch.setenv("PERFCLI_FAKE", MEASURED)
    hashes = write_history([f"{'slow ' * (n >= 21)}layout {n}" for n in range(32)])
    given = ("--device", "cpu", "--seed", "1", "--measure-budget", "2")
    result, found = search(perfcli, "main~31", "main", *given)
    assert (result.code, found["first_bad"]["hash"]) == (0, hashes[21])
    assert (found["metric"], found["exact"]) == ("step_seconds", False)
    assert found["ends"]["ratio"] == pytest.approx(1.03, abs=0.003)
    assert 5 <= found["cost"]["measured"] <= 5 + 6
    assert "SLOWER" in result.out
    (suspect,) = found["suspects"]
    assert suspect["probability"] >= 0.98


def test_what_was_known_is_not_measured_again(
    perfcli: Perfcli, models: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERFCLI_FAKE", MEASURED)
    write_history([f"{'slow ' * (n >= 5)}layout {n}" for n in range(8)])
    given = ("main~7", "main", "--device", "cpu", "--seed", "1", "--measure-budget", "2")
    first, stopped = search(perfcli, *given, "--max-runs", "3")
    assert (first.code, stopped["status"]) == (3, "unsure")
    assert f"--resume {stopped['id']} goes on" in first.out
    before = len(models)
    again, found = search(perfcli, *given, "--resume", stopped["id"])
    assert (again.code, found["status"]) == (0, "found")
    total = len(models)
    once_more, same = search(perfcli, *given, "--resume", stopped["id"])
    assert (once_more.code, len(models)) == (0, total)
    assert total > before
    assert same["cost"]["measured"] <= 1
    assert same["first_bad"] == found["first_bad"]
    other = perfcli("bisect-commits", *given, "late.py:block", "--resume", stopped["id"])
    assert other.code == 2
    foreign = perfcli(
        *("bisect-commits", *given, "-p", "rows=3", "model.py:block"),
        *("--resume", stopped["id"]),
    )
    assert (foreign.code, "is another search" in foreign.complaint) == (4, True)


def test_its_own_measurement_may_disagree(
    perfcli: Perfcli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERFCLI_FAKE", MEASURED)
    monkeypatch.setattr(run, "judge", lambda pair: (conclude.acquit(pair), None))
    write_history([f"{'slow ' * (n >= 2)}layout {n}" for n in range(4)])
    given = ("--device", "cpu", "--seed", "1", "--measure-budget", "2")
    result, found = search(perfcli, "main~3", "main", *given)
    assert (result.code, found["exit_code"], found["status"]) == (3, 3, "found")
    assert found["disputed"].startswith("measured against ")
    assert f"but {found['disputed']}: try a longer --measure-budget" in result.out


def merge_history() -> tuple[str, str, str]:
    """main: 0 1 M 5, and 2 3 4 beside it, of which 3 is slow. Returns 0, 3 and M."""
    first, *_ = write_history(["# 0", "# 1"])
    git("checkout", "--quiet", "-b", "side", "main~1")
    slow = ""
    for number in (2, 3, 4):
        Path("other.py").write_text(f"# {number}\n")
        Path("model.py").write_text(("slow\n" if number >= 3 else "# 0\n") + BLOCK)
        made = commit(f"Commit {number}")
        slow = made if number == 3 else slow
    git("checkout", "--quiet", "main")
    git("merge", "--quiet", "--no-edit", "--strategy-option=theirs", "side")
    merged = git("rev-parse", "HEAD")
    Path("other.py").write_text("# 5\n")
    commit("Commit 5")
    return first, slow, merged


def test_a_merge(perfcli: Perfcli) -> None:
    good, slow, merged = merge_history()
    _, found = search(perfcli, good, "main", "-m", "spills")
    assert (found["first_bad"]["hash"], found["versions"]) == (slow, 6)
    result, found = search(perfcli, good, "main", "-m", "spills", "--first-parent")
    assert (found["first_bad"]["hash"], found["versions"]) == (merged, 3)
    assert ", a merge" in result.out
    # The branch itself against what it has in common with main.
    result, found = search(perfcli, "main~2", "side", "-m", "spills")
    assert found["first_bad"]["hash"] == slow
    assert f"their common ancestor {good[:12]} takes its place" in result.err


def test_commits_that_do_not_compile(perfcli: Perfcli, models: list[str]) -> None:
    texts = ["# 0", "# 1", "broken", "broken slow", "slow # 4", "slow # 5"]
    hashes = write_history(texts)
    result, found = search(perfcli, "main~5", "main", "-m", "spills")
    assert (result.code, found["status"], found["first_bad"]) == (3, "one of several", None)
    assert [each["hash"] for each in found["suspects"]] == hashes[2:5]
    assert set(found["failures"]) == {hashes[2][:12], hashes[3][:12]}
    assert "one of these 3 commits: what lies between them has no answer" in result.out
    assert "SyntaxError" in result.out
    assert "6 compiled, 2 without an answer · 2 classes" in result.out
    assert len(models) == len(set(models))
    # Each is told once, however many are compiled beside it.
    told = [line for line in result.err.splitlines() if ": no answer (" in line]
    assert len(told) == len({line.split(":")[0] for line in told}) == 2
    alone = perfcli("bisect-commits", "main~5", "main", "-m", "spills", "model.py:block", "-q")
    between = ", ".join(each[:12] for each in hashes[2:5])
    assert alone.out == (
        f"one of these 3 commits: what lies between them has no answer: {between}\n"
    )


@pytest.mark.parametrize(
    ("texts", "plan", "given", "status", "said"),
    [
        (["# 0", "# 1"], "1", ("-m", "spills"), "same code", "generate the same code"),
        (["slow", "# 1"], "1", ("-m", "spills"), "not worse", "bad is not worse than good: "),
        (
            *(["layout 0", "layout 1"], MEASURED, ("--device", "cpu", "--seed", "1")),
            *("not worse", "bad is not worse than good: "),
        ),
    ],
)
def test_nothing_to_find(
    perfcli: Perfcli,
    monkeypatch: pytest.MonkeyPatch,
    texts: list[str],
    plan: str,
    given: tuple[str, ...],
    status: str,
    said: str,
) -> None:
    monkeypatch.setenv("PERFCLI_FAKE", plan)
    write_history(texts)
    result, found = search(perfcli, "main~1", "main", *given)
    assert (result.code, found["status"], found["comparison"]) == (3, status, None)
    assert said in result.out


def test_estimated_first(perfcli: Perfcli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a metric and a GPU the estimated time decides; nothing is measured."""
    monkeypatch.setenv("PERFCLI_FAKE", "weighed")
    hashes = write_history([f"{'slow ' * (n >= 3)}# {n}" for n in range(6)])
    result, found = search(perfcli, "main~5", "main", "--target", "h200")
    assert (result.code, found["metric"], found["exact"]) == (0, "estimated_seconds", True)
    assert found["first_bad"]["hash"] == hashes[3]


def test_interpreters(perfcli: Perfcli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.undo()  # what a file says of a model: here it is the same with every interpreter
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PERFCLI_FAKE", "1")
    pythons = [str(tmp_path / f"nightly{number}") for number in range(6)]
    for python in pythons:
        Path(python).write_text("#!/bin/sh\n")
        Path(python).chmod(0o755)
    probed = executor.fake_interpreter

    def make_up(request: CompileRequest) -> Bundle:
        slow = {MAX_READS: 99 if str(request.variant.python) >= pythons[4] else 1}
        return make_up_run(replace(request, variant=replace(request.variant, options=slow)))

    def probe(python: str | None = None) -> Any:
        if python == pythons[2]:
            raise PerfcliError(f"{python} has no torch")
        found = probed(python)
        return replace(found, torch=f"2.14.0.dev{python[-1]}" if python else found.torch)

    monkeypatch.setattr(executor, "make_up_run", make_up)
    monkeypatch.setattr(executor, "fake_interpreter", probe)
    words = ("bisect-commits", *pythons, "softmax", "-m", "spills", "--json", "found.json")
    result = perfcli(*words)
    assert f"left out: {pythons[2]} has no torch" in result.err
    found = json.loads(Path("found.json").read_text())
    assert (result.code, found["first_bad"]["python"]) == (0, pythons[4])
    assert (found["first_bad"]["torch"], found["versions"]) == ("2.14.0.dev4", 4)
    assert (found["comparison"]["outcome"], found["comparison"]["parent"][-4:]) == ("worse", "dev3")
    again = perfcli("bisect-commits", pythons[0], pythons[2], "softmax", "-m", "spills")
    assert (again.code, again.complaint) == (2, f"perfcli: {pythons[2]} has no torch")


@pytest.mark.parametrize(
    ("given", "line"),
    [
        (("main", "main", "model.py:block"), "main and main are the same commit"),
        (("main", "main~1", "model.py:block"), "are they the wrong way round"),
        (("nowhere", "main", "model.py:block"), "has no revision 'nowhere'"),
        (("main~1", "main", "late.py:block"), "there is no late.py in revision"),
        (("main~1", "main", "model.py:block@main"), "leave out @main"),
        (("main~1", "main", "model.py:blok"), "model.py has no class, object or function 'blok'"),
        (("main~1", "main", "model.py:blok"), "did you mean block?"),
        (("main~1", "main", "softmax"), "softmax comes with perfcli and has no commits of yours"),
        (("main~1", "main", "softmx"), "no scenario 'softmx': did you mean softmax?"),
        (("main~2", "main~1", "main", "model.py:block"), "two revisions are expected"),
        (("main~1", "main", "model.py:block", "-m", "beauty"), "no metric 'beauty'"),
        (("main~1", "main", "model.py:block", "-m", "time"), "time is measured on a device"),
        (("main~1", "/bin/sh", "model.py:block"), "main~1 is no interpreter, and /bin/sh is one"),
        (("main~1", "main", "model.py:block", "--resume", "no"), "no stored search 'no'"),
        (("main~1", "main", "model.py:block", "--seed", "1"), "leave out --seed"),
        (("lost", "main", "model.py:block"), "lost and main have no common ancestor"),
        (("broken", "main", "model.py:block"), "the good side does not compile"),
    ],
)
def test_what_makes_no_sense(
    perfcli: Perfcli, given: tuple[str, ...], line: str, branches: Path
) -> None:
    shutil.copytree(branches, ".", dirs_exist_ok=True)
    result = perfcli("bisect-commits", *given)
    assert result.code == 2
    assert line in result.complaint


@pytest.fixture(scope="module")
def branches(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with main, into which a branch that is broken was merged, and another root."""
    folder = tmp_path_factory.mktemp("branches")
    with contextlib.chdir(folder):
        write_branches()
    return folder


def write_branches() -> None:
    write_history(["# 0", "# 1", "slow"])
    git("checkout", "--quiet", "-b", "broken", "main~2")
    Path("model.py").write_text(f"broken\n{BLOCK}")
    commit("Break it")
    git("checkout", "--quiet", "-B", "main2", "main")
    git("merge", "--quiet", "--no-edit", "--strategy=ours", "broken")
    git("branch", "--force", "main", "main2")
    git("checkout", "--quiet", "--orphan", "lost")
    commit("Begin anew")
    git("checkout", "--quiet", "main")


# --- compiled for real ----------------------------------------------------------------------------


def write_model(scale: str, note: str) -> str:
    return (
        f"import torch\n\n\ndef scale(x):\n    {scale}\n\n\ndef block():\n    # {note}\n"
        "    return lambda x: scale(x).cos() + 1, (torch.zeros(4096),)\n"
    )


FUSED = "return x.sin() * 2"
BROKEN = "y = x.sin()\n    torch._dynamo.graph_break()\n    return y * 2"


@pytest.mark.torch
def test_compiled_for_real(perfcli: Perfcli, warm_workers: None, one_template: None) -> None:
    """A graph break on each side of a product makes three kernels of one; the commits around it
    leave the code as it is."""
    texts = [(FUSED, "Begin"), (FUSED, "Explain"), (BROKEN, "Break"), (BROKEN, "End")]
    hashes = write_history([write_model(*each) for each in texts])
    given = ("main~3", "main", "--target", "h100", "-m", "kernels", "-j", "1")
    result, found = search(perfcli, *given)
    assert (result.code, found["status"]) == (0, "found"), result.err
    assert found["first_bad"]["hash"] == hashes[2]
    assert (found["ends"]["good"], found["ends"]["bad"]) == (1, 3)
    assert (found["cost"]["compiled"], found["cost"]["classes"]) == (4, 2)
    assert "PC403" in {each["code"] for each in found["comparison"]["findings"]}
    assert git("worktree", "list").count("\n") == 0
