"""What a home of a history does, and the home that is a folder. Homes keep whole texts by name,
which are written once and never changed; all else about a history is in ``history``."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from perfcli.errors import PerfcliError
from perfcli.storing.store import cannot_write, keep_out_of_commits
from perfcli.storing.whole import write_whole


class Home(Protocol):
    """Keeps texts by names such as ``entries/3f…``. All methods raise PerfcliError where the home
    can't be reached or written."""

    where: str
    """How people name it, without a password."""

    def list(self, folder: str) -> set[str]:
        """Return the names of a folder's texts, without the folder."""

    def read(self, names: Iterable[str]) -> Mapping[str, bytes]:
        """Return the texts of these names that are there."""

    def write(self, name: str, content: bytes) -> None:
        """Keep a text, whole or not at all: once this returns it is there to stay."""


class FolderHome:
    """Keeps texts as files."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.where = str(path)

    def list(self, folder: str) -> set[str]:
        try:
            with os.scandir(self.path / folder) as found:
                return {each.name for each in found if not each.name.startswith(".")}
        except FileNotFoundError:
            return set()
        except OSError as error:
            raise PerfcliError(f"can't read {self.where}: {error.strerror or error}") from error

    def read(self, names: Iterable[str]) -> Mapping[str, bytes]:
        found = {}
        for name in names:
            try:
                found[name] = (self.path / name).read_bytes()
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as error:
                problem = error.strerror or error
                raise PerfcliError(f"can't read {self.path / name}: {problem}") from error
        return found

    def write(self, name: str, content: bytes) -> None:
        path = self.path / name
        try:
            write_whole(path, content, durable=True)
        except OSError as error:
            raise PerfcliError(cannot_write(path, error)) from error
        with suppress(OSError):
            keep_out_of_commits(self.path.parent)


def need(module: str, install: str, what: str) -> Any:
    """Return a module that only some installations have. Raises PerfcliError with what to do."""
    try:
        return import_module(module)
    except ImportError as error:
        raise PerfcliError(
            f"{what} needs more packages: pip install {install} ({error})"
        ) from error
