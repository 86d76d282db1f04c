"""Keeps the local folder of runs: ``.perfcli/runs`` where perfcli is called, one file per run."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from perfcli.errors import PerfcliError
from perfcli.model import Bundle
from perfcli.storing.runfile import (
    Header,
    cannot_write,
    is_cut_off,
    read,
    read_blob,
    read_blobs,
    read_header,
    write,
)

__all__ = [
    "FOLDER",
    "Header",
    "StoredRun",
    "cannot_write",
    "damaged",
    "find",
    "find_newest",
    "find_obstacle",
    "keep_out_of_commits",
    "locate",
    "new_id",
    "read",
    "read_blob",
    "read_blobs",
    "runs",
    "save",
    "write",
]

FOLDER = Path(".perfcli") / "runs"
OTHERWISE = "change to a folder that can"
"""What to do where it can't be written."""

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"


class StoredRun(msgspec.Struct, frozen=True):
    """A header and the file that it was read from."""

    path: Path
    header: Header


def new_id(now: datetime | None = None) -> str:
    """Return a short name that sorts by time (UTC, to the second): ``261121-115206-7kqd``."""
    moment = now or datetime.now(UTC)
    tail = "".join(secrets.choice(_ALPHABET) for _ in range(4))
    return f"{moment:%y%m%d-%H%M%S}-{tail}"


def save(bundle: Bundle, folder: Path = FOLDER) -> Path:
    """Write a run into the store; the way back is its id. Raises PerfcliError as ``write``."""
    path = folder / f"{bundle.run.id}.json"
    write(bundle, path)
    keep_out_of_commits(folder.parent)
    return path


def find_obstacle(folder: Path = FOLDER) -> str:
    """Return why no file can be made in a folder, or in the nearest one above it that exists; empty
    where one can."""
    place = folder.absolute()
    while not place.exists():
        place = place.parent
    try:
        with tempfile.TemporaryFile(dir=place):
            return ""
    except OSError as error:
        return f"{place} can't be written: {error.strerror or error}"


def keep_out_of_commits(folder: Path) -> None:
    """``.perfcli`` sits in the user's own project: git ignores it, as it does caches."""
    ignore = folder / ".gitignore"
    if folder.name == FOLDER.parent.name and not ignore.exists():
        with suppress(OSError):
            ignore.write_text("*\n")


def runs(folder: Path = FOLDER) -> list[StoredRun]:
    """Return all whole runs of the store, oldest first. The files themselves are the index, so
    nothing goes stale when others write or delete at the same time."""
    return sorted(_headers(folder), key=lambda stored: (stored.header.created, stored.header.id))


def damaged(folder: Path = FOLDER) -> list[Path]:
    """Return the files of runs whose end is missing."""
    found = []
    for name in _names(folder):
        path = folder / f"{name}.json"
        with suppress(OSError):
            if is_cut_off(path):
                found.append(path)
    return found


def find(fingerprint: str, folder: Path = FOLDER) -> StoredRun | None:
    """Return the newest run with this fingerprint."""
    return find_newest(folder).get(fingerprint)


def find_newest(folder: Path = FOLDER) -> dict[str, StoredRun]:
    """Return the newest run of each fingerprint."""
    return {stored.header.fingerprint: stored for stored in runs(folder)}


def locate(reference: str, folder: Path = FOLDER) -> Path | None:
    """Return the file that a user means: a path, a run's id, or the beginning of just one id."""
    path = Path(reference)
    if path.is_file():
        return path
    if not reference or "/" in reference or reference.startswith("."):
        return None
    names = _names(folder)
    if reference in names:
        return folder / f"{reference}.json"
    matching = [name for name in names if name.startswith(reference)]
    if len(matching) > 1:
        listed = ", ".join(matching[:5]) + (", …" if len(matching) > 5 else "")
        raise PerfcliError(f"{reference!r} is the beginning of {len(matching)} runs: {listed}")
    return folder / f"{matching[0]}.json" if matching else None


def _names(folder: Path) -> list[str]:
    try:
        return sorted(entry.stem for entry in folder.glob("[!.]*.json"))
    except OSError:
        return []


def _headers(folder: Path) -> Iterator[StoredRun]:
    for name in _names(folder):
        path = folder / f"{name}.json"
        # Skipped, not reported: a listing must survive a foreign, newer or vanished file.
        with suppress(OSError, msgspec.DecodeError, PerfcliError):
            if not is_cut_off(path):
                yield StoredRun(path, read_header(path))
