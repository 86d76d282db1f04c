"""Runs a measuring worker in a process of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import msgspec

from perfcli.decoding import decode
from perfcli.errors import OutOfMemory, PerfcliError
from perfcli.model import Ask, MeasureRequest, Prepared, Turn
from perfcli.worker import protocol
from perfcli.worker.channel import Channel, HeldWorker, Reply
from perfcli.worker.fork_server import ForkServers
from perfcli.worker.forked_worker import Descriptors, ForkedWorker, fork_warm
from perfcli.worker.roles import PHASES, Phase
from perfcli.worker.starting import measuring_environment

T = TypeVar("T", Prepared, Turn)

# A turn hangs that takes this long, and this many times as long as its steps took when they were
# warm, whatever --timeout says of compiling.
TURN_SECONDS = 300.0
TURN_TIMES = 10


class _Reply(Reply):
    phase: str = ""
    prepared: msgspec.Raw = msgspec.Raw(b"")
    turn: msgspec.Raw = msgspec.Raw(b"")


@dataclass(frozen=True, slots=True)
class Starter:
    """Starts live workers: a ``roles.StartWorker``. ``caches`` is a folder that workers of the
    same torch share: identical kernels are compiled, and tuned, once. ``servers``: what forks
    them, unless ``perfcli warm`` keeps what does; None: each imports torch by itself."""

    caches: Path
    timeout_seconds: float | None = None
    servers: ForkServers | None = None

    def __call__(self, request: MeasureRequest, told: Callable[[Phase], None]) -> LiveWorker:
        return LiveWorker(request, self.caches, told, self.timeout_seconds, self.servers)


class LiveWorker(HeldWorker):
    """Answers, from a process of its own, as a ``roles.MeasuringWorker``."""

    def __init__(
        self,
        request: MeasureRequest,
        caches: Path,
        told: Callable[[Phase], None],
        timeout_seconds: float | None = None,
        servers: ForkServers | None = None,
    ) -> None:
        self._side = request.side
        self._told = told
        self._timeout = timeout_seconds
        self._request, self._caches, self._servers = request, caches, servers
        self._step_seconds = 0.0
        self._prepared: _Reply | None = None
        super().__init__()

    def _begin(self) -> None:
        request, servers = self._request, self._servers
        compiled = request.compile
        environment = measuring_environment(compiled, request.threads, self._folder, self._caches)

        def fork(descriptors: Descriptors) -> ForkedWorker | None:
            if servers is None:
                return None
            kept, _ = fork_warm(compiled, environment, descriptors, "measure")
            return kept or servers.fork(compiled, environment, descriptors)

        self._channel = Channel(
            *(compiled.variant.python, environment, self._folder, OutOfMemory, compiled.folder),
            fork=fork,
        )
        if compiled.device == "cuda" and request.rank is None:
            # Of one device, whatever torch uses it. Ranks would wait for each other in turn.
            name = f"device-{request.device_index or 0}"
            request = replace(request, turnstile=str(self._caches.parent / name))
        self._channel.send(protocol.encode({"measure": request}))

    def is_prepared(self) -> bool:
        while self._prepared is None and self._open().has_line():
            self._prepared = self._next(self._open())
        return self._prepared is not None

    def prepare(self) -> Prepared:
        self._open().give(self._timeout)
        self._prepared = self._prepared or self._next_but_progress()
        prepared = self._decoded(self._check(self._prepared, "prepared").prepared, Prepared)
        self._step_seconds = prepared.step_seconds
        return prepared

    def turn(self, ask: Ask) -> Turn:
        channel = self._open()
        channel.doing = "measuring"
        expected = (ask.warmup + ask.steps) * self._step_seconds
        channel.give(max(TURN_SECONDS, TURN_TIMES * expected), advice="")
        channel.send(protocol.encode(protocol.plain(ask)))
        return self._decoded(self._check(self._next_but_progress(), "turn").turn, Turn)

    def _next_but_progress(self) -> _Reply:
        while (reply := self._next(self._open())) is None:
            pass
        return reply

    def _next(self, channel: Channel) -> _Reply | None:
        """Return the next reply; None for one that only tells of progress."""
        reply = self._received(channel)
        if reply.type != "progress":
            return reply
        channel.doing = PHASES.get(reply.phase, channel.doing)
        if reply.phase in PHASES:
            self._told(reply.phase)  # type: ignore[arg-type]  # one of the phases
        return None

    def _check(self, reply: _Reply, wanted: str) -> _Reply:
        """Return the reply. Raises the error that it is, or WorkerFailed for one of another
        kind."""
        reply.raise_error()
        if reply.type != wanted:
            raise self._open().failure(
                f"the {self._side}'s worker sent {reply.type!r} instead of {wanted!r}"
            )
        return reply

    def _received(self, channel: Channel) -> _Reply:
        try:
            return channel.receive_as(_Reply)
        except PerfcliError as error:
            message = str(error).replace("the worker", f"the {self._side}'s worker", 1)
            raise type(error)(message, detail=error.detail) from error

    def _decoded(self, raw: msgspec.Raw, kind: type[T]) -> T:
        try:
            return decode(raw, kind)
        except msgspec.DecodeError as error:
            raise self._open().failure(
                f"the {self._side}'s worker sent a broken result ({error})"
            ) from error

    def _open(self) -> Channel:
        if self._channel is None:
            raise PerfcliError(f"the {self._side}'s worker is closed")
        return self._channel
