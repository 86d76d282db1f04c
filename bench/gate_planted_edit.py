"""An edit of the user's repository in tests/fixtures/gate, as a pull request makes it."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent / "tests" / "fixtures" / "gate"
KEPT = (".perfcli", "perfcli-baseline.toml")


@dataclass(frozen=True, slots=True)
class Change:
    """A text that stands in a file exactly once, and what replaces it; an empty one makes the
    file."""

    file: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Edit:
    name: str
    what: str
    """The pull request's title."""
    changes: tuple[Change, ...]
    metric: str = ""
    """The total that the edit is known to worsen; empty: harmless."""
    renames: tuple[tuple[str, str], ...] = ()
    """Files, after the changes: from, to."""


def edit(name: str, what: str, metric: str, file: str, *pairs: str) -> Edit:
    """An edit of one file; ``pairs`` are old, new, old, new …"""
    changes = zip(pairs[::2], pairs[1::2], strict=True)
    return Edit(name, what, tuple(Change(file, old, new) for old, new in changes), metric)


def lay_out(folder: Path) -> None:
    """The repository as it was before any edit; what perfcli stored there stays."""
    folder.mkdir(parents=True, exist_ok=True)
    for entry in folder.iterdir():
        if entry.name not in KEPT:
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    ignore = shutil.ignore_patterns("__pycache__", ".perfcli")
    shutil.copytree(REPOSITORY, folder, ignore=ignore, dirs_exist_ok=True)


def apply(edit: Edit, folder: Path) -> None:
    """Raises ValueError where a text to replace is not there exactly once."""
    for change in edit.changes:
        path = folder / change.file
        if not change.old:
            path.write_text(change.new, encoding="utf-8")
            continue
        text = path.read_text(encoding="utf-8")
        if text.count(change.old) != 1:
            found = text.count(change.old)
            raise ValueError(f"{edit.name}: {change.file} has {change.old!r} {found} times, not 1")
        path.write_text(text.replace(change.old, change.new), encoding="utf-8")
    for old, new in edit.renames:
        target = folder / new
        target.parent.mkdir(parents=True, exist_ok=True)
        (folder / old).rename(target)
