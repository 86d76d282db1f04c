"""Leaves out the entries before a revision, whether or not the history has an entry of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from perfcli.errors import PerfcliError
from perfcli.history.commits import describe_commit, list_containing
from perfcli.history.entry import Commit, Stored
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
    has, or a revision of the repository around ``folder``; None where nothing was typed.

    Raises PerfcliError for what is neither.
    """
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
