"""Compiles with one process per request: the parent's side.

The parent never imports torch. A worker gets an environment without the caller's torch settings,
and caches of its own that vanish with it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
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
    """Compile one request in one worker. Raises what the worker raised, or ``WorkerFailed`` with
    the end of its log where it died, hung past the timeout, or sent something else than a reply."""
    folder = make_scratch()
    try:
        environment = worker_environment(request, folder)
        python, current = request.variant.python, request.folder

        def fork(descriptors: tuple[int, int, int]) -> ForkedWorker | None:
            worker, refusal = fork_warm(request, environment, descriptors)
            if refusal:
                note = f"the warm worker is not used: {refusal} (perfcli warm starts a new one)"
                progress(Progress(index, "import", note=note))
            return worker

        channel = Channel(python, environment, folder, current=current, fork=fork)
        try:
            channel.give(timeout_seconds)
            channel.send(protocol.encode({"compile": request}), last=True)
            return weigh(_bundle(channel, index, progress), Path(request.cache_dir))
        finally:
            channel.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


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


def worker_environment(
    request: CompileRequest, folder: Path, own: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the caller's environment without its torch settings, with caches in ``folder``, what
    the variant asks for, and ``own``."""
    private = {
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
        "TRITON_CACHE_DIR": str(folder / "triton"),
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
