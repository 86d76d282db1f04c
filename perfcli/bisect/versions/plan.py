"""Works out which versions lie between good and bad, and how each of them is compiled."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from perfcli.bisect.space import Space
from perfcli.errors import PerfcliError
from perfcli.loading import registry
from perfcli.loading.references import Reference
from perfcli.machine.environment import interpreter_path
from perfcli.model import CompileRequest
from perfcli.search.first_bad import VersionHistory
from perfcli.search.question import OptionChange
from perfcli.workflow.commits import CommitRange, GitCommit, list_commits
from perfcli.workflow.context import Context
from perfcli.workflow.fingerprint import Job, identify
from perfcli.workflow.request import Question, Side, check_compiled, make_jobs, read_reference

VERSION = "version"
"""What a version is called in the settings by which a search knows what it compiles."""


@dataclass(frozen=True, slots=True)
class Version:
    """Describes one commit, or one interpreter."""

    name: str
    """12 digits of a commit; the path of an interpreter with its torch."""
    scenario: str
    python: str | None = None
    commit: GitCommit | None = None
    torch: str = ""
    """The version of an interpreter's torch."""


@dataclass(frozen=True, slots=True)
class VersionPlan:
    """Says what is searched. ``versions`` come after ``good``, each after its parents; the last is
    the bad one. ``requests`` compile each of them, by name."""

    good: Version
    versions: tuple[Version, ...]
    history: VersionHistory
    requests: Mapping[str, CompileRequest]
    base: Job
    """Of the good version."""
    about: Mapping[str, Any]
    """What a stored search is about."""

    @property
    def bad(self) -> Version:
        return self.versions[-1]

    @property
    def of_commits(self) -> bool:
        return self.good.commit is not None

    @property
    def space(self) -> Space:
        """Return the two ends as bisect-config has them: one change, from good to bad."""
        change = OptionChange(VERSION, self.good.name, self.bad.name)
        return Space((change,), settings_of(self.good.name), {change.key: {VERSION: self.bad.name}})

    def find(self, name: str) -> Version:
        return next(v for v in (self.good, *self.versions) if v.name == name)

    def parent_of(self, version: Version) -> Version:
        """Return the version before: of a commit its first parent, of an interpreter the one that
        was given before it. It need not lie between the ends."""
        if version.commit is None:
            place = self.versions.index(version)
            return self.versions[place - 1] if place else self.good
        first = GitCommit(version.commit.parents[0])
        known = (v for v in (self.good, *self.versions) if v.name == first.short)
        return next(known, None) or _of_commit(first, read_reference(version.scenario))


def settings_of(name: str) -> dict[str, Any]:
    """Return the settings by which a search knows a version."""
    return {VERSION: name}


def make_plan(
    words: Sequence[str],
    assignments: Sequence[str],
    python: str | None,
    question: Question,
    first_parent: bool,
    context: Context,
) -> VersionPlan:
    """Return what is searched. ``words`` are two revisions, or interpreters, the good one first.
    Raises PerfcliError for what the user got wrong, before anything is compiled."""
    if any(map(_is_interpreter, words)):
        if wrong := [word for word in words if not _is_interpreter(word)]:
            raise PerfcliError(
                f"{wrong[0]} is no interpreter, and {next(filter(_is_interpreter, words))} is one: "
                "give two revisions, or interpreters in their order, and then the scenario"
            )
        if python is not None or first_parent:
            typed = "--python" if python is not None else "--first-parent"
            raise PerfcliError(f"{typed} is for commits: leave it out between interpreters")
        return _plan_interpreters(words, assignments, question, context)
    if len(words) != 2:
        raise PerfcliError(
            f"two revisions are expected, the good one first, and then the scenario; got "
            f"{' '.join(words)}"
        )
    return _plan_commits(words, assignments, python, question, first_parent, context)


def _is_interpreter(word: str) -> bool:
    path = interpreter_path(word)
    return path.is_file() and os.access(path, os.X_OK)


# --- commits -----------------------------------------------------------------------------------


def _plan_commits(
    words: Sequence[str],
    assignments: Sequence[str],
    python: str | None,
    question: Question,
    first_parent: bool,
    context: Context,
) -> VersionPlan:
    reference = read_reference(question.scenario)
    if reference.revision:
        raise PerfcliError(
            f"{question.scenario}: leave out @{reference.revision}, the two revisions stand first"
        )
    if reference.kind == "scenario":
        registry.scenario(question.scenario)  # raises where there is none
    if not reference.path and reference.script is None:
        raise PerfcliError(
            f"{question.scenario} comes with perfcli and has no commits of yours: name a file of "
            "your repository, path/to/model.py:name, or give interpreters"
        )
    above = Path(reference.path).absolute().parents if reference.path else [Path.cwd()]
    folder = next(each for each in above if each.is_dir())
    found = list_commits(words[0], words[1], folder, first_parent)
    if found.moved:
        context.notes.warn(found.moved)
    good = _of_commit(found.good, reference)
    versions = tuple(_of_commit(commit, reference) for commit in found.commits)
    side = Side(tuple(assignments), python)
    ends = [replace(question, scenario=each.scenario) for each in (good, versions[-1])]
    for end in ends:
        check_compiled(end.scenario, context)
    probe = context.choose_probe(question.device)
    (base,) = make_jobs(ends[0], [side], probe, context.jobs)
    make_jobs(ends[1], [side], probe, context.jobs)  # raises where the bad one has no such file
    requests = {v.name: replace(base.request, scenario=v.scenario) for v in (good, *versions)}
    about = {**identify(base.request, base.interpreter), "scenario": question.scenario}
    about["searched"] = "commits"
    return VersionPlan(good, versions, _history_of(found), requests, base, about)


def _of_commit(commit: GitCommit, reference: Reference) -> Version:
    return Version(commit.short, reference.pin(commit.short).text, commit=commit)


def _history_of(found: CommitRange) -> VersionHistory:
    places = {commit.hash: place for place, commit in enumerate(found.commits)}
    followed = 1 if found.first_parent else None
    parents = (
        tuple(places[parent] for parent in commit.parents[:followed] if parent in places)
        for commit in found.commits
    )
    return VersionHistory(tuple(commit.short for commit in found.commits), tuple(parents))


# --- interpreters ------------------------------------------------------------------------------


def _plan_interpreters(
    words: Sequence[str], assignments: Sequence[str], question: Question, context: Context
) -> VersionPlan:
    check_compiled(question.scenario, context)
    probe = context.choose_probe(question.device)
    jobs: list[Job] = []
    for place, word in enumerate(words):
        try:
            jobs += make_jobs(question, [Side(tuple(assignments), word)], probe, context.jobs)
        except PerfcliError as error:
            if place in (0, len(words) - 1):
                raise
            context.notes.warn(f"left out: {error}")
    versions = tuple(
        Version(
            f"{job.request.variant.python} torch {job.interpreter.torch}",
            job.request.scenario,
            job.request.variant.python,
            torch=job.interpreter.torch,
        )
        for job in jobs
    )
    names = [version.name for version in versions]
    if twice := [name for name in names if names.count(name) > 1]:
        raise PerfcliError(f"{twice[0]} is there twice: each interpreter is expected once")
    if len(names) < 2:
        raise PerfcliError("two interpreters or more are expected, the good one first")
    requests = {name: job.request for name, job in zip(names, jobs, strict=True)}
    about = {**identify(jobs[0].request, jobs[0].interpreter), "searched": "interpreters"}
    for own in ("python", "torch", "triton", "distributions"):
        about.pop(own)
    history = VersionHistory.chain(names[1:])
    return VersionPlan(versions[0], versions[1:], history, requests, jobs[0], about)
