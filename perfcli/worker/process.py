"""Compiles with one process per request: the parent's side.

The parent never imports torch. A worker gets an environment without the caller's torch settings,
and caches of its own that vanish with it.
"""

from __future__ import annotations

import os
import shutil
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from perfcli.machine.environment import clean_environment
from perfcli.machine.scratch import make_scratch
from perfcli.model import Bundle, CompileRequest, Run
from perfcli.worker import protocol
from perfcli.worker.channel import Channel
from perfcli.worker.forked_worker import ForkedWorker, fork_warm
from perfcli.worker.roles import Progress
from perfcli.worker.weighing import weigh

PHASES = {
    "import": "importing torch",
    "trace": "building and tracing the model",
    "choices": "compiling implementations to choose from",
    "kernels": "compiling kernels",
    "check": "comparing outputs with the reference",
    "warm": "warming up",
}


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
    """Compiles each request in a process of its own, two at a time: while one traces, which takes
    one core, another one can use the rest for its kernels."""

    timeout_seconds: float | None = None

    def compile(
        self, requests: Sequence[CompileRequest], progress: Callable[[Progress], None]
    ) -> Iterator[Bundle]:
        waiting = deque(enumerate(requests))
        running = deque[_Compilation]()
        at_once = _AT_ONCE if len(requests) > 1 and min(r.jobs for r in requests) > 1 else 1
        try:
            while waiting or running:
                while waiting and len(running) < at_once:
                    index, request = waiting.popleft()
                    request = replace(request, jobs=-(-request.jobs // at_once))
                    begun = _Compilation(request, index, progress, self.timeout_seconds)
                    running.append(begun)
                yield running[0].finish()
                running.popleft()
        finally:
            for each in running:
                each.close()


_AT_ONCE = 2


def compile_in_process(
    request: CompileRequest,
    index: int,
    progress: Callable[[Progress], None],
    timeout_seconds: float | None = None,
) -> Bundle:
    """Compile one request in one worker. Raises as ``ProcessExecutor.compile``."""
    return _Compilation(request, index, progress, timeout_seconds).finish()


class _Compilation:
    """Compiles one request in one worker, which begins at once."""

    def __init__(
        self,
        request: CompileRequest,
        index: int,
        progress: Callable[[Progress], None],
        timeout_seconds: float | None,
    ) -> None:
        self._request, self._index, self._progress = request, index, progress
        self._timeout = timeout_seconds
        self._channel: Channel | None = None
        self._folder = make_scratch()
        try:
            self._channel = self._start()
            self._channel.send(protocol.encode({"compile": request}), last=True)
        except BaseException:
            self.close()
            raise

    def _start(self) -> Channel:
        request = self._request
        environment = worker_environment(request, self._folder)

        def fork(descriptors: tuple[int, int, int]) -> ForkedWorker | None:
            worker, refusal = fork_warm(request, environment, descriptors)
            if refusal:
                note = f"the warm worker is not used: {refusal} (perfcli warm starts a new one)"
                self._progress(Progress(self._index, "import", note=note))
            return worker

        python, current = request.variant.python, request.folder
        return Channel(python, environment, self._folder, current=current, fork=fork)

    def finish(self) -> Bundle:
        """Wait for the result. Raises what the worker raised, or ``WorkerFailed`` with the end of
        its log where it died, hung past the timeout, or sent something else than a reply."""
        channel = self._channel
        assert channel is not None
        try:
            channel.give(self._timeout)
            bundle = _bundle(channel, self._index, self._progress)
        finally:
            self.close()
        return weigh(bundle, Path(self._request.cache_dir))

    def close(self) -> None:
        """End the worker, whatever it does; may be called again."""
        if self._channel is not None:
            self._channel.close()
        shutil.rmtree(self._folder, ignore_errors=True)


def _bundle(channel: Channel, index: int, progress: Callable[[Progress], None]) -> Bundle:
    while True:
        reply = channel.receive_as(_Reply)
        if reply.type == "progress":
            channel.doing = PHASES.get(reply.phase, channel.doing)
            progress(_progress(index, reply))
        elif reply.type == "note":
            progress(Progress(index, "kernels", note=reply.message))
        elif reply.type == "error":
            raise protocol.error(reply.kind, reply.message, reply.detail)
        else:
            bundle = _decode(channel, reply)
            progress(Progress(index, "done"))
            return bundle


def _decode(channel: Channel, reply: _Reply) -> Bundle:
    try:
        return Bundle(
            msgspec.json.decode(reply.run, type=Run),
            msgspec.json.decode(reply.blobs, type=dict[str, str]),
        )
    except msgspec.DecodeError as error:
        raise channel.failure(f"the worker sent a broken result ({error})") from error


def find_triton_cache(request: CompileRequest) -> Path:
    """Return the folder in which Triton keeps binaries for who measures them, and for the next
    command; it finds them by all that decides them."""
    return Path(request.cache_dir) / "triton"


def worker_environment(
    request: CompileRequest, folder: Path, own: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the caller's environment without its torch settings, with caches in ``folder``, what
    the variant asks for, and ``own``."""
    private = {
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
        "TRITON_CACHE_DIR": str(
            find_triton_cache(request) if request.measured else folder / "triton"
        ),
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
        # Inductor orders some sets by hash: the same input must give the same code.
        "PYTHONHASHSEED": "0",
        "TMPDIR": str(folder),
        **(own or {}),
    }
    if request.device == "cuda" and not request.on_device:
        private["CUDA_VISIBLE_DEVICES"] = ""  # compiled as if it were not here
    return clean_environment(os.environ, {**private, **request.variant.env})


def _progress(index: int, reply: _Reply) -> Progress:
    phase: Any = reply.phase if reply.phase in PHASES else "trace"
    return Progress(index, phase, reply.done, reply.total)
