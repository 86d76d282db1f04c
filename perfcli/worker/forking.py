"""A worker that imports torch once and forks a process for each variant: none of them pays for the
import, and each starts as a fresh process does: before the fork nothing but a small function was
compiled, with default options.

Its parent sends ``{"template": CompileRequest}``, which names device, target and threads, and then
any number of ``{"generate": [CompileRequest, …]}``, all at once, and ``{"binaries": …}``. Replies
are ``generated`` or ``error``, each with the ``number`` of its request, or ``binaries``; then
``done``. Autograd's threads don't survive a fork: nothing may run here that starts them.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from perfcli.errors import PerfcliError, WorkerFailed
from perfcli.model import CompileRequest, KernelsRequest
from perfcli.worker import failures, protocol

Message = Mapping[str, Any]


class Template:
    """This process, torch imported. ``folder``: where processes that are forked leave replies."""

    def __init__(self, request: CompileRequest, folder: Path) -> None:
        from perfcli.compile import code, session

        self._keep = session.import_torch(request)
        # It only saves time: a variant's own failure will say what is wrong.
        with contextlib.suppress(Exception):
            code.warm_up(request)
        self._folder = folder
        self._forked = 0

    def answer(self, question: Message) -> Iterator[Message]:
        """The replies to one question."""
        ((kind, asked),) = question.items()
        if kind == "generate":
            requests = [protocol.decode_dataclass(CompileRequest, plain) for plain in asked]
            yield from self._at_once([_generating(request, self._keep) for request in requests])
        elif kind == "alone":
            # Here, without a fork: nothing can be asked after it.
            request = protocol.decode_dataclass(CompileRequest, asked)
            yield {**_tried(_generating(request, self._keep)), "number": 0}
        else:
            kernels = protocol.decode_dataclass(KernelsRequest, asked)
            yield from self._at_once([_compiling(kernels)])
        yield {"type": "done"}

    def _at_once(self, works: Sequence[Callable[[], Message]]) -> Iterator[Message]:
        """Each in a process of its own; replies as they come, with their work's number."""
        files = [self._folder / f"reply-{number}" for number in range(len(works))]
        running = {self._fork(work, files[number]): number for number, work in enumerate(works)}
        while running:
            pid, status = os.wait()
            number = running.pop(pid, None)
            if number is not None:
                yield {**_left_by(files[number], status), "number": number}

    def _fork(self, work: Callable[[], Message], path: Path) -> int:
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid:
            return pid
        # Nothing of the parent's may run on in here, whatever happens.
        try:
            path.write_bytes(protocol.encode(_tried(work)))
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)
        os._exit(0)


def _generating(request: CompileRequest, keep: tuple[Any, ...]) -> Callable[[], Message]:
    def work() -> Message:
        from perfcli.compile import code

        made = code.generate(request, keep, lambda phase, done, total: None)
        run, blobs = made.bundle.run, made.bundle.blobs
        known = {"code": made.code, "unread": made.unread, "run": run, "blobs": blobs}
        return {"type": "generated", **known}

    return work


def _compiling(request: KernelsRequest) -> Callable[[], Message]:
    def work() -> Message:
        from perfcli.compile import pool

        return {"type": "binaries", "kernels": pool.binaries(request)}

    return work


def _tried(work: Callable[[], Message]) -> Message:
    try:
        return work()
    except PerfcliError as error:
        return protocol.error_message(error)
    except Exception as error:
        traceback.print_exc()
        return protocol.error_message(failures.explained(error))


def _left_by(path: Path, status: int) -> Message:
    """What a process that ended wrote, or how it ended without."""
    try:
        reply: Message = json.loads(path.read_bytes())
    except (OSError, ValueError):
        killed = os.WIFSIGNALED(status)
        how = (
            f"was killed by {failures.signal_name(os.WTERMSIG(status))}"
            if killed
            else f"ended with exit code {os.waitstatus_to_exitcode(status)} and no reply"
        )
        return protocol.error_message(WorkerFailed(f"the worker {how} while compiling"))
    path.unlink(missing_ok=True)
    return reply
