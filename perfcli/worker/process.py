"""Compiles with one process per request: the parent's side.

The parent never imports torch. A worker gets an environment without the caller's torch settings,
and caches of its own that vanish with it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Lock
from typing import Any, TypeAlias

import msgspec

from perfcli.errors import PerfcliError
from perfcli.machine.driver import device_count
from perfcli.model import Bundle, CompileRequest
from perfcli.worker import protocol
from perfcli.worker.channel import Channel, HeldWorker, Reply, read_bundle
from perfcli.worker.fork_server import ForkServers
from perfcli.worker.forked_worker import ForkedWorker, fork_warm
from perfcli.worker.needs import USUAL_NEEDS, Needs, measure_memory
from perfcli.worker.roles import PHASES, Compiled, Interlude, Progress
from perfcli.worker.starting import VISIBLE_GPUS, worker_environment
from perfcli.worker.weighing import weigh


class _Reply(Reply):
    phase: str = ""
    done: int = 0
    total: int | None = None
    run: msgspec.Raw = msgspec.Raw(b"")
    blobs: msgspec.Raw = msgspec.Raw(b"")


@dataclass(frozen=True, slots=True)
class ProcessExecutor:
    """Compiles each request in a process of its own, several at a time: while one traces, which
    takes one core, others can use the rest for their kernels."""

    timeout_seconds: float | None = None
    needs: Needs = USUAL_NEEDS
    interlude: Interlude | None = None

    def compile(
        self, requests: Sequence[CompileRequest], progress: Callable[[Progress], None]
    ) -> Generator[tuple[int, Compiled], None, None]:
        fitting = []
        for number, request in enumerate(requests):
            if refusal := self.needs.refuse(request, measure_memory(), "this machine"):
                yield number, refusal
            else:
                fitting.append(number)
        if fitting:
            at_once = self._count_at_once([requests[number] for number in fitting])
            # One that is yet to begin would not wait.
            interlude = self.interlude if at_once >= len(fitting) else None
            # Those of a GPU each see another one, or none.
            alike = not any(requests[n].on_device for n in fitting)
            forked = alike and len(fitting) > 1
            servers = ForkServers("compile", interlude is not None) if forked else None
            with closing(_Crew(at_once, self.timeout_seconds, interlude, servers)) as crew:
                gpus = _list_gpus() if any(requests[n].on_device for n in fitting) else []
                for turn, number in enumerate(fitting):
                    share = -(-requests[number].jobs // at_once)
                    gpu = gpus[turn % len(gpus)] if gpus and requests[number].on_device else None
                    crew.begin(number, replace(requests[number], jobs=share), gpu)
                yield from crew.finish(len(fitting), progress)

    def _count_at_once(self, requests: Sequence[CompileRequest]) -> int:
        """Return how many compile at a time: no more than there are jobs, and than memory holds."""
        memory = max(map(self.needs.memory_of, requests))
        jobs = min(request.jobs for request in requests)
        return max(1, min(len(requests), jobs, max(_LEAST_AT_ONCE, measure_memory() // memory)))


_LEAST_AT_ONCE = 2
"""Both sides of a comparison are compiled at the same time, whatever memory seems to be left."""


def _list_gpus() -> list[str]:
    """Return the names of the GPUs that are visible here, which workers take in turns."""
    count = device_count()
    named = [name for name in os.environ.get(VISIBLE_GPUS, "").split(",") if name]
    return named[:count] if named else [str(number) for number in range(count)]


def compile_in_process(request: CompileRequest, timeout_seconds: float | None = None) -> Bundle:
    """Compile one request in one worker. Raises what ``ProcessExecutor.compile`` yields as an
    error."""
    bundle = _Compilation(request, 0, lambda _: None, timeout_seconds).finish()
    return weigh(bundle, Path(request.cache_dir))


_LOOK_SECONDS = 0.05
"""How often it looks whether an interlude is due."""
_HOLD_SECONDS = 12.0
"""How long compilations wait for those who get ready for an interlude: with more code, which takes
longer, both at the same time are sooner done."""
_Told: TypeAlias = "Progress | tuple[int, Bundle | BaseException]"


class _Crew:
    """Has threads wait for workers, so many at a time; what they tell is told in one thread. Where
    something is waited for that is done in between, the workers leave the processors to it."""

    def __init__(
        self,
        at_once: int,
        timeout_seconds: float | None,
        interlude: Interlude | None = None,
        servers: ForkServers | None = None,
    ) -> None:
        self._timeout = timeout_seconds
        self._interlude = interlude
        self._servers = servers
        self._held: list[_Compilation] = []
        self._held_until = 0.0
        self._pool = ThreadPoolExecutor(at_once, thread_name_prefix="perfcli")
        self._told: SimpleQueue[_Told] = SimpleQueue()
        self._lock = Lock()
        self._weighing = Lock()
        self._running: set[_Compilation] = set()
        self._closed = False

    def begin(self, number: int, request: CompileRequest, gpu: str | None = None) -> None:
        """Compile a request as soon as it is its turn, on this GPU if it runs on one."""
        self._pool.submit(self._compile, number, request, gpu)

    def finish(
        self, count: int, progress: Callable[[Progress], None]
    ) -> Iterator[tuple[int, Compiled]]:
        """Yield what came of so many requests, as they come."""
        interlude = self._interlude
        while count:
            told = self._hear(interlude)
            if isinstance(told, Interlude):
                interlude = None
                with self._paused():
                    told.run()
                continue
            if isinstance(told, Progress):
                progress(told)
                continue
            number, made = told
            if isinstance(made, BaseException) and not isinstance(made, PerfcliError):
                raise made
            count -= 1
            yield number, made

    def _hear(self, interlude: Interlude | None) -> _Told | Interlude:
        """Return what is told next, or the interlude once it is due."""
        while interlude is not None:
            if interlude.is_due():
                self._let_go()
                return interlude
            if interlude.comes_first():
                self._hold()
            else:
                self._let_go()
            with suppress(Empty):
                return self._told.get(timeout=_LOOK_SECONDS)
        return self._told.get()

    def _hold(self) -> None:
        """Stop workers that have imported torch, for a while."""
        now = time.monotonic()
        self._held_until = self._held_until or now + _HOLD_SECONDS
        if now > self._held_until:
            self._let_go()
            return
        with self._lock:
            tracing = [each for each in self._running if each.traces]
        for each in tracing:
            if each not in self._held:
                each.pause()
                self._held.append(each)

    def _let_go(self) -> None:
        for each in self._held:
            each.resume()
        self._held.clear()

    @contextmanager
    def _paused(self) -> Iterator[None]:
        """Leave the machine to others in the block."""
        with self._weighing:
            with self._lock:
                running = list(self._running)
            for each in running:
                each.pause()
            try:
                yield
            finally:
                for each in running:
                    each.resume()

    def _compile(self, number: int, request: CompileRequest, gpu: str | None) -> None:
        made: Bundle | BaseException
        try:
            begun = _Compilation(request, number, self._told.put, self._timeout, gpu, self._servers)
            if self._interlude is not None:
                begun.step_back()
            with self._lock:
                self._running.add(begun)
                closed = self._closed
            try:
                if closed:
                    begun.kill()
                bundle = begun.finish()
            finally:
                with self._lock:
                    self._running.discard(begun)
            # One at a time: what is counted for one of two sides is found for the other.
            with self._weighing:
                made = weigh(bundle, Path(request.cache_dir))
        except BaseException as error:
            made = error
        self._told.put((number, made))

    def close(self) -> None:
        """End all workers, and wait until nothing is left of them."""
        with self._lock:
            self._closed = True
            for each in self._running:
                each.kill()
        if self._servers is not None:
            self._servers.close()
        self._pool.shutdown(cancel_futures=True)


class _Compilation(HeldWorker):
    """Compiles one request in one worker, which begins at once."""

    def __init__(
        self,
        request: CompileRequest,
        index: int,
        progress: Callable[[Progress], None],
        timeout_seconds: float | None,
        gpu: str | None = None,
        servers: ForkServers | None = None,
    ) -> None:
        self._request, self._index, self._progress = request, index, progress
        self._gpu = gpu
        self._servers = servers
        self.traces = False
        """Whether it has got as far as that."""
        self._timeout = timeout_seconds
        super().__init__()

    def _begin(self) -> None:
        request = self._request
        environment = worker_environment(request, self._folder)
        if self._gpu is not None:
            environment[VISIBLE_GPUS] = self._gpu

        def fork(descriptors: tuple[int, int, int]) -> ForkedWorker | None:
            worker, refusal = fork_warm(request, environment, descriptors)
            if refusal:
                note = f"the warm worker is not used: {refusal} (perfcli warm starts a new one)"
                self._progress(Progress(self._index, "import", note=note))
            if worker is None and self._servers is not None:
                worker = self._servers.fork(request, environment, descriptors)
            return worker

        python, current = request.variant.python, request.folder
        self._channel = Channel(python, environment, self._folder, current=current, fork=fork)
        self._channel.send(protocol.encode({"compile": request}), last=True)

    def finish(self) -> Bundle:
        """Wait for the result. Raises what the worker raised, or ``WorkerFailed`` with the end of
        its log where it died, hung past the timeout, or sent something else than a reply."""
        channel = self._open()
        try:
            channel.give(self._timeout)
            return _bundle(channel, self._index, self._hear)
        finally:
            self.close()

    def _hear(self, told: Progress) -> None:
        self.traces |= told.phase == "trace"
        self._progress(told)

    def step_back(self) -> None:
        """Leave the processors to whoever wants them."""
        if (channel := self._channel) is not None:
            channel.step_back()

    def pause(self) -> None:
        """Stop the worker until ``resume``."""
        if (channel := self._channel) is not None:
            channel.pause()

    def resume(self) -> None:
        if (channel := self._channel) is not None:
            channel.resume()


def _bundle(channel: Channel, index: int, progress: Callable[[Progress], None]) -> Bundle:
    while True:
        reply = channel.receive_as(_Reply)
        if reply.type == "progress":
            channel.doing = PHASES.get(reply.phase, channel.doing)
            progress(_progress(index, reply))
        elif reply.type == "note":
            progress(Progress(index, "kernels", note=reply.message))
        else:
            reply.raise_error()
            bundle = read_bundle(reply.run, reply.blobs, channel.failure)
            progress(Progress(index, "done"))
            return bundle


def _progress(index: int, reply: _Reply) -> Progress:
    phase: Any = reply.phase if reply.phase in PHASES else "trace"
    return Progress(index, phase, reply.done, reply.total)
