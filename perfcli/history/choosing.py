"""Chooses subjects and series by what was typed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from perfcli.errors import PerfcliError
from perfcli.history.entry import Stored, Subject
from perfcli.history.history import History, find_subjects
from perfcli.history.series import Series, choose_deciding, make_series, order
from perfcli.history.since import find_since
from perfcli.names import suggestion


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
    """Return the subjects that are meant, each with its entries in order.

    Raises PerfcliError where there are none.
    """
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
    asked = {
        "--target": choice.target,
        "--label": choice.label or "",
        "--branch": choice.branch,
    }
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
    is named. A subject that has none of a named one is left out.

    Raises PerfcliError where no subject has one of that name.
    """
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
