"""Chooses subjects and series by what was typed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perfcli import units
from perfcli.errors import PerfcliError
from perfcli.history.entry import Stored, Subject
from perfcli.history.history import History, find_subjects
from perfcli.history.series import Series, choose_deciding, make_series, order
from perfcli.names import suggestion


@dataclass(frozen=True, slots=True)
class Choice:
    """Says which part of a history is meant."""

    scenarios: tuple[str, ...] = ()
    target: str = ""
    label: str | None = None
    branch: str = ""
    metrics: tuple[str, ...] = ()
    kernel: str = ""
    """A part of a kernel group's name."""
    since: str = ""
    """The beginning of a commit: points before it are left out."""
    last: int | None = None
    """Points of each subject, at most."""


def choose_subjects(history: History, choice: Choice) -> list[tuple[Subject, list[Stored]]]:
    """Return the subjects that are meant, each with its entries in order.

    Raises PerfcliError where there are none.
    """
    found = list(find_subjects(history.entries()).values())
    if not found:
        raise PerfcliError(f"the history in {history.home.where} has no entry yet")
    chosen = [
        (subject, kept)
        for subject, entries in found
        if _is_meant(subject, choice) and (kept := _choose_entries(entries, choice))
    ]
    if chosen:
        return chosen
    known = {subject.scenario for subject, _ in found}
    for typed in choice.scenarios:
        if not any(_matches(typed, name) for name in known):
            raise PerfcliError(f"no history of {typed!r}: {suggestion(typed, sorted(known))}")
    raise PerfcliError("the history has nothing of that target, label, branch or commit")


def _is_meant(subject: Subject, choice: Choice) -> bool:
    scenarios = choice.scenarios
    named = not scenarios or any(_matches(typed, subject.scenario) for typed in scenarios)
    target = not choice.target or choice.target == subject.where
    return named and target and choice.label in (None, subject.label)


def _matches(typed: str, scenario: str) -> bool:
    """Return whether ``model.py`` means ``src/model.py:block``."""
    return typed == scenario or scenario.startswith(f"{typed}:") or f"/{typed}" in f"/{scenario}"


def _choose_entries(entries: Sequence[Stored], choice: Choice) -> list[Stored]:
    listed = order(entries)
    if choice.branch:
        listed = [each for each in listed if each.entry.commit.branch == choice.branch]
    if choice.since:
        ids = [each.entry.commit.id for each in listed]
        begins = [n for n, name in enumerate(ids) if name.startswith(choice.since)]
        listed = listed[begins[0] :] if begins else []
    return listed[-choice.last :] if choice.last else listed


def choose_series(entries: Sequence[Stored], choice: Choice) -> list[Series]:
    """Return the series that are meant: those that judge where no metric and no kernel is named.

    Raises PerfcliError where there is none of that name.
    """
    named = bool(choice.kernel)
    made = make_series(entries, kernels=named, metrics=choice.metrics)
    if not choice.metrics and not choice.kernel:
        return choose_deciding(made)
    for metric in choice.metrics:
        if not any(each.metric == metric for each in made):
            known = sorted({each.metric for each in make_series(entries, kernels=named)})
            raise PerfcliError(f"no series of {metric!r}: {suggestion(metric, known)}")
    found = [
        each
        for each in made
        if (choice.kernel in each.kernel if choice.kernel else not each.kernel)
    ]
    if not found:
        groups = {each.kernel for each in make_series(entries, kernels=True) if each.kernel}
        kernels = units.plural(len(groups), "kernel group")
        raise PerfcliError(f"no series of kernel {choice.kernel!r}, of {kernels}")
    return found
