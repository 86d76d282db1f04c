"""Compiles kernels in processes beside the one that traces; these are forked after torch is
imported and before it runs.

A forked process shares the imported modules, so it costs no start-up time and little memory.
"""

from __future__ import annotations

import functools
import multiprocessing
import os
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from perfcli.compile.binaries.binaries import compile_kernel, prepare_process
from perfcli.compile.binaries.cache import Compiled
from perfcli.compile.capture.definition import Definition
from perfcli.errors import UnreadableSource, WorkerFailed
from perfcli.facts.source.cpp import cpp_facts
from perfcli.facts.source.triton import triton_facts
from perfcli.model import Candidate, KernelsRequest, SourceFacts, Target

_POLL_SECONDS = 1.0
_READ_BYTES = 1 << 16
_ATOMIC_BYTES = 4096
"""What a process can write into a pipe without another one writing in between."""


@dataclass(frozen=True, slots=True)
class KernelResult:
    """Holds what a pool process found out about one kernel; ``note`` says what it could not."""

    source_facts: SourceFacts | None
    compiled: Compiled
    note: str = ""


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
            work = self._executor.submit(_examine, definition, self._target, self._cache_dir)
            self._futures[key] = work

    def done(self) -> int:
        return sum(future.done() for future in self._futures.values())

    def total(self) -> int:
        return len(self._futures)

    def result(self, definition: Definition) -> KernelResult:
        """Wait for a kernel's result. Raises ``WorkerFailed`` where a process was killed."""
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
    prepare_process(lambda text: _remark(remarks, text))


def _remark(pipe: int, text: str) -> None:
    with suppress(OSError):  # nobody listens any more
        os.write(pipe, f"{text}\n".encode()[:_ATOMIC_BYTES])


@dataclass(frozen=True, slots=True)
class _Binaries:
    """Holds the candidates of one kernel, or ``error`` where Triton refused it."""

    candidates: tuple[Candidate, ...]
    alternatives: tuple[Candidate, ...] = ()
    error: str = ""
    blobs: Mapping[str, str] = field(default_factory=dict)


def compile_binaries(request: KernelsRequest) -> list[_Binaries]:
    """Compile kernels, in order, in processes of their own. Raises as ``KernelPool.result``."""
    definitions = [Definition(k.name, k.language, k.source, k.kind) for k in request.kernels]
    pool = KernelPool(max(request.jobs, 1), request.target, Path(request.cache_dir))
    try:
        for definition in definitions:
            pool.submit(definition)
        found = [pool.result(definition).compiled for definition in definitions]
    finally:
        pool.close(wait=True)  # this process ends next, and its pool must not outlive it
    return [
        _Binaries(
            made.candidates, made.alternatives, made.error, made.blobs if request.texts else {}
        )
        for made in found
    ]


def _examine(definition: Definition, target: Target | None, cache_dir: Path) -> KernelResult:
    """Return all facts of one kernel, from its source and, for Triton, from its binaries."""
    source_facts, note = read_source(definition)
    if target is None or definition.language == "cpp":
        return KernelResult(source_facts, Compiled((), {}), note)
    compiled = compile_kernel(definition, target, cache_dir)
    return KernelResult(source_facts, compiled, note)


def read_source(definition: Definition) -> tuple[SourceFacts | None, str]:
    """Return what a kernel's source says, or why it could not be read."""
    try:
        if definition.language == "cpp":
            return cpp_facts(definition.source), ""
        return triton_facts(definition.source, definition.name), ""
    except UnreadableSource as error:
        return None, f"its source could not be read: {error}"
