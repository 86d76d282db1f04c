"""Folders for one process, in the system's temporary folder. What a process that was killed has
left there, a later one takes away."""

from __future__ import annotations

import functools
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

PREFIX = "perfcli-"
_OWNER = ".perfcli-owner"


def make_scratch(kind: str = "", note: str = "") -> Path:
    """Make a folder that this process owns. ``kind`` begins its name; ``note`` is for whoever takes
    it away later, who then knows the ``kind`` (``left_scratch``). Raises OSError."""
    if not kind:
        _sweep_once(os.getpid())
    folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{kind}"))
    # Without it the folder is never taken for a dead process's.
    with suppress(OSError):
        (folder / _OWNER).write_text(f"{_owner(os.getpid())}\n{note}", encoding="utf-8")
    return folder


def left_scratch(kind: str) -> Iterator[tuple[Path, str]]:
    """Yield folders of this user, with their notes, whose process on this machine is dead."""
    with suppress(OSError):
        for folder in sorted(Path(tempfile.gettempdir()).glob(f"{PREFIX}{kind}*")):
            owner, _, note = _read_owner(folder).partition("\n")
            if owner and _is_dead(owner):
                yield folder, note


_OLD_SECONDS = 14 * 24 * 3600.0


def forget_old(cache: Path, seconds: float = _OLD_SECONDS) -> None:
    """Remove the folders of a cache that were written so long ago. A process that reads one of them
    meanwhile misses it, as if it had never been there."""
    with suppress(OSError):
        for entry in os.scandir(cache):
            with suppress(OSError):
                if time.time() - entry.stat().st_mtime > seconds:
                    shutil.rmtree(entry.path, ignore_errors=True)


@functools.cache
def _sweep_once(_process: int) -> None:
    """Take away what needs no more than that: notes say that something else has to be done."""
    for folder, note in left_scratch(""):
        if not note:
            shutil.rmtree(folder, ignore_errors=True)


def _read_owner(folder: Path) -> str:
    """Return what stands in a folder of this user's own; empty where it is none."""
    try:
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
            return ""
        with os.fdopen(os.open(folder / _OWNER, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
            return file.read(10_000).decode(errors="replace")
    except OSError:
        return ""


def _owner(process: int) -> str:
    """Return what tells a process from all others: its number, its start, and where both count,
    since containers and machines may share a folder. Empty where there is no such process."""
    try:
        # The name may hold anything, parentheses and spaces too. The start is the 22nd field.
        started = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[19]
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{process} {started} {boot} {os.readlink('/proc/self/ns/pid')}"
    except (OSError, IndexError):
        return ""


def _is_dead(owner: str) -> bool:
    """Whether a process of this machine and container is gone; of others nobody knows."""
    process, _, rest = owner.partition(" ")
    place = _owner(os.getpid()).split(" ")[2:]
    if not process.isdecimal() or not place or rest.split(" ")[1:] != place:
        return False
    return _owner(int(process)) != owner
