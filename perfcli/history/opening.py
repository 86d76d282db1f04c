"""Chooses where a history is kept by what was typed: a folder, an fsspec URL or a database."""

from __future__ import annotations

import os
from pathlib import Path

from perfcli.errors import PerfcliError
from perfcli.history.homes import FolderHome, Home

DEFAULT = Path(".perfcli") / "history"
VARIABLE = "PERFCLI_HISTORY"
_SQLITE = (".db", ".sqlite", ".sqlite3")
_SQL = ("sqlite", "postgresql", "postgres")


def open_home(place: str | None) -> Home:
    """Return the home that was named, else the one that PERFCLI_HISTORY names, else
    ``.perfcli/history``. Raises PerfcliError for one that this installation can't reach."""
    place = place or os.environ.get(VARIABLE) or str(DEFAULT)
    scheme, colon, _ = place.partition("://")
    if colon and scheme.partition("+")[0] in _SQL:
        from perfcli.history.sql import SqlHome

        return SqlHome(place)
    if colon and scheme != "file":
        from perfcli.history.remote import RemoteHome

        return RemoteHome(place)
    path = Path(place.removeprefix("file://"))
    if path.suffix in _SQLITE:
        from perfcli.history.sql import SqlHome

        return SqlHome(f"sqlite:///{path}")
    _check_folder(path)
    return FolderHome(path)


def _check_folder(path: Path) -> None:
    """Raise PerfcliError where a folder is not one, or one above it is not."""
    there = next((each for each in (path, *path.parents) if os.path.lexists(each)), None)
    if there is not None and not there.is_dir():
        raise PerfcliError(
            f"{there} is not a folder: name one for the history, or a file that ends in "
            f"{' or '.join(_SQLITE[:2])}"
        )
