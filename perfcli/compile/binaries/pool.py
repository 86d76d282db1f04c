"""Compiles kernels in processes beside the one that traces; these are forked after torch is
imported and before it runs.

A forked process shares the imported modules, so it costs no start-up time and little memory.
"""

from __future__ import annotations

import functools
import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from perfcli.compile.binaries.assembler import look_up_release
from perfcli.compile.binaries.binaries import compile_kernels, prepare_process
from perfcli.compile.binaries.cache import Compiled
from perfcli.compile.capture.definition import Definition
from perfcli.compile.processor import processor_seconds
from perfcli.errors import UnreadableSource, WorkerFailed
from perfcli.facts.source.cpp import cpp_facts
from perfcli.facts.source.triton import triton_facts
from perfcli.model import KernelsRequest, SourceFacts, Target

_POLL_SECONDS = 1.0
_AT_ONCE = 8
"""Kernels that a process takes at once where as many are waiting: it reads their binaries in one
go, which takes as long as to compile two of them, and what it takes is lost with it."""
_READ_BYTES = 1 << 16
_ATOMIC_BYTES = 4096
"""What a process can write into a pipe without another one writing in between."""


@dataclass(frozen=True, slots=True)
class KernelResult:
    """Holds what a pool process found out about one kernel; ``note`` says what it could not."""

    source_facts: SourceFacts | None
    compiled: Compiled
    note: str = ""
    cpu_seconds: float = 0.0
    """Processor time that it took, with that of the assembler; little where it was cached."""


class KernelPool:
    """Compiles each distinct kernel text once. Start it before anything makes threads. ``told``
    hears of kernels that take long, while a result is waited for."""

    def __init__(
        self,
        jobs: int,
        target: Target | None,
        cache_dir: Path,
        told: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._target, self._cache_dir, self._told = target, cache_dir, told
        self._futures: dict[str, Future[KernelResult]] = {}
        self._jobs, self._busy = jobs, 0
        self._waiting: list[Definition] = []
        self._lock = threading.Lock()
        if target is not None:
            look_up_release(target)
        context = multiprocessing.get_context("fork")
        self._remarks, end = os.pipe()
        os.set_blocking(self._remarks, False)
        start = functools.partial(_start, end)
        self._executor = ProcessPoolExecutor(jobs, mp_context=context, initializer=start)
        self._executor.submit(os.getpid).result()  # forks all of them now
        os.close(end)

    def submit(self, definition: Definition) -> None:
        key = definition.source
        if key not in self._futures:
            self._futures[key] = Future()
            with self._lock:
                self._waiting.append(definition)
            self._give_work(_AT_ONCE)

    def begin(self) -> None:
        """Begin with what was submitted so far: no more comes soon. Else a process begins as soon
        as it can take all that it takes at once."""
        self._give_work()

    def _give_work(self, least: int = 1) -> None:
        """Let processes that have nothing to do take their share of what waits, once that are so
        many kernels."""
        share = 0
        while True:
            with self._lock:
                if len(self._waiting) < least or self._busy >= self._jobs:
                    return
                share = share or min(_AT_ONCE, max(least, -(-len(self._waiting) // self._jobs)))
                taken, self._waiting = self._waiting[:share], self._waiting[share:]
                self._busy += 1
            try:
                work = self._executor.submit(_examine, taken, self._target, self._cache_dir)
            except RuntimeError as error:  # a process was killed, or the pool is closed
                self._fail(taken, error)
            else:
                work.add_done_callback(functools.partial(self._end, taken))

    def _end(self, taken: Sequence[Definition], work: Future[list[KernelResult]]) -> None:
        """Pass on what a process found; in the executor's thread."""
        if work.cancelled():
            return
        error = work.exception()
        if error is not None:
            self._fail(taken, error)
        else:
            for definition, result in zip(taken, work.result(), strict=True):
                self._futures[definition.source].set_result(result)
            with self._lock:
                self._busy -= 1
        if not isinstance(error, BrokenProcessPool):  # there, the executor holds its own lock
            self._give_work()

    def _fail(self, taken: Sequence[Definition], error: BaseException) -> None:
        """Pass on why there is no result; where the pool is broken, to all who wait."""
        with self._lock:
            self._busy -= 1
            if isinstance(error, BrokenProcessPool):
                taken, self._waiting = [*taken, *self._waiting], []
        for definition in taken:
            self._futures[definition.source].set_exception(error)

    def done(self) -> int:
        return sum(future.done() for future in self._futures.values())

    def total(self) -> int:
        return len(self._futures)

    def result(self, definition: Definition) -> KernelResult:
        """Wait for a kernel's result. Raises ``WorkerFailed`` where a process was killed."""
        self.begin()
        future = self._futures[definition.source]
        try:
            while not wait([future], _POLL_SECONDS).done:
                self._hear()
            self._hear()
            return future.result()
        except BrokenProcessPool as error:
            raise WorkerFailed(
                "a process that compiled kernels was killed (out of memory?): "
                "use fewer with --jobs, what it finished is cached"
            ) from error

    def results(self, definitions: Sequence[Definition]) -> Iterator[KernelResult]:
        """Compile kernels and yield each, in order, as soon as it is there. Raises as
        ``result``."""
        for definition in definitions:
            self.submit(definition)
        for definition in definitions:
            yield self.result(definition)

    def close(self, wait: bool = False) -> None:
        self._executor.shutdown(wait=wait, cancel_futures=True)
        os.close(self._remarks)

    def _hear(self) -> None:
        try:
            texts = os.read(self._remarks, _READ_BYTES)
        except BlockingIOError:
            return
        for text in texts.decode(errors="replace").splitlines():
            self._told(text)


def _start(remarks: int) -> None:
    """Prepare a pool process, whose remarks go into a pipe."""

    def remark(text: str) -> None:
        with suppress(OSError):  # nobody listens any more
            os.write(remarks, f"{text}\n".encode()[:_ATOMIC_BYTES])

    prepare_process(remark)


def compile_texts(request: KernelsRequest) -> Iterator[Compiled]:
    """Yield what becomes of each kernel, in order; they are compiled in processes of their own.
    Raises as ``KernelPool.result``."""
    definitions = [Definition(k.name, k.language, k.source, k.kind) for k in request.kernels]
    pool = KernelPool(max(request.jobs, 1), request.target, Path(request.cache_dir))
    try:
        for result in pool.results(definitions):
            yield result.compiled
    finally:
        pool.close(wait=True)  # this process ends next, and its pool must not outlive it


def _examine(
    definitions: Sequence[Definition], target: Target | None, cache_dir: Path
) -> list[KernelResult]:
    """Return all facts of each kernel, from its source and, for Triton, from its binaries."""
    begin = processor_seconds()
    read = [read_source(definition) for definition in definitions]
    binaries: dict[str, Compiled] = {}
    if target is not None:
        triton = [each for each in definitions if each.language != "cpp"]
        compiled = compile_kernels(triton, target, cache_dir)
        binaries = {each.source: made for each, made in zip(triton, compiled, strict=True)}
    share = (processor_seconds() - begin) / len(definitions)
    return [
        KernelResult(facts, binaries.get(each.source, Compiled((), {})), note, share)
        for each, (facts, note) in zip(definitions, read, strict=True)
    ]


def read_source(definition: Definition) -> tuple[SourceFacts | None, str]:
    """Return what a kernel's source says, or why it could not be read."""
    try:
        if definition.language == "cpp":
            return cpp_facts(definition.source), ""
        return triton_facts(definition.source, definition.name), ""
    except UnreadableSource as error:
        return None, f"its source could not be read: {error}"
