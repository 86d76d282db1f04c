"""Files that are there whole or not at all. No foreign packages: workers write some as well."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from perfcli.errors import PerfcliError


def write_whole(path: Path, content: bytes, mode: int = 0o644, *, durable: bool = False) -> None:
    """Write a file, and its folder where that is missing. Whatever interrupts it, or a full disk,
    leaves the file that was there before, and nothing else. ``durable``: once this returns, the
    file outlives a loss of power as well. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # Nobody else can guess the name, or have put a link there.
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".tmp")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            os.fchmod(file.fileno(), mode)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        os.replace(temporary, path)
        if durable:
            _sync_folder(path.parent)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def _sync_folder(folder: Path) -> None:
    """Write the folder itself, without which a new file's name may be lost."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def spare(path: Path, written: Mapping[Path, str]) -> None:
    """Raise PerfcliError where a file that is about to be read will be overwritten.

    ``written``: the options that name files to write, by the place of each.
    """
    if option := written.get(path.resolve()):
        raise PerfcliError(f"{option} would overwrite {path}, which is read: name another file")
