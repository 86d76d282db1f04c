"""Notes which small files of the working folder a user's code reads, ``config.yaml``: a run is no
longer up to date when one of them changes."""

from __future__ import annotations

import hashlib
import os
import sys
import sysconfig
from pathlib import Path
from typing import Any

_MOST_BYTES = 1 << 20
"""Of one file; larger ones are data, whose values do not matter."""
_MOST_FILES = 100
_OURS = (f"{os.sep}torch{os.sep}", f"{os.sep}triton{os.sep}", str(Path(__file__).parents[1]))
_COMPILED = (".py", ".pyc", ".so")
"""What imports open; the files of modules are known by their modules."""


class OpenedFiles:
    """Notes them from the time it is made until ``list_sources`` is called, which ends it. Python
    has no way to take an audit hook back: it belongs to processes that do nothing else."""

    def __init__(self) -> None:
        self._folder = os.getcwd()
        self._found: dict[str, str] = {}
        self._ended = False
        sys.addaudithook(self._hear)

    def list_sources(self) -> dict[str, str]:
        """Return path and SHA-256 of those that are as they were when they were opened first."""
        self._ended = True
        return {path: sha for path, sha in self._found.items() if sha and _hash(path) == sha}

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event != "open" or self._ended:
            return
        path, mode, flags = arguments
        if not isinstance(path, str | bytes) or len(self._found) >= _MOST_FILES:
            return
        path = os.path.abspath(os.fsdecode(path))
        if not path.startswith(f"{self._folder}{os.sep}") or path.endswith(_COMPILED):
            return
        if path in self._found or f"{os.sep}." in path[len(self._folder) :] or not _asks_user():
            return
        writes = any(letter in mode for letter in "wax+") if mode else flags & os.O_ACCMODE
        # What the code itself wrote is no source, also where it reads it later.
        self._found[path] = ""
        self._found[path] = "" if writes else _hash(path)


def _asks_user() -> bool:
    """Return whether the innermost code outside of the standard library is neither torch's nor
    perfcli's."""
    library = f"{sysconfig.get_path('stdlib')}{os.sep}"
    frame = sys._getframe(2)
    while frame is not None:
        file = frame.f_code.co_filename
        if "site-packages" in file or not file.startswith((library, "<")):
            return not any(part in file for part in _OURS)
        frame = frame.f_back  # type: ignore[assignment]
    return False


def _hash(path: str) -> str:
    try:
        if os.path.getsize(path) > _MOST_BYTES or not os.path.isfile(path):
            return ""
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except OSError:
        return ""
