"""Keeps torch imported, for one command or between the commands of one folder (``perfcli warm``),
and forks a worker for each that asks. Standard library and torch only.

It listens on a socket in a folder that only its user can enter. A command sends one line of JSON,
``Order``, with three descriptors: where the worker reads its request, where it replies, its log.
The answers are lines: ``{"pid": n}``, then ``{"status": n}`` when that worker has ended, as
``Popen.returncode`` has it; or ``{"refused": why}``. ``{"stop": true}`` instead of an order ends
it. One that is kept for a command ends with it. Any other ends by itself when nobody asked for
long, when the command's folder or its own is gone, and when a file that it has imported is another
one now. Where workers are still running then, it takes no further order, and ends once it has said
how the last one ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import shutil
import signal
import socket
import struct
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from perfcli.model import Device
from perfcli.worker.starting import Use, list_import_variables

SOCKET = "socket"
LOOK_SECONDS = 5.0
"""How often it looks whether it is still wanted."""
_PATIENCE_SECONDS = 5.0
_MOST_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class KeepRequest:
    """Says what is kept, and for how long."""

    place: str
    """The folder of its socket and its caches, which is removed at its end."""
    folder: str
    """That whose commands it serves."""
    device: Device
    idle_seconds: float
    cache_dir: str
    use: Use = "compile"
    stays: bool = True
    """Whether it goes on when the command that started it is gone, and looks whether it is still
    wanted."""


@dataclass(frozen=True, slots=True)
class Order:
    """Asks for one worker."""

    environment: Mapping[str, str]
    current: str
    """Its working folder."""
    processors: Sequence[int]
    parent: int
    """The process after whose end the worker is killed."""


def connect(place: Path) -> socket.socket | None:
    """Return a connection to what listens in a folder; None where nothing does."""
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(_PATIENCE_SECONDS)
    try:
        connection.connect(str(place / SOCKET))
        if _is_own(connection):
            return connection
    except OSError:
        pass
    connection.close()
    return None


def _is_own(connection: socket.socket) -> bool:
    """Return whether the other end is a process of this user."""
    credentials = connection.getsockopt(
        socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")
    )
    return bool(struct.unpack("3i", credentials)[1] == os.geteuid())


class Keeper:
    """Serves until it is no longer wanted. Torch is imported when it is made. ``work`` is what a
    worker does with two descriptors, that of its request and that of its replies. ``command``: a
    descriptor that ends with the command, for one that does not stay."""

    def __init__(
        self, asked: KeepRequest, work: Callable[[int, int], object], command: int | None = None
    ) -> None:
        self._asked = asked
        self._work = work
        self._command = command
        self._place = Path(asked.place)
        self._keep = import_early(asked.use, asked.device, Path(asked.cache_dir))
        self._folder = _identify(asked.folder)
        self._imported = _list_imported()
        self._own = list_import_variables(os.environ)
        self._used = time.monotonic()
        self._running: dict[int, socket.socket] = {}
        self._events = selectors.DefaultSelector()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self._place / SOCKET))
        self._listener.listen()
        self._socket = _identify(str(self._place / SOCKET))
        self._events.register(self._listener, selectors.EVENT_READ)
        if command is not None:
            self._events.register(command, selectors.EVENT_READ)
        # Not by pidfd_open, which some systems do not have.
        self._ended, self._wakes = socket.socketpair()
        for end in (self._ended, self._wakes):
            end.setblocking(False)
        self._events.register(self._ended, selectors.EVENT_READ)
        signal.set_wakeup_fd(self._wakes.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._stopped = False
        for number in (signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, self._note_stop)

    def serve(self) -> NoReturn:
        """Serve to the end of this process."""
        try:
            while self._running or self._is_wanted():
                for key, _ in self._events.select(LOOK_SECONDS):
                    if key.fileobj is self._listener:
                        self._accept()
                    elif key.fileobj is self._ended:
                        self._report_ends()
                    else:
                        self._stopped = True
                        self._events.unregister(key.fileobj)
                if self._stopped:
                    self._leave()
        except BaseException:
            traceback.print_exc()
        self._leave()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)

    def _note_stop(self, *_: object) -> None:
        self._stopped = True

    def _is_wanted(self) -> bool:
        if self._stopped:
            return False
        if not self._asked.stays:
            return True
        alive = time.monotonic() - self._used < self._asked.idle_seconds
        there = _identify(self._asked.folder) == self._folder
        return alive and there and _identify(str(self._place / SOCKET)) == self._socket

    def _leave(self) -> None:
        """Take no further order, and leave the folder to a successor."""
        if self._listener.fileno() < 0:
            return
        self._stopped = True
        self._events.unregister(self._listener)
        self._listener.close()
        # Another one may have taken the place.
        if _identify(str(self._place / SOCKET)) == self._socket:
            shutil.rmtree(self._place, ignore_errors=True)

    def _accept(self) -> None:
        connection, _ = self._listener.accept()
        connection.settimeout(_PATIENCE_SECONDS)
        descriptors: list[int] = []
        try:
            if not _is_own(connection):
                return
            order, descriptors = _receive(connection)
            if "stop" in order:
                self._leave()  # before it says so: then the place is the asker's
                _say(connection, {"pid": os.getpid(), "running": len(self._running)})
                return
            if "status" in order:
                idle = time.monotonic() - self._used
                _say(connection, {"pid": os.getpid(), "idle": idle, "running": len(self._running)})
                return
            self._used = time.monotonic()
            if self._asked.stays and _list_imported(self._imported) != self._imported:
                self._leave()
                _say(connection, {"refused": "what it had imported was installed anew"})
                return
            if why := self._refuse(order["environment"]):
                _say(connection, {"refused": why})
                return
            pid = self._fork(Order(**order), descriptors, connection)
            self._hand_over(pid, connection)
            connection = socket.socket()  # that of the worker stays open
        except (OSError, ValueError, KeyError, TypeError):
            traceback.print_exc()
        finally:
            connection.close()
            for number in descriptors:
                os.close(number)

    def _refuse(self, environment: Mapping[str, str]) -> str:
        wanted = list_import_variables(environment)
        changed = [k for k in {**self._own, **wanted} if self._own.get(k) != wanted.get(k)]
        return f"it was started with another {changed[0]}" if changed else ""

    def _fork(self, order: Order, descriptors: Sequence[int], connection: socket.socket) -> int:
        if len(descriptors) != 3:
            raise ValueError("an order comes with three descriptors")
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid:
            return pid
        try:
            self._become_worker(order, descriptors, connection)
        except SystemExit:  # its command is gone already
            os._exit(1)
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
        os._exit(1)

    def _become_worker(
        self, order: Order, descriptors: Sequence[int], connection: socket.socket
    ) -> None:
        """Go on as a worker that was started for this order alone."""
        os.setsid()
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        requests, replies, log = descriptors
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.close(log)
        connection.close()
        for other in (self._listener, self._ended, self._wakes, *self._running.values()):
            other.close()
        self._events.close()
        if self._command is not None:
            os.close(self._command)
        os.environ.clear()
        os.environ.update({**order.environment, "PERFCLI_PARENT": str(order.parent)})
        tempfile.tempdir = None
        time.tzset()
        os.sched_setaffinity(0, order.processors)
        os.chdir(order.current)
        sys.argv[1:] = [str(requests), str(replies)]
        self._work(requests, replies)

    def _hand_over(self, pid: int, connection: socket.socket) -> None:
        """Watch a worker, then tell its command. One that has given up waiting may have started
        another, which reads the same request: then this one is killed."""
        self._running[pid] = connection
        try:
            _say(connection, {"pid": pid})
        except OSError:
            os.kill(pid, signal.SIGKILL)
            raise

    def _report_ends(self) -> None:
        """Say how workers ended, each to its command."""
        with contextlib.suppress(BlockingIOError):
            while self._ended.recv(_MOST_BYTES):
                pass
        for pid in list(self._running):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if not ended:
                continue
            connection = self._running.pop(pid)
            self._used = time.monotonic()
            with contextlib.suppress(OSError):
                _say(connection, {"status": os.waitstatus_to_exitcode(status)})
            connection.close()


def import_early(use: Use, device: Device, cache: Path) -> object:
    """Import torch for workers, and return what has to be kept for as long as it lives."""
    if use == "measure":
        from perfcli.measure import side

        side.import_early(device)
        return None
    from perfcli.compile import session

    return session.import_early(device, cache)


def _receive(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Return the line that a command sends, and the descriptors that come with it."""
    text, descriptors, *_ = socket.recv_fds(connection, _MOST_BYTES, 3)
    try:
        while not text.endswith(b"\n"):
            more = connection.recv(_MOST_BYTES)
            if not more or len(text) > _MOST_BYTES:
                raise ValueError("an order is one line")
            text += more
        return dict(json.loads(text)), descriptors
    except BaseException:
        for number in descriptors:
            os.close(number)
        raise


def _say(connection: socket.socket, message: Mapping[str, object]) -> None:
    connection.sendall(json.dumps(message).encode() + b"\n")


def _identify(path: str) -> tuple[int, int] | None:
    """Return what tells a file from another one of the same name; None where there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _list_imported(names: Sequence[str] | Mapping[str, Any] = ()) -> dict[str, tuple[int, int]]:
    """Return of each file that was imported, or of those with these names, when it was written and
    how long it is; of one that is gone zeros."""
    found = {}
    modules = (getattr(module, "__file__", None) for module in list(sys.modules.values()))
    for path in names or filter(None, modules):
        try:
            about = os.stat(path)
            found[path] = about.st_mtime_ns, about.st_size
        except (OSError, TypeError):
            found[path] = 0, 0
    return found
