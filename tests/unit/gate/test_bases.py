"""What a head is compared with: options that contradict each other, and the base's own files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from handmade import H100, kernel, run

from perfcli.console.notes import Notes
from perfcli.errors import PerfcliError
from perfcli.fake.executor import fake_interpreter
from perfcli.gate import bases
from perfcli.gate.baseline.reading import BaselineEntry, Made
from perfcli.gate.bases import (
    Wish,
    _ask_base,
    _Base,
    _give_headline,
    _make_base,
    _say_target,
    _settle_setting,
)
from perfcli.gate.checks import Check
from perfcli.gate.config import Config
from perfcli.gate.request import GateRequest, NoBase
from perfcli.model import Finding, Variant
from perfcli.workflow.context import Context
from perfcli.workflow.fingerprint import Job
from perfcli.workflow.obtain import Obtained
from perfcli.workflow.request import Question, Side, make_jobs
from perfcli.workflow.revision import Revision
from perfcli.workflow.setting import MeasuringOptions, Setting


@pytest.mark.parametrize(
    ("wish", "pair"),
    [
        (Wish(), False),
        (Wish(baseline=Path("b.toml")), False),
        (Wish(revision="main"), True),
        (Wish(python="/usr/bin/python3"), True),
        (Wish(revision="main", python="/usr/bin/python3"), True),
    ],
)
def test_a_revision_or_an_interpreter_is_a_base_that_is_compiled(wish: Wish, pair: bool) -> None:
    assert wish.pair is pair
    wish.check()


@pytest.mark.parametrize(
    ("wish", "message"),
    [
        (Wish(Path("b.toml"), revision="main"), "--baseline is a base already: leave out --base-r"),
        (Wish(Path("b.toml"), python="python3"), "--baseline is a base already: leave out --base-"),
        (Wish(allow_env=("gpu",)), "^--allow-env: a baseline has no times: leave it out, or give"),
        (Wish(no_time=True), "^--no-time: a baseline has no times: leave it out, or give --base-"),
        (Wish(allow_env=("gpu",), no_time=True), "^--allow-env: a baseline has no times"),
        (Wish(Path("b.toml"), no_time=True), "^--no-time: a baseline has no times"),
        (Wish(revision="main", allow_env=("gpu",), no_time=True), ""),
    ],
)
def test_options_that_contradict_each_other(wish: Wish, message: str) -> None:
    if not message:
        wish.check()
        return
    with pytest.raises(PerfcliError, match=message):
        wish.check()


@pytest.mark.parametrize(
    ("wish", "command"),
    [
        (Wish(), "perfcli gate norm --config c.toml"),
        (Wish(strict=True), "perfcli gate norm --config c.toml --strict"),
        (Wish(revision="my branch"), "perfcli gate norm --config c.toml --base-rev 'my branch'"),
        (
            Wish(revision="main", python="python3", strict=True),
            "perfcli gate norm --config c.toml --base-rev main --base-python python3 --strict",
        ),
    ],
)
def test_the_command_that_makes_it_again(wish: Wish, command: str) -> None:
    assert wish.command(["norm"], ["--config", "c.toml"]) == command


# --- the base of its own files ---------------------------------------------------------------


@pytest.fixture
def revision(tmp_path: Path) -> Revision:
    for folder in (tmp_path / "repo", tmp_path / "worktree"):
        folder.mkdir()
        (folder / "model.py").touch()
    (tmp_path / "repo" / "new.py").touch()
    return Revision("main", "abc", tmp_path / "repo", tmp_path / "worktree")


def order(folder: Path, budget: float | None = None) -> GateRequest:
    config = Config(folder / "perfcli.toml", folder / "base.toml", (), budget=budget)
    return GateRequest(config, Context(Notes(quiet=True)), ())


def check(scenario: str) -> Check:
    return Check("norm@h100", scenario, {}, None, "h100", None, False, {}, ())


def test_a_question_of_a_file_is_asked_of_the_revisions_file(revision: Revision) -> None:
    given, base = Question("model.py", target="h100"), _Base(revision, None)
    for name, place in (("model.py", "model.py"), ("model.py:build", "model.py:build")):
        asked = _ask_base(base, check(name), order(revision.root), given)
        assert asked == replace(given, scenario=f"{revision.folder}/{place}")
    with pytest.raises(NoBase, match=r"^norm@h100 is new: main has no new\.py$"):
        _ask_base(base, check("new.py:build"), order(revision.root), given)


def test_a_shipped_scenario_and_an_interpreter_ask_the_same(revision: Revision) -> None:
    given = Question("softmax", target="h100")
    assert _ask_base(_Base(revision, None), check("softmax"), order(revision.root), given) is given
    alone = _Base(None, "python3")
    assert _ask_base(alone, check("new.py"), order(revision.root), given) is given


@pytest.mark.parametrize(
    ("base", "kind", "where", "commit"),
    [
        (_Base(Revision("main", "abc", Path(), Path()), None), "revision", "main", "abc"),
        (_Base(Revision("main", "abc", Path(), Path()), "python3"), "revision", "main", "abc"),
        (_Base(None, "python3"), "interpreter", "python3", ""),
    ],
)
def test_where_a_base_comes_from(base: _Base, kind: str, where: str, commit: str) -> None:
    found = base.provenance
    assert (found.kind, found.where, found.revision or "") == (kind, where, commit)


class Compiling:
    """Stands for compiling: what each job was made of, and the files that each run imported."""

    def __init__(self, *sources: Sequence[Path]) -> None:
        self.sources = list(sources)
        self.jobs: list[Job] = []
        self.kept: list[bool] = []

    def order_jobs(self, question: Question, sides: Sequence[Side], _: Context) -> list[Job]:
        return list(make_jobs(question, sides, fake_interpreter))

    def obtain(self, jobs: Sequence[Job], _: Context, keeps: bool = True) -> list[Obtained]:
        (job,) = jobs
        self.jobs.append(job)
        self.kept.append(keeps)
        made = run(
            [kernel("triton_0")],
            variant=Variant("folders", env=job.request.variant.env),
            sources=tuple(map(str, self.sources[len(self.jobs) - 1])),
        )
        return [Obtained(made, None)]


def made(
    monkeypatch: pytest.MonkeyPatch, revision: Revision | None, *sources: Sequence[Path]
) -> tuple[Compiling, Obtained]:
    compiling = Compiling(*sources)
    monkeypatch.setattr(bases, "obtain", compiling.obtain)
    monkeypatch.setattr(bases, "order_jobs", compiling.order_jobs)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    question = Question("softmax", target="h100")
    root = revision.root if revision else Path()
    found, jobs = _make_base(_Base(revision, None), question, Side(), order(root))
    assert list(jobs) == compiling.jobs[-1:]
    return compiling, found


def test_a_base_of_its_own_files_is_compiled_once(
    monkeypatch: pytest.MonkeyPatch, revision: Revision
) -> None:
    compiling, found = made(monkeypatch, revision, [revision.folder / "model.py"])
    assert compiling.kept == [True]
    assert found.run.variant.name == "folders"
    compiling, _ = made(monkeypatch, None, [revision.root / "model.py"])
    assert len(compiling.jobs) == 1


def test_a_base_that_imports_the_heads_files_is_compiled_with_its_own_folders(
    monkeypatch: pytest.MonkeyPatch, revision: Revision
) -> None:
    """How it was found is no difference between the two."""
    sources = [revision.root / "model.py"], [revision.folder / "model.py"]
    compiling, found = made(monkeypatch, revision, *sources)
    first, second = (job.request.variant.env for job in compiling.jobs)
    assert "PYTHONPATH" not in first
    assert second["PYTHONPATH"].split(os.pathsep) == [str(revision.folder)]
    assert (found.run.variant.name, found.run.variant.env) == ("default", {})


def test_a_base_that_goes_on_importing_the_heads_files_is_refused(
    monkeypatch: pytest.MonkeyPatch, revision: Revision
) -> None:
    sources = [revision.root / "model.py"]
    with pytest.raises(PerfcliError, match=r"the base at main imports .*repo/model\.py, which is"):
        made(monkeypatch, revision, sources, sources)


def test_a_file_of_a_revision_is_not_stored_and_runs_in_its_folder(
    monkeypatch: pytest.MonkeyPatch, revision: Revision
) -> None:
    compiling = Compiling([])
    monkeypatch.setattr(bases, "obtain", compiling.obtain)
    monkeypatch.setattr(bases, "order_jobs", compiling.order_jobs)
    monkeypatch.chdir(revision.root)
    (revision.folder / "model.py").write_text("def build(): ...\n")
    question = Question(f"{revision.folder}/model.py:build", target="h100")
    _make_base(_Base(revision, None), question, Side(), order(revision.root))
    assert compiling.kept == [False]
    assert [job.request.folder for job in compiling.jobs] == [str(revision.folder)]


# --- how long is measured, and what is said ----------------------------------------------------


@pytest.mark.parametrize(
    ("target", "budget", "known", "expected"),
    [
        (None, 5.0, True, 5.0),
        (None, None, True, 20.0),
        (None, 5.0, False, None),
        ("h100", 5.0, True, None),
    ],
)
def test_the_budget_is_the_configurations(
    monkeypatch: pytest.MonkeyPatch,
    target: str | None,
    budget: float | None,
    known: bool,
    expected: float | None,
) -> None:
    """A check for a target is not measured, nor where there is nothing to measure on."""
    asked: list[Any] = []

    def settle(question: Question, options: MeasuringOptions, _: Context) -> Setting | None:
        asked.append((options.allow_env, options.no_time))
        return Setting(options, "cpu", 20.0, 1, None, ()) if known else None

    monkeypatch.setattr(bases, "settle", settle)
    given = replace(order(Path(), budget), allow_env=("gpu",), no_time=True)
    found = _settle_setting(Question("softmax", target=target), given)
    assert (found.budget if found else None) == expected
    assert asked == ([] if target else [(("gpu",), True)])


def test_another_target_is_said() -> None:
    entry = BaselineEntry(Made("2026-11-20", "first", "abc"), run([]), (), "h100 (sm_90, 132 SMs)")
    assert _say_target(entry, run([])) == ()
    fewer = run([], target=replace(H100, sm_count=114))
    assert _say_target(entry, fewer) == ("target h100 (sm_90, 132 SMs) → h100 (sm_90, 114 SMs)",)


def test_a_finding_of_a_baseline_has_its_rules_title() -> None:
    """A rule that is gone has none."""
    found = _give_headline(Finding("PC101", "error", "triton_0", (0,)))
    assert found.headline.endswith(": triton_0")
    assert len(found.headline) > len(": triton_0")
    gone = Finding("PC999", "error", "triton_0", (0,))
    assert _give_headline(gone) == gone
