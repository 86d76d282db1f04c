"""Starts, lists and ends the processes that keep torch imported between commands (``keeper``), one
per folder, interpreter, device and use."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perfcli.errors import PerfcliError
from perfcli.model import CompileRequest, Device
from perfcli.worker import protocol
from perfcli.worker.channel import Channel
from perfcli.worker.forked_worker import _is_private, _read_line, find_place
from perfcli.worker.keeper import SOCKET, KeepRequest, connect
from perfcli.worker.starting import Use, find_kept_folder, measuring_environment, worker_environment

_ABOUT = "about.json"
_START_SECONDS = 60.0
_LONGEST_PATH = 107  # of a Unix socket


@dataclass(frozen=True, slots=True)
class KeptWorker:
    """Describes one process that is kept."""

    place: Path
    folder: str
    python: str
    device: Device
    pid: int
    idle_seconds: float
    """Since it was last asked."""
    running: int
    """Workers that it forked and that have not ended."""
    memory_bytes: int
    use: Use = "compile"


def start_keeper(
    request: CompileRequest,
    idle_seconds: float,
    timeout: float | None = None,
    use: Use = "compile",
    threads: int | None = None,
) -> int:
    """Start the process for this folder, a request's interpreter and device, and a use, in the
    place of one that is there; return its id once it can be asked. ``threads``: what is measured
    runs on, as in ``MeasureRequest``. Raises PerfcliError where it does not start."""
    if not hasattr(os, "pidfd_open"):
        raise PerfcliError("perfcli warm needs Linux 5.3 and Python's os.pidfd_open")
    python, device = request.variant.python, request.device
    place = find_place(os.getcwd(), python, device, use)
    if len(os.fsencode(place / SOCKET)) > _LONGEST_PATH:
        raise PerfcliError(
            f"{place.parent.parent} has too long a path for a socket: set XDG_RUNTIME_DIR to a "
            "shorter one"
        )
    _make_private(place.parent)
    with _alone_in(place.parent):
        stop_keeper(place)
        environment = worker_environment(request, place)
        if use == "measure":
            environment = measuring_environment(request, threads, place, place)
        asked = KeepRequest(str(place), os.getcwd(), device, idle_seconds, request.cache_dir, use)
        return _start(asked, python, environment, timeout)


@contextlib.contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Let one command at a time start a process there: two would take each other's socket."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX)
        yield
    finally:
        os.close(opened)


def _start(
    asked: KeepRequest, python: str | None, environment: Mapping[str, str], timeout: float | None
) -> int:
    place = Path(asked.place)
    place.mkdir(mode=0o700)
    channel = None
    try:
        channel = Channel(python, environment, place, stays=True)
        channel.doing = "importing torch"
        channel.give(timeout)
        channel.send(protocol.encode({"keep": asked}))
        reply: dict[str, Any] = json.loads(channel.receive())
        if reply["type"] == "error":
            raise protocol.error(reply["kind"], reply["message"], reply["detail"])
        about = {
            "folder": asked.folder,
            "python": python or sys.executable,
            "device": asked.device,
            "use": asked.use,
        }
        (place / _ABOUT).write_text(json.dumps(about), encoding="utf-8")
        return channel.release()
    except BaseException:
        if channel is not None:
            channel.close()
        shutil.rmtree(place, ignore_errors=True)
        raise


def stop_keeper(place: Path) -> bool:
    """End what is kept in a folder, and return whether there was one. While workers that it forked
    are running it stays for them, and takes no further order."""
    answer = _ask(place, {"stop": True})
    if (pid := answer.get("pid")) and not answer["running"]:
        _await_end(int(pid))
    shutil.rmtree(place, ignore_errors=True)
    return bool(pid)


def list_keepers() -> Iterator[KeptWorker]:
    """Yield what this user keeps, in any folder; remove what one that was killed has left."""
    for place in sorted(find_kept_folder().glob("*")):
        answer = _ask(place, {"status": True})
        if "pid" not in answer:
            if _is_left(place):
                shutil.rmtree(place, ignore_errors=True)
            continue
        with contextlib.suppress(OSError, ValueError):
            about = json.loads((place / _ABOUT).read_text(encoding="utf-8"))
            yield KeptWorker(
                place,
                **about,
                pid=answer["pid"],
                idle_seconds=answer["idle"],
                running=answer["running"],
                memory_bytes=_read_memory(answer["pid"]),
            )


def _is_left(place: Path) -> bool:
    """Return whether a folder in which nothing listens is one that nothing starts in any more."""
    try:
        begun = time.time() - place.stat().st_mtime
    except OSError:
        return False
    return begun > _START_SECONDS or (place / _ABOUT).exists()


def _ask(place: Path, question: Mapping[str, object]) -> dict[str, Any]:
    """Return the answer of what listens in a folder; empty where nothing does."""
    if not _is_private(place) or (connection := connect(place)) is None:
        return {}
    with connection:
        try:
            connection.sendall(json.dumps(question).encode() + b"\n")
            return _read_line(connection)
        except (OSError, ValueError):
            return {}


def _await_end(pid: int) -> None:
    with contextlib.suppress(OSError):
        watched = os.pidfd_open(pid)
        try:
            select.select([watched], [], [], 5)
        finally:
            os.close(watched)


def _make_private(folder: Path) -> None:
    """Make the folder. Raises PerfcliError where somebody else can enter one that is there."""
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise PerfcliError(f"can't make {folder}: {error.strerror or error}") from error
    if not _is_private(folder / "x"):
        raise PerfcliError(f"{folder} has to be a folder that only you can enter (mode 0700)")


def _read_memory(pid: int) -> int:
    """Return the bytes of memory that a process has in use; 0 where that is not known."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")
