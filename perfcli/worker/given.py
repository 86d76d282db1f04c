"""Compiles what the parent's own process holds: workers that have torch imported, one per device,
target and environment, and a fork of them for each request (``forking``)."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import TypeAlias

from perfcli.errors import PerfcliError, WorkerFailed
from perfcli.model import Bundle, CompileRequest, GivenRequest
from perfcli.worker.channel import read_bundle
from perfcli.worker.template import WarmWorker
from perfcli.worker.weighing import weigh

Place: TypeAlias = "tuple[int, str]"

MOST_WORKERS = 3
"""Each holds a torch in memory."""


class GivenCompiler:
    """Compiles given callables. ``compile`` may be called from any thread, by one at a time; in a
    process that was forked it starts workers of that process's own."""

    def __init__(self) -> None:
        self._workers: dict[Place, WarmWorker] = {}
        self._turn = threading.Lock()

    def compile(self, given: GivenRequest, timeout_seconds: float | None = None) -> Bundle:
        """Compile one request. Raises UserCodeFailed, CompileFailed or WorkerFailed; after the
        latter the next request gets a new worker."""
        with self._turn:
            try:
                return self._compiled(given, timeout_seconds)
            except WorkerFailed:
                self._end(_place(given.compile))
                raise
            except PerfcliError:
                raise
            except BaseException:
                # A reply that nobody read would be taken for that to the next question.
                self._end(_place(given.compile))
                raise

    def _compiled(self, given: GivenRequest, timeout_seconds: float | None) -> Bundle:
        worker = self._worker(given.compile, timeout_seconds)
        replies = list(worker.ask({"given": given}))
        if len(replies) != 1:
            raise WorkerFailed(f"the worker sent {len(replies)} replies to one question")
        (reply,) = replies
        reply.raise_error()
        return weigh(
            read_bundle(reply.run, reply.blobs, WorkerFailed), Path(given.compile.cache_dir)
        )

    def close(self) -> None:
        """End its workers; may be called again."""
        for place in list(self._workers):
            self._end(place)

    def _worker(self, request: CompileRequest, timeout_seconds: float | None) -> WarmWorker:
        place = _place(request)
        found = self._workers.pop(place, None)
        if found is None:
            while len(self._workers) >= MOST_WORKERS:
                self._end(next(iter(self._workers)))
            found = WarmWorker(request, timeout_seconds)
        found.timeout_seconds = timeout_seconds
        self._workers[place] = found  # the last one: used most recently
        return found

    def _end(self, place: Place) -> None:
        worker = self._workers.pop(place, None)
        if worker is not None and place[0] == os.getpid():
            worker.close()


def _place(request: CompileRequest) -> Place:
    """Return what decides in which process it can be compiled: all that is fixed before the
    fork."""
    target = request.target.name if request.target else ""
    fixed = [request.device, target, request.threads, request.cache_dir, request.variant.python]
    return os.getpid(), json.dumps([*fixed, sorted(request.variant.env.items())])
