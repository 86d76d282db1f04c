"""Compiles kernels in processes beside the one that traces; these are forked after torch is
imported and before it runs.

A forked process shares the imported modules, so it costs no start-up time and little memory.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from pathlib import Path

from perfcli.compile.binaries.binaries import compile_kernel, prepare_process
from perfcli.compile.binaries.cache import Compiled
from perfcli.compile.capture.definition import Definition
from perfcli.errors import UnreadableSource, WorkerFailed
from perfcli.facts.source.cpp import cpp_facts
from perfcli.facts.source.triton import triton_facts
from perfcli.model import Candidate, KernelsRequest, SourceFacts, Target


@dataclass(frozen=True, slots=True)
class KernelResult:
    """Holds what a pool process found out about one kernel; ``note`` says what it could not."""

    source_facts: SourceFacts | None
    compiled: Compiled
    note: str = ""


class KernelPool:
    """Compiles each distinct kernel text once. Start it before anything makes threads."""

    def __init__(self, jobs: int, target: Target | None, cache_dir: Path) -> None:
        self._target, self._cache_dir = target, cache_dir
        self._futures: dict[str, Future[KernelResult]] = {}
        context = multiprocessing.get_context("fork")
        self._executor = ProcessPoolExecutor(jobs, mp_context=context, initializer=prepare_process)
        self._executor.submit(os.getpid).result()  # forks all of them now

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
        try:
            return self._futures[definition.source].result()
        except BrokenProcessPool as error:
            raise WorkerFailed(
                "a process that compiled kernels was killed (out of memory?): "
                "use fewer with --jobs, what it finished is cached"
            ) from error

    def close(self, wait: bool = False) -> None:
        self._executor.shutdown(wait=wait, cancel_futures=True)


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
