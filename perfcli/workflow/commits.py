"""Lists the commits between two revisions of the user's repository."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from perfcli.errors import PerfcliError
from perfcli.workflow.revision import COMMIT_DIGITS, ask_git, find_commit

_FIELDS = "%H%x00%P%x00%an%x00%aI%x00%s"


@dataclass(frozen=True, slots=True)
class GitCommit:
    hash: str
    parents: tuple[str, ...] = ()
    author: str = ""
    date: str = ""
    """When it was written, in ISO 8601."""
    subject: str = ""

    @property
    def short(self) -> str:
        """Return as much of the hash as names it."""
        return self.hash[:COMMIT_DIGITS]

    @property
    def is_merge(self) -> bool:
        return len(self.parents) > 1


@dataclass(frozen=True, slots=True)
class CommitRange:
    """``commits`` are those that ``bad`` contains and ``good`` does not, each after its parents;
    the last one is ``bad``."""

    good: GitCommit
    commits: tuple[GitCommit, ...]
    first_parent: bool = False
    """Whether only first parents are followed."""
    moved: str = ""
    """What to say where ``good`` is not the revision that was typed."""

    @property
    def bad(self) -> GitCommit:
        return self.commits[-1]


def list_commits(good: str, bad: str, folder: Path, first_parent: bool = False) -> CommitRange:
    """Return the commits between two revisions, as ``git bisect`` searches them.

    Where ``good`` is on another branch, their common ancestor takes its place. ``first_parent``:
    of what was merged the merge alone.

    Raises PerfcliError where there is no repository or no such revision, and where ``bad`` does
    not come after ``good``.
    """
    root, ours = find_commit(good, folder)
    _, theirs = find_commit(bad, folder)
    if ours == theirs:
        raise PerfcliError(f"{good} and {bad} are the same commit, {ours[:COMMIT_DIGITS]}")
    common = _find_common(root, ours, theirs, good, bad)
    if common == theirs:
        raise PerfcliError(
            f"{bad} comes before {good}: are they the wrong way round? Give the good one first"
        )
    moved = ""
    if common != ours:
        moved = (
            f"{bad} does not contain {good}: their common ancestor {common[:COMMIT_DIGITS]} takes "
            "its place"
        )
    limits = ["--first-parent"] if first_parent else []
    # Not ^common: with several common ancestors, all that good contains is left out, as in git.
    found = _read_commits(root, *limits, theirs, f"^{ours}")
    (base,) = _read_commits(root, "--max-count=1", common)
    return CommitRange(base, tuple(found), first_parent, moved)


def _find_common(root: Path, ours: str, theirs: str, good: str, bad: str) -> str:
    what = f"{good} and {bad} have no common ancestor (in a shallow clone: git fetch --unshallow)"
    return ask_git(root, "merge-base", ours, theirs, what=what)


def _read_commits(root: Path, *arguments: str) -> list[GitCommit]:
    listed = ask_git(
        root,
        *("log", "--no-show-signature", "--topo-order", "--reverse", f"--format={_FIELDS}"),
        *arguments,
        what="can't list the commits",
    )
    found = []
    for line in listed.split("\n"):
        commit, parents, author, date, subject = line.split("\0", 4)
        found.append(GitCommit(commit, tuple(parents.split()), author, date, subject))
    return found
