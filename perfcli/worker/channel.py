"""Handles a worker process and the pipes to it: lines out, lines in, its log, its end.

A process group of its own, to be killed as a whole; standard output and error are only a log, so
whatever a model prints there can't be taken for a reply.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Protocol, TypeAlias, TypeVar

import msgspec

from perfcli.decoding import decode
from perfcli.errors import PerfcliError, WorkerFailed
from perfcli.machine.scratch import make_scratch
from perfcli.model import Bundle, Run
from perfcli.worker import protocol
from perfcli.worker.import_ahead import Importing
from perfcli.worker.replies import signal_name
from perfcli.worker.starting import PARENT, list_command

_THREAD = re.compile(r"Current thread 0x\w+ .*\(most recent call first\):")
_FRAME = re.compile(r'  File "(?P<file>.+)", line (?P<line>\d+) in (?P<function>.+)')
_IMPORTING = "<frozen importlib"


def _innermost(log: Sequence[str]) -> str:
    """Return ``it was in …/model.py:7, step``: the innermost frame that is not Python's import
    machinery; empty where the log has no stack."""
    begins = [number for number, line in enumerate(log) if _THREAD.match(line)]
    if not begins:
        return ""
    frames = takewhile(lambda found: found, map(_FRAME.match, log[begins[-1] + 1 :]))
    for frame in frames:
        if frame and not frame["file"].startswith(_IMPORTING):
            return f"it was in {frame['file']}:{frame['line']}, {frame['function']}"
    return ""


T = TypeVar("T")

LOG_TAIL_LINES = 20
_PROFILERS = "USDT:"
"""How the lines begin that torch 2.13 prints whenever a profile starts or ends."""
STACK_SECONDS = 2.0
POLL_SECONDS = 0.5
STEPPED_BACK = 10
"""Its niceness: beside others a tenth of a processor."""
MORE_TIME = "--timeout SECONDS gives it more"
_READ_BYTES = 1 << 20


def _list_children(parent: int) -> list[int]:
    """Return the processes that a process has started and that live."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            # The name in front of the last bracket may have spaces.
            if int(path.read_text().rpartition(")")[2].split()[1]) == parent:
                found.append(int(path.parent.name))
    return found


def _signal(processes: Sequence[int], number: signal.Signals) -> None:
    for process in processes:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process, number)


class _Process(Protocol):
    """Does what a channel asks of ``subprocess.Popen``."""

    @property
    def pid(self) -> int: ...

    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int: ...


Fork: TypeAlias = Callable[[tuple[int, int, int]], _Process | None]


class Reply(msgspec.Struct):
    """Holds what any worker may reply; each kind of worker adds its own."""

    type: str
    kind: str = ""
    message: str = ""
    detail: str = ""

    def raise_error(self) -> None:
        """Raise what the worker says went wrong, where that is what it says."""
        if self.type == "error":
            raise protocol.error(self.kind, self.message, self.detail)


def read_bundle(
    run: msgspec.Raw, blobs: msgspec.Raw, failure: Callable[[str], WorkerFailed]
) -> Bundle:
    """Return the run of a reply with its texts. Raises the error that ``failure`` makes where it is
    none."""
    try:
        return Bundle(decode(run, Run), decode(blobs, dict[str, str]))
    except msgspec.DecodeError as error:
        raise failure(f"the worker sent a broken result ({error})") from error


class Channel:
    """Connects to one worker. ``doing`` is what the worker is at, for messages about its end.
    ``killed``: the error for a worker that somebody else ended with SIGKILL, as Linux does where
    memory is full. ``current`` is its working folder; empty: the caller's. ``stays``: it goes on
    when its caller is gone. ``fork`` may return a worker that somebody else has made, which reads,
    replies and logs at three descriptors; None: one is started here. ``made``: a process that has
    been started for this."""

    def __init__(
        self,
        python: str | None,
        environment: Mapping[str, str],
        folder: Path,
        killed: type[WorkerFailed] = WorkerFailed,
        current: str = "",
        stays: bool = False,
        fork: Fork | None = None,
        made: Importing | None = None,
    ) -> None:
        self._log = folder / "log"
        self._deadline: float | None = None
        self._timeout = 0.0
        self._advice = ""
        self._killed = killed
        self._rest = b""
        self._lines: list[bytes] = []
        self._closed = False
        self._paused: list[int] = []
        self._paused_at = 0.0
        self.doing = "starting"
        if made is not None:
            self._process: _Process = made.process
            self._replies, self._requests = made.replies, os.fdopen(made.requests, "wb")
            return
        request_read, request_write = os.pipe()
        reply_read, reply_write = os.pipe()
        command = list_command(python, request_read, reply_write)
        try:
            with self._log.open("wb") as log:
                forked = fork((request_read, reply_write, log.fileno())) if fork else None
                parent = {} if stays else {PARENT: str(os.getpid())}
                self._process = forked or subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    env={**environment, **parent},
                    cwd=current or None,
                    pass_fds=(request_read, reply_write),
                    start_new_session=True,
                )
        except BaseException as error:
            os.close(reply_read)
            os.close(request_write)
            if not isinstance(error, OSError):
                raise
            raise PerfcliError(f"cannot start {command[0]}: {error.strerror}") from error
        finally:
            os.close(request_read)
            os.close(reply_write)
        self._replies = reply_read
        self._requests = os.fdopen(request_write, "wb")

    def give(self, seconds: float | None, advice: str = MORE_TIME) -> None:
        """Give the worker this long from now on; None: for ever. ``advice`` is for one that was not
        done by then."""
        self._advice = f" ({advice})" if advice else ""
        self._timeout = seconds or 0.0
        self._deadline = time.monotonic() + seconds if seconds else None

    def send(self, line: bytes, *, last: bool = False) -> None:
        """Send a line. A worker that is gone is noticed when its reply is waited for."""
        with contextlib.suppress(BrokenPipeError):
            self._requests.write(line)
            self._requests.flush()
        if last:
            self._close_requests()

    def has_line(self) -> bool:
        """Return whether ``receive`` would return at once."""
        while not self._lines and select.select([self._replies], [], [], 0)[0]:
            chunk = os.read(self._replies, _READ_BYTES)
            if not chunk:
                return False
            self._split(chunk)
        return bool(self._lines)

    def receive(self) -> bytes:
        """Return the next line. Raises WorkerFailed where there will be none, or not in time."""
        while not self._lines:
            chunk = os.read(self._replies, _READ_BYTES) if self._wait() else b""
            if not chunk:
                raise self._ended()
            self._split(chunk)
        return self._lines.pop(0)

    def _split(self, chunk: bytes) -> None:
        *whole, self._rest = (self._rest + chunk).split(b"\n")
        self._lines += whole

    def receive_as(self, kind: type[T]) -> T:
        """Return the next line, decoded. Raises as ``receive``, and WorkerFailed where it is
        none."""
        line = self.receive()
        try:
            return decode(line, kind)
        except msgspec.DecodeError as error:
            raise self.failure(f"the worker sent what is not a reply ({error})") from error

    def failure(self, message: str, kind: type[WorkerFailed] = WorkerFailed) -> WorkerFailed:
        """Return the error with the end of the worker's log."""
        lines = [line for line in self._log_lines() if not line.startswith(_PROFILERS)]
        tail = "\n".join(lines[-LOG_TAIL_LINES:])
        return kind(message, detail=f"the end of its log:\n{tail}" if tail else "")

    def release(self) -> int:
        """Close the pipes to a worker that stays, and return its id."""
        self._closed = True
        os.close(self._replies)
        self._close_requests()
        return self._process.pid

    def step_back(self) -> None:
        """Let the worker, and those that it will start, have the processors that others leave. One
        that was started with more niceness keeps it."""
        pid = self._process.pid
        with contextlib.suppress(OSError):  # it has ended
            niceness = max(os.getpriority(os.PRIO_PROCESS, pid), STEPPED_BACK)
            os.setpriority(os.PRIO_PROCESS, pid, niceness)

    def pause(self) -> None:
        """Stop the worker and those that compile for it until ``resume``; that time is not counted.
        An assembler that they started goes on: it is watched by the clock."""
        if self._closed:
            return
        self._paused_at = time.monotonic()
        self._paused = [self._process.pid]
        _signal(self._paused, signal.SIGSTOP)
        children = _list_children(self._process.pid)
        _signal(children, signal.SIGSTOP)
        self._paused += children

    def resume(self) -> None:
        _signal(self._paused, signal.SIGCONT)
        if self._deadline is not None:
            self._deadline += time.monotonic() - self._paused_at
        self._paused = []

    def kill(self) -> None:
        """Kill the process and all that it started; the pipes stay, for who waits at them."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> None:
        """Kill the process and all that it started."""
        if self._closed:
            return
        self._closed = True
        os.close(self._replies)
        self.kill()
        self._process.wait()
        self._close_requests()

    def _close_requests(self) -> None:
        with contextlib.suppress(BrokenPipeError):
            self._requests.close()

    def _wait(self) -> bool:
        """Wait until there is something to read; return False where the worker died before it.
        Processes that it started can hold the pipe open: its end alone does not tell."""
        while True:
            late = self._deadline is not None and time.monotonic() >= self._deadline
            if late and not self._paused:
                self._dump_stack()
                raise self._timed_out()
            ended = self._process.poll() is not None
            if select.select([self._replies], [], [], 0 if ended else self._patience())[0]:
                return True
            if ended:
                return False

    def _patience(self) -> float:
        """Return seconds until the next look whether the worker still lives and may go on."""
        if self._deadline is None or self._paused:
            return POLL_SECONDS
        return min(max(self._deadline - time.monotonic(), 0), POLL_SECONDS)

    def _ended(self) -> WorkerFailed:
        try:
            code = self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            return self.failure("the worker closed its pipe without a reply")
        if code == -signal.SIGKILL:  # not by us: nobody waits for a worker that was closed
            message = f"the worker was killed by SIGKILL while {self.doing} (out of memory?)"
            return self.failure(message, self._killed)
        if code < 0:
            return self.failure(f"the worker was killed by {signal_name(-code)} while {self.doing}")
        return self.failure(
            f"the worker ended with exit code {code} and no reply while {self.doing}"
        )

    def _timed_out(self) -> WorkerFailed:
        message = (
            f"the worker did not finish within {self._timeout:g} s and was stopped while "
            f"{self.doing}{self._advice}"
        )
        place = _innermost(self._log_lines())
        return WorkerFailed(message, detail=place) if place else self.failure(message)

    def _log_lines(self) -> list[str]:
        try:
            return self._log.read_text(errors="replace").splitlines()
        except OSError:
            return []

    def _dump_stack(self) -> None:
        """Make faulthandler write the Python stack into the log, to see where it hangs."""
        with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
            os.kill(self._process.pid, signal.SIGABRT)
            self._process.wait(timeout=STACK_SECONDS)


class HeldWorker:
    """Holds one worker, with a folder for its log and caches that goes with it. ``_begin`` sets
    ``_channel``, and tells the worker what to do."""

    def __init__(self) -> None:
        self._folder = make_scratch()
        self._channel: Channel | None = None
        try:
            self._begin()
        except BaseException:
            self.close()
            raise

    def _begin(self) -> None:
        raise NotImplementedError

    def _open(self) -> Channel:
        if self._channel is None:
            raise WorkerFailed("the worker is closed")
        return self._channel

    def kill(self) -> None:
        """End the process from another thread: who waits for it notices."""
        if (channel := self._channel) is not None:
            channel.kill()

    def close(self) -> None:
        """End the process, whatever it does; may be called again."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        shutil.rmtree(self._folder, ignore_errors=True)
