"""What git says of the revision that was compiled, and of those between two. A folder without a
repository has none of it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from perfcli.errors import PerfcliError
from perfcli.history.entry import Commit
from perfcli.workflow.revision import find_commit, run_git

_BRANCHES = ("GITHUB_HEAD_REF", "GITHUB_REF_NAME", "CI_COMMIT_REF_NAME")
"""What CI calls the branch, where it checks out a commit without one."""


def describe_commit(
    name: str, folder: Path, sources: Mapping[str, str], created: str = ""
) -> Commit:
    """Return what a revision of the repository around ``folder`` is; an empty one where there is no
    repository and none was named. ``sources``: the files that were compiled, path to SHA-256, and
    ``created`` when. Where none is named and these are not the files of what is checked out, it is
    what was checked out then, if they are its files. Raises PerfcliError where the named revision
    is not in the repository."""
    try:
        root, commit = find_commit(name or "HEAD", folder)
    except PerfcliError:
        if name:
            raise
        return Commit()
    edited = _is_edited(root, commit, sources)
    if edited and created and not name:
        older = _ask(root, "rev-list", "-1", f"--before={created}", commit)
        if older and not _is_edited(root, older, sources):
            commit, edited = older, False
    shown = _ask(root, "show", "--no-patch", "--format=%s%n%ct", commit).splitlines()
    title, seconds = (shown[0], shown[-1]) if len(shown) > 1 else ("", shown[-1])
    shallow = _ask(root, "rev-parse", "--is-shallow-repository") == "true"
    roots = _ask(root, "rev-list", "--max-parents=0", commit).split()
    return Commit(
        id=commit,
        title=title,
        time=_write_time(int(seconds)),
        depth=None if shallow else int(_ask(root, "rev-list", "--count", commit)),
        repository="" if shallow else min(roots),
        branch=_find_branch(root, name),
        edited=edited,
    )


def list_between(first: str, last: str, folder: Path) -> list[str]:
    """Return the commits after ``first`` up to ``last``, the newest first, as ``a1b2c3d4e5f6 Fuse
    it``; empty where the repository around ``folder`` does not have both."""
    if not first or not last:
        return []
    try:
        root, _ = find_commit(first, folder)
        find_commit(last, folder)
        shown = _ask(root, "log", "--format=%h %s", "--abbrev=12", f"{first}..{last}")
    except PerfcliError:
        return []
    return shown.splitlines()


_AT_ONCE = 1000
"""Commits that git is asked about in one command line."""


def list_containing(
    commit: str, others: Sequence[str], folder: Path
) -> tuple[frozenset[str], frozenset[str]]:
    """Return which of other commits contain one, and which do not, as far as the repository around
    ``folder`` has them; none where it does not have the one."""
    try:
        root, _ = find_commit(commit, folder)
    except PerfcliError:
        return frozenset(), frozenset()
    known, after = {commit}, {commit}
    names = [each for each in others if each.isalnum()]  # no options, whoever wrote the history
    for start in range(0, len(names), _AT_ONCE):
        some = names[start : start + _AT_ONCE]
        listed = run_git(root, ("rev-list", "--no-walk", "--ignore-missing", *some)).stdout.split()
        if listed:
            known |= set(listed)
            path = ("rev-list", "--ancestry-path", f"^{commit}", *listed)
            after |= set(_ask(root, *path).split())
    containing = after & {commit, *others}
    return frozenset(containing), frozenset(known - containing)


def _is_edited(root: Path, commit: str, sources: Mapping[str, str]) -> bool:
    """Return whether a file of the repository that was compiled is another one in the commit."""
    top = root.resolve()
    for source, digest in sources.items():
        path = Path(os.path.realpath(source))
        if not path.is_relative_to(top):
            continue
        found = run_git(root, ("show", f"{commit}:{path.relative_to(top).as_posix()}"), text=False)
        if found.returncode != 0 or hashlib.sha256(found.stdout).hexdigest() != digest:
            return True
    return False


def _find_branch(root: Path, name: str) -> str:
    if name:
        return ""
    branch = _ask(root, "rev-parse", "--abbrev-ref", "HEAD")
    if branch != "HEAD":
        return branch
    return next(filter(None, map(os.environ.get, _BRANCHES)), "")


def _ask(root: Path, *arguments: str) -> str:
    done = run_git(root, arguments)
    if done.returncode != 0:
        said = (done.stderr or "").strip().splitlines()
        raise PerfcliError(f"git {arguments[0]} failed{f': {said[-1]}' if said else ''}")
    return str(done.stdout).strip()


def _write_time(seconds: int) -> str:
    from datetime import UTC, datetime

    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"
