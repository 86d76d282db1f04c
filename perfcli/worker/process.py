"""The parent's side: one process per request, its log in a file, its replies on a pipe.

The parent never imports torch. A worker gets an environment without the caller's torch settings,
caches of its own that vanish with it, and a process group of its own to be killed as a whole.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from perfcli.environment import clean_environment
from perfcli.errors import PerfcliError, WorkerFailed
from perfcli.model import Bundle, CompileRequest, Run
from perfcli.worker import protocol, stack
from perfcli.worker.executor import Progress

BOOTSTRAP = Path(__file__).with_name("bootstrap.py")
LOG_TAIL_LINES = 20
STACK_SECONDS = 2.0
_PHASES = {
    "import": "importing torch",
    "trace": "building and tracing the model",
    "kernels": "compiling kernels",
}
POLL_SECONDS = 0.5


class _Reply(msgspec.Struct):
    type: str
    phase: str = ""
    done: int = 0
    total: int | None = None
    kind: str = ""
    message: str = ""
    detail: str = ""
    run: msgspec.Raw = msgspec.Raw(b"")
    blobs: msgspec.Raw = msgspec.Raw(b"")


@dataclass(frozen=True, slots=True)
class ProcessExecutor:
    """Compiles each request in a fresh process, one after the other: every worker uses all
    cores for its kernels already."""

    timeout_seconds: float | None = None

    def compile(
        self, requests: Sequence[CompileRequest], progress: Callable[[Progress], None]
    ) -> Iterator[Bundle]:
        for index, request in enumerate(requests):
            yield compile_in_process(request, index, progress, self.timeout_seconds)


def compile_in_process(
    request: CompileRequest,
    index: int,
    progress: Callable[[Progress], None],
    timeout_seconds: float | None = None,
) -> Bundle:
    """One request in one worker. Raises what the worker raised, or ``WorkerFailed`` with the end
    of its log where it died, hung past the timeout, or sent something else than a reply."""
    folder = Path(tempfile.mkdtemp(prefix="perfcli-"))
    try:
        return _Worker(request, folder, timeout_seconds).bundle(index, progress)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class _Worker:
    def __init__(
        self, request: CompileRequest, folder: Path, timeout_seconds: float | None
    ) -> None:
        self._log = folder / "log"
        self._phase = "starting"
        self._timeout = timeout_seconds
        self._deadline = time.monotonic() + timeout_seconds if timeout_seconds else None
        request_read, request_write = os.pipe()
        self._replies, reply_write = os.pipe()
        python = request.variant.python or sys.executable
        command = [python, "-P", "-X", "faulthandler"]
        # torch says so where there is no NumPy; nothing here needs it.
        command += ["-W", "ignore:Failed to initialize NumPy", str(BOOTSTRAP)]
        command += [str(request_read), str(reply_write)]
        try:
            with self._log.open("wb") as log:
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    env=_environment(request, folder),
                    pass_fds=(request_read, reply_write),
                    start_new_session=True,
                )
        except OSError as error:
            os.close(self._replies)
            os.close(request_write)
            raise PerfcliError(f"cannot start {python}: {error.strerror}") from error
        finally:
            os.close(request_read)
            os.close(reply_write)
        with contextlib.suppress(BrokenPipeError), os.fdopen(request_write, "wb") as pipe:
            pipe.write(protocol.encode(_plain(request)))

    def bundle(self, index: int, progress: Callable[[Progress], None]) -> Bundle:
        try:
            for line in self._lines():
                reply = self._parse(line)
                if reply.type == "progress":
                    self._phase = _PHASES.get(reply.phase, self._phase)
                    progress(_progress(index, reply))
                elif reply.type == "error":
                    raise _error(reply)
                else:
                    bundle = self._bundle(reply)
                    progress(Progress(index, "done"))
                    return bundle
            raise self._failure(self._how_it_ended())
        finally:
            os.close(self._replies)
            self._kill()

    def _lines(self) -> Iterator[bytes]:
        """Whole lines as they come, until the worker closes its end or is gone."""
        chunks: list[bytes] = []
        while self._wait():
            chunk = os.read(self._replies, 1 << 20)
            if not chunk:
                return
            *whole, rest = chunk.split(b"\n")
            for part in whole:
                yield b"".join([*chunks, part])
                chunks = []
            chunks.append(rest)

    def _wait(self) -> bool:
        """Until there is something to read; False where the worker died before it. Processes
        that it started can hold the pipe open: its end alone does not tell."""
        while True:
            if self._deadline is not None and time.monotonic() >= self._deadline:
                self._dump_stack()
                raise self._timed_out(
                    f"the worker did not finish within {self._timeout:g} s and was stopped while "
                    f"{self._phase} (--timeout SECONDS gives it more)"
                )
            ended = self._process.poll() is not None
            if select.select([self._replies], [], [], 0 if ended else self._patience())[0]:
                return True
            if ended:
                return False

    def _patience(self) -> float:
        """Seconds until the next look whether the worker still lives and may go on."""
        if self._deadline is None:
            return POLL_SECONDS
        return min(max(self._deadline - time.monotonic(), 0), POLL_SECONDS)

    def _parse(self, line: bytes) -> _Reply:
        try:
            return msgspec.json.decode(line, type=_Reply)
        except msgspec.DecodeError as error:
            raise self._failure(f"the worker sent what is not a reply ({error})") from error

    def _bundle(self, reply: _Reply) -> Bundle:
        try:
            return _bundle(reply)
        except msgspec.DecodeError as error:
            raise self._failure(f"the worker sent a broken result ({error})") from error

    def _how_it_ended(self) -> str:
        try:
            code = self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            return "the worker closed its pipe without a reply"
        if code < 0:
            name = _signal_name(-code)
            hint = " (out of memory?)" if name == "SIGKILL" else ""
            return f"the worker was killed by {name} while {self._phase}{hint}"
        return f"the worker ended with exit code {code} and no reply while {self._phase}"

    def _failure(self, message: str) -> WorkerFailed:
        tail = "\n".join(self._log_lines()[-LOG_TAIL_LINES:])
        return WorkerFailed(message, detail=f"the end of its log:\n{tail}" if tail else "")

    def _timed_out(self, message: str) -> WorkerFailed:
        place = stack.innermost(self._log_lines())
        return WorkerFailed(message, detail=place) if place else self._failure(message)

    def _log_lines(self) -> list[str]:
        try:
            return self._log.read_text(errors="replace").splitlines()
        except OSError:
            return []

    def _dump_stack(self) -> None:
        """Where it hangs: faulthandler writes the Python stack into the log."""
        with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
            os.kill(self._process.pid, signal.SIGABRT)
            self._process.wait(timeout=STACK_SECONDS)

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"


def _environment(request: CompileRequest, folder: Path) -> dict[str, str]:
    own = {
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
        "TRITON_CACHE_DIR": str(folder / "triton"),
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
        # Inductor orders some sets by hash: the same input must give the same code.
        "PYTHONHASHSEED": "0",
        "TMPDIR": str(folder),
    }
    if request.device == "cuda" and not request.on_device:
        own["CUDA_VISIBLE_DEVICES"] = ""  # compiled as if it were not here
    return clean_environment(os.environ, {**own, **request.variant.env})


def _plain(request: CompileRequest) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(request)
    return plain


def _progress(index: int, reply: _Reply) -> Progress:
    phase: Any = reply.phase if reply.phase in ("import", "trace", "kernels") else "trace"
    return Progress(index, phase, reply.done, reply.total)


def _error(reply: _Reply) -> PerfcliError:
    kind = protocol.ERROR_KINDS.get(reply.kind, PerfcliError)
    return kind(reply.message, detail=reply.detail)


def _bundle(reply: _Reply) -> Bundle:
    return Bundle(
        msgspec.json.decode(reply.run, type=Run),
        msgspec.json.decode(reply.blobs, type=dict[str, str]),
    )
