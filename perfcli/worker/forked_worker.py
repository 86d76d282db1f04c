"""Has a worker forked by the process that keeps torch imported for this folder (``keeper``), where
there is one."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

from perfcli.model import CompileRequest, Device
from perfcli.worker import protocol
from perfcli.worker.keeper import Order, connect
from perfcli.worker.starting import FIXED_LAYOUT, Use, find_kept_folder

Descriptors: TypeAlias = "tuple[int, int, int]"
"""Where a worker reads, replies and logs."""

_SWITCH = "PERFCLI_WARM"
"""0: no command uses a process that is kept."""
_END_SECONDS = 10.0


class ForkedWorker:
    """Stands for a worker that a keeper forked, as ``subprocess.Popen`` does for one that was
    started here."""

    def __init__(self, pid: int, connection: socket.socket) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._connection = connection

    def poll(self) -> int | None:
        if self.returncode is None:
            self._read(0.0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            self._read(_END_SECONDS if timeout is None else timeout)
        if self.returncode is None and timeout is None:
            self.returncode = -signal.SIGKILL  # the keeper was stopped: nobody will say
        if self.returncode is None:
            raise subprocess.TimeoutExpired("worker", timeout or 0.0)
        return self.returncode

    def _read(self, timeout: float | None) -> None:
        """Wait for the line that says how it ended. A keeper that is gone says none: then the
        worker counts as killed, since it is, soon, by whoever closes its channel."""
        self._connection.settimeout(timeout)
        try:
            line = self._connection.recv(1 << 10)
        except (BlockingIOError, TimeoutError):
            return
        except OSError:
            line = b""
        try:
            self.returncode = int(json.loads(line)["status"])
        except (ValueError, KeyError, TypeError):
            self.returncode = -signal.SIGKILL
        self._connection.close()


def fork_warm(
    request: CompileRequest,
    environment: Mapping[str, str],
    descriptors: Descriptors,
    use: Use = "compile",
) -> tuple[ForkedWorker | None, str]:
    """Return a worker that the folder's keeper forked, which reads, replies and logs at these
    descriptors; else None, and why where there is a keeper that refused."""
    on_device = request.on_device and use == "compile"
    if os.environ.get(_SWITCH) == "0" or on_device or request.variant.env:
        return None, ""
    place = find_place(os.getcwd(), request.variant.python, request.device, use)
    return ask_to_fork(place, environment, request.folder, descriptors)


def ask_to_fork(
    place: Path, environment: Mapping[str, str], current: str, descriptors: Descriptors
) -> tuple[ForkedWorker | None, str]:
    """Return a worker that the keeper forked that listens at a place; else None, and why where
    there is one that refused. ``current``: as of ``Channel``."""
    if not _is_private(place) or (connection := connect(place)) is None:
        return None, ""
    order = Order(
        {name: value for name, value in environment.items() if name != FIXED_LAYOUT},
        current or os.getcwd(),
        tuple(os.sched_getaffinity(0)),
        os.getpid(),
    )
    try:
        text = json.dumps(protocol.plain(order)).encode() + b"\n"
        sent = socket.send_fds(connection, [text], descriptors)
        if sent < len(text):  # a refusal may have closed it by now
            connection.sendall(text[sent:])
        answer = _read_line(connection)
        if "pid" in answer:
            return ForkedWorker(answer["pid"], connection), ""
    except (OSError, ValueError):
        answer = {}
    connection.close()
    return None, str(answer.get("refused", "it did not answer"))


def _read_line(connection: socket.socket) -> dict[str, Any]:
    """Return the first line of an answer: what follows is left in the socket."""
    text = b""
    while not text.endswith(b"\n"):
        if not (more := connection.recv(1)):
            raise ValueError("no answer")
        text += more
    return dict(json.loads(text))


def find_place(folder: str, python: str | None, device: Device, use: Use = "compile") -> Path:
    """Return where the keeper listens that serves a folder, an interpreter, a device and a use."""
    text = json.dumps([os.path.realpath(folder), python or sys.executable, device, use])
    return find_kept_folder() / hashlib.sha256(text.encode()).hexdigest()[:16]


def _is_private(place: Path) -> bool:
    """Return whether only this user can enter the folder that a place is in."""
    try:
        found = place.parent.lstat()
    except OSError:
        return False
    own = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
    return own and not found.st_mode & 0o077
