"""Chooses subjects and series by what was typed, and leaves out the entries before a revision,
whether or not the history has an entry of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from perfcli.errors import PerfcliError
from perfcli.history.commits import describe_commit, list_containing
from perfcli.history.entry import Commit, Stored, Subject
from perfcli.history.history import History, find_subjects
from perfcli.history.series import Series, choose_deciding, make_series, order
from perfcli.names import suggestion
from perfcli.workflow.revision import COMMIT_DIGITS


class NothingSince(PerfcliError):
    """All entries are of before a revision: there is nothing to judge."""

    exit_code = 3


@dataclass(frozen=True, slots=True)
class Since:
    """Says from which revision on entries are meant."""

    typed: str
    commit: Commit
    sequence: int | None
    """That of the first entry of this commit; None where the history has none."""
    containing: frozenset[str]
    """The commits that contain it, as far as git knows them."""
    other: frozenset[str]
    """Those that git knows and that do not."""

    def cut(self, listed: Sequence[Stored]) -> list[Stored]:
        """Return the entries of a subject, which are in order, from the revision on: from the first
        entry of its commit, else those whose commit contains it."""
        ids = [each.entry.commit.id for each in listed]
        if self.commit.id in ids:
            return list(listed[ids.index(self.commit.id) :])
        found = [self._is_meant(each) for each in listed]
        if True not in found:
            return []
        first = found.index(True)
        return [
            each
            for number, (each, meant) in enumerate(zip(listed, found, strict=True))
            if meant or (meant is None and number > first)
        ]

    def _is_meant(self, stored: Stored) -> bool | None:
        """Return whether the commit of an entry contains the revision; None where neither git nor
        the history can tell."""
        commit = stored.entry.commit
        if commit.id in self.containing or commit.id in self.other:
            return commit.id in self.containing
        mine, its = self.commit.depth, commit.depth
        if mine and its and commit.repository == self.commit.repository:
            return its > mine
        return stored.sequence > self.sequence if self.sequence is not None else None

    def refuse(self) -> NothingSince:
        """Return the error where it leaves nothing."""
        at = self.commit.id[:COMMIT_DIGITS]
        name = f"{self.typed} ({at})" if not at.startswith(self.typed[:COMMIT_DIGITS]) else at
        return NothingSince(
            f"--since {name}: the history has no entry of this commit or a later one"
        )


def find_since(entries: Sequence[Stored], typed: str, folder: Path) -> Since | None:
    """Return from where on entries are meant: the beginning of a commit's name that the history
    has, or a revision of the repository around ``folder``; None where nothing was typed. Raises
    PerfcliError for what is neither."""
    if not typed:
        return None
    own = [each for each in entries if each.entry.commit.id.startswith(typed)]
    try:
        commit = describe_commit(own[0].entry.commit.id if own else typed, folder, {})
    except PerfcliError as error:
        if not own:
            raise PerfcliError(
                f"--since {typed}: no commit of the history begins so, and {error}"
            ) from error
        commit = own[0].entry.commit
    own = own or [each for each in entries if each.entry.commit.id == commit.id]
    ids = {each.entry.commit.id for each in entries} - {""}
    containing, other = list_containing(commit.id, sorted(ids), folder)
    sequence = own[0].sequence if own else None
    return Since(typed, commit, sequence, containing, other)


@dataclass(frozen=True, slots=True)
class HistoryFilter:
    """Says which part of a history is meant."""

    scenarios: tuple[str, ...] = ()
    target: str = ""
    label: str | None = None
    branch: str = ""
    metrics: tuple[str, ...] = ()
    kernel: str = ""
    """A part of a kernel group's name."""
    since: str = ""
    """The beginning of a commit's name, or a revision of the repository of the current folder:
    points before it are left out."""
    last: int | None = None
    """Points of each subject, at most."""


def choose_subjects(history: History, choice: HistoryFilter) -> list[tuple[Subject, list[Stored]]]:
    """Return the subjects that are meant, each with its entries in order. Raises PerfcliError where
    there are none."""
    found = list(find_subjects(history.entries()).values())
    if not found:
        raise PerfcliError(f"the history in {history.home.where} has no entry yet")
    since = find_since(history.entries(), choice.since, Path.cwd())
    meant = [
        (subject, kept)
        for subject, entries in found
        if _is_meant(subject, choice) and (kept := _choose_entries(entries, choice))
    ]
    chosen = [(subject, since.cut(kept) if since else kept) for subject, kept in meant]
    chosen = [(subject, kept[-(choice.last or 0) :]) for subject, kept in chosen if kept]
    if chosen:
        return chosen
    if meant and since:
        raise since.refuse()
    known = {subject.scenario for subject, _ in found}
    for typed in choice.scenarios:
        if not any(_matches(typed, name) for name in known):
            raise PerfcliError(f"no history of {typed!r}: {suggestion(typed, sorted(known))}")
    for option, value, names in (
        ("target", choice.target, {subject.where for subject, _ in found}),
        ("label", choice.label or "", {subject.label for subject, _ in found}),
        ("branch", choice.branch, {e.entry.commit.branch for _, all_ in found for e in all_}),
    ):
        if value and value not in names:
            near = suggestion(value, names - {""})
            raise PerfcliError(f"the history has nothing of --{option} {value}: {near}")
    asked = {"--target": choice.target, "--label": choice.label or "", "--branch": choice.branch}
    words = [*choice.scenarios, *(f"{option} {value}" for option, value in asked.items() if value)]
    raise PerfcliError(f"the history has no entry of all of this together: {', '.join(words)}")


def _is_meant(subject: Subject, choice: HistoryFilter) -> bool:
    scenarios = choice.scenarios
    named = not scenarios or any(_matches(typed, subject.scenario) for typed in scenarios)
    target = not choice.target or choice.target == subject.where
    return named and target and choice.label in (None, subject.label)


def _matches(typed: str, scenario: str) -> bool:
    """Return whether ``model.py`` means ``src/model.py:block``."""
    return typed == scenario or scenario.startswith(f"{typed}:") or f"/{typed}" in f"/{scenario}"


def _choose_entries(entries: Sequence[Stored], choice: HistoryFilter) -> list[Stored]:
    listed = order(entries)
    if choice.branch:
        listed = [each for each in listed if each.entry.commit.branch == choice.branch]
    return listed


def choose_series(
    subjects: Sequence[tuple[Subject, list[Stored]]], choice: HistoryFilter
) -> list[tuple[Subject, list[Stored], list[Series]]]:
    """Return each subject's series that are meant: those that judge where no metric and no kernel
    is named. A subject that has none of a named one is left out. Raises PerfcliError where no
    subject has one of that name."""
    found = [(*each, _choose_of_one(each[1], choice)) for each in subjects]
    if not choice.metrics and not choice.kernel:
        return found
    for metric in choice.metrics:
        if not any(each.metric == metric for *_, chosen in found for each in chosen):
            known = {each.metric for each in _list_all(subjects, bool(choice.kernel))}
            if metric not in known:
                raise PerfcliError(f"no series of {metric!r}: {suggestion(metric, known)}")
    found = [each for each in found if each[2]]
    if not found:
        groups = {each.kernel for each in _list_all(subjects, True) if each.kernel}
        if not any(choice.kernel in name for name in groups):
            near = suggestion(choice.kernel, groups)
            raise PerfcliError(f"no series of kernel {choice.kernel!r}: {near}")
        of = f" of kernel {choice.kernel!r}" if choice.kernel else ""
        raise PerfcliError(f"no series of {', '.join(choice.metrics)}{of}")
    return found


def _choose_of_one(entries: Sequence[Stored], choice: HistoryFilter) -> list[Series]:
    made = make_series(entries, kernels=bool(choice.kernel), metrics=choice.metrics)
    if not choice.metrics and not choice.kernel:
        return choose_deciding(made)
    return [
        each
        for each in made
        if (choice.kernel in each.kernel if choice.kernel else not each.kernel)
    ]


def _list_all(subjects: Sequence[tuple[Subject, list[Stored]]], kernels: bool) -> Iterator[Series]:
    for _, entries in subjects:
        yield from make_series(entries, kernels=kernels)
