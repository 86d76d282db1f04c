"""Imports torch once and forks a process for each variant: none of them pays for the import, and
each starts as a fresh process does: before the fork nothing but a small function was compiled, with
default options.

Its parent sends ``{"template": CompileRequest}``, which names device, target and threads, and then
any number of ``{"generate": [CompileRequest, …]}``, ``{"branch": …}`` with a ``base`` and
``requests`` that part from it (``trunk``), ``{"binaries": …}``, and ``{"given": GivenRequest}``.
Replies are ``generated``, ``error`` or ``unread`` (the code is the base's), each with the
``number`` of its request, ``binaries``, or ``whole`` (run, blobs); then ``done``. Autograd's
threads don't survive a fork: nothing may run here that starts them.
"""

from __future__ import annotations

import contextlib
import gc
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfcli.model import CompileRequest, GivenRequest, KernelsRequest
from perfcli.worker import protocol
from perfcli.worker.replies import Message, read_left, try_work
from perfcli.worker.trunk import Trunk, lines

if TYPE_CHECKING:
    from perfcli.compile.branching import Branches


class Template:
    """Serves as the process with torch imported. ``folder``: where processes that are forked leave
    replies."""

    def __init__(self, request: CompileRequest, folder: Path) -> None:
        from perfcli.compile import code, session

        self._keep = session.import_torch(request)
        # It only saves time: a variant's own failure will say what is wrong.
        with contextlib.suppress(Exception):
            code.warm_up(request)
        # The collector would copy these pages in each process that is forked.
        gc.collect()
        gc.freeze()
        self._folder = folder
        self._forked = 0

    def answer(self, question: Message) -> Iterator[Message]:
        """Yield the replies to one question."""
        ((kind, asked),) = question.items()
        if kind == "generate":
            requests = dict(enumerate(map(_request, asked)))
            yield from self._from_the_start(requests)
        elif kind == "branch":
            requests = dict(enumerate(map(_request, asked["requests"])))
            yield from self._branched(_request(asked["base"]), requests)
        elif kind == "alone":
            # Here, without a fork: nothing can be asked after it.
            yield {**try_work(_make_generation(_request(asked), self._keep)), "number": 0}
        elif kind == "given":
            given = protocol.decode_dataclass(GivenRequest, asked)
            yield from self._at_once({0: _make_given_compilation(given, self._keep)}, 1)
        else:
            kernels = protocol.decode_dataclass(KernelsRequest, asked)
            yield from self._at_once({0: _make_compilation(kernels)}, 1)
        yield {"type": "done"}

    def _from_the_start(self, requests: Mapping[int, CompileRequest]) -> Iterator[Message]:
        works = {number: _make_generation(each, self._keep) for number, each in requests.items()}
        return self._at_once(works, _jobs(requests))

    def _at_once(self, works: Mapping[int, Callable[[], Message]], jobs: int) -> Iterator[Message]:
        """Do each of the works in a process of its own; yield replies as they come, with their
        work's number."""
        waiting, running = list(works), dict[int, int]()
        while waiting or running:
            while waiting and len(running) < jobs:
                number = waiting.pop(0)
                running[self._fork(_make_writer(works[number], self._file(number)))] = number
            pid, status = os.wait()
            ended = running.pop(pid, None)
            if ended is not None:
                yield {**read_left(self._file(ended), status), "number": ended}

    def _branched(
        self, base: CompileRequest, requests: Mapping[int, CompileRequest]
    ) -> Iterator[Message]:
        """Compile by a trunk, and what it leaves over from the start."""
        pipe, end = os.pipe()
        left = dict(requests)
        trunk = self._fork(lambda: self._grow(base, requests, end))
        os.close(end)
        try:
            for line in lines(pipe, trunk):
                for number in line.get("unread", ()):
                    del left[number]
                    yield {"type": "unread", "number": number}
                if (number := line.get("number")) is not None:
                    del left[number]
                    yield {**read_left(self._file(number), 0), "number": number}
        finally:
            os.close(pipe)
        yield from self._from_the_start(left)

    def _grow(
        self, base: CompileRequest, requests: Mapping[int, CompileRequest], pipe: int
    ) -> None:
        """Run as the trunk, and to its end in every process that it forks."""
        from perfcli.compile.branching import Branches

        trunk = Trunk(_jobs(requests), self._keep, pipe)
        branches = Branches(base, requests, trunk)
        reply = try_work(_make_generation(base, self._keep, branches))
        # What else goes wrong in a branch may be the fork's fault.
        sure = branches.is_trunk or reply["type"] == "generated" or reply["kind"] == "CompileFailed"
        if branches.number is not None and sure:
            self._file(branches.number).write_bytes(protocol.encode(reply))
            trunk.tell({"number": branches.number})
        if branches.is_trunk:
            trunk.end()
            if branches.number is not None and reply["type"] == "generated":
                trunk.tell({"unread": branches.unread(reply["unread"])})

    def _file(self, number: int) -> Path:
        return self._folder / f"reply-{number}"

    def _fork(self, run: Callable[[], None]) -> int:
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid:
            return pid
        # Nothing of the parent's may run on in here, whatever happens.
        try:
            run()
            sys.stdout.flush()
            sys.stderr.flush()
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)
        os._exit(0)


def _request(plain: Message) -> CompileRequest:
    return protocol.decode_dataclass(CompileRequest, plain)


def _jobs(requests: Mapping[int, CompileRequest]) -> int:
    return max((request.jobs for request in requests.values()), default=1)


def _make_writer(work: Callable[[], Message], path: Path) -> Callable[[], None]:
    def run() -> None:
        path.write_bytes(protocol.encode(try_work(work)))

    return run


def _make_generation(
    request: CompileRequest, keep: tuple[Any, ...], branches: Branches | None = None
) -> Callable[[], Message]:
    def work() -> Message:
        from perfcli.compile import code

        if request.folder:
            os.chdir(request.folder)
        made = code.generate(request, keep, lambda phase, done, total: None, branches)
        run, blobs = made.bundle.run, made.bundle.blobs
        known = {"code": made.code, "unread": made.unread, "run": run, "blobs": blobs}
        return {"type": "generated", **known}

    return work


def _make_given_compilation(request: GivenRequest, keep: tuple[Any, ...]) -> Callable[[], Message]:
    def work() -> Message:
        from perfcli.compile import given

        bundle = given.compile_given(request, keep, lambda phase, done, total: None)
        return {"type": "whole", "run": bundle.run, "blobs": bundle.blobs}

    return work


def _make_compilation(request: KernelsRequest) -> Callable[[], Message]:
    def work() -> Message:
        from perfcli.compile.binaries import pool

        made = list(pool.compile_texts(request))
        if not request.texts:
            made = [replace(each, blobs={}) for each in made]
        return {"type": "binaries", "kernels": made}

    return work
