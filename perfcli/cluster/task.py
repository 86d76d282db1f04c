"""What runs on a machine of the cluster: a request, or several of which a search needs the code, as
JSON in and out."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from perfcli import __version__
from perfcli.cluster.measuring import MeasureOrder, measure_here
from perfcli.cluster.parcel import settle, unpack
from perfcli.decoding import decode, decoder
from perfcli.errors import PerfcliError, describe_unexpected
from perfcli.machine import environment
from perfcli.machine.own_code import hash_code
from perfcli.model import Bundle, CompileRequest, Generated, Measurement, Run
from perfcli.worker import protocol
from perfcli.worker.roles import Compiled, Made

if TYPE_CHECKING:
    from perfcli.worker.template import TemplateProcess


class Software(msgspec.Struct, frozen=True):
    """Says what decides the generated code: a machine that has something else is not used."""

    python: str
    torch: str
    triton: str | None
    perfcli: str

    def differs(self, other: Software) -> str:
        """Return ``torch 2.12.1 instead of 2.13.0`` for the first thing that the other has
        otherwise; empty where both are the same."""
        for name in ("perfcli", "python", "torch", "triton"):
            ours, theirs = getattr(self, name), getattr(other, name)
            if ours != theirs:
                return f"{name} {theirs} instead of {ours}"
        return ""


class TaskRequest(msgspec.Struct, frozen=True):
    """Holds what a task needs besides the user's files."""

    requests: tuple[CompileRequest, ...]
    base: CompileRequest | None
    """What most of them have in common, where only their code is generated."""
    generates: bool
    """Whether a search asks for them, which needs no more than their code."""
    software: Software | None
    """What the machine has to have; None where nothing is compiled for real."""
    variables: dict[str, str]
    """The caller's variables that can change generated code."""
    root: str = ""
    """The folder whose files are sent, with what names them; empty: none are."""
    sha: str = ""
    timeout: float | None = None
    plan: str = ""
    """What is to be made up instead of being compiled."""
    measures: MeasureOrder | None = None
    """What is measured of the two requests, which are not compiled for themselves then."""


class TaskResult(msgspec.Struct, frozen=True):
    """Holds what came of one request: a run with its texts, or an error."""

    number: int
    kind: str = ""
    message: str = ""
    detail: str = ""
    run: Run | None = None
    blobs: dict[str, str] = {}
    code: str = ""
    unread: tuple[str, ...] = ()
    measurement: Measurement | None = None

    @property
    def bundle(self) -> Compiled:
        if self.run is not None:
            return Bundle(self.run, self.blobs)
        return protocol.error(self.kind, self.message, self.detail)

    @property
    def measured(self) -> Measurement | PerfcliError:
        return self.measurement or protocol.error(self.kind, self.message, self.detail)

    @property
    def generated(self) -> Made:
        made = self.bundle
        return made if isinstance(made, PerfcliError) else Generated(self.code, made, self.unread)


class Outcome(msgspec.Struct, frozen=True):
    """Holds what came of an order, or why this machine is not to be asked."""

    unfit: str = ""
    results: tuple[TaskResult, ...] = ()


_OUTCOME = decoder(Outcome)


def read_outcome(content: bytes) -> Outcome:
    return _OUTCOME.decode(content)


def describe_software(python: str | None, needs_triton: bool) -> Software:
    """Return what an interpreter has here. Raises PerfcliError as ``environment.probe``."""
    found = environment.probe(python, needs_triton=needs_triton)
    release = ".".join(found.version.split(".")[:2])
    return Software(release, found.torch, found.triton, f"{__version__} ({hash_code()[:8]})")


_describe_once = functools.cache(describe_software)


def fill(order: bytes, archive: bytes | None) -> bytes:
    """Carry out an order where it arrives, and return its outcome: nothing is raised but what ends
    the process."""
    asked = decode(order, TaskRequest)
    if asked.software is not None and (unfit := _check(asked.requests[0], asked.software)):
        return msgspec.json.encode(Outcome(unfit=unfit))
    try:
        with _variables(asked.variables):
            results = list(_carry_out(asked, archive))
    except Exception as error:  # the user's files could not be unpacked
        results = [_plain(number, made) for number, made in _fail(asked, error)]
    return msgspec.json.encode(Outcome(results=tuple(results)))


def _fail(asked: TaskRequest, error: Exception) -> Iterator[tuple[int, PerfcliError]]:
    """Yield the error for each request."""
    known = error if isinstance(error, PerfcliError) else None
    failed = known or PerfcliError(describe_unexpected(error))
    yield from ((number, failed) for number in range(len(asked.requests)))


def _plain(number: int, made: Made | Bundle | Measurement) -> TaskResult:
    if isinstance(made, PerfcliError):
        said = protocol.error_message(made)
        return TaskResult(number, said["kind"], said["message"], said["detail"])
    if isinstance(made, Bundle):
        return TaskResult(number, run=made.run, blobs=dict(made.blobs))
    if isinstance(made, Measurement):
        return TaskResult(number, measurement=made)
    plain = _plain(number, made.bundle)
    return msgspec.structs.replace(plain, code=made.code, unread=made.unread)


def _check(request: CompileRequest, wanted: Software) -> str:
    """Return why this machine can't take a request; empty where it can."""
    try:
        found = _describe_once(request.variant.python, request.device != "cpu")
    except PerfcliError as error:
        return str(error)
    return wanted.differs(found)


def _carry_out(asked: TaskRequest, archive: bytes | None) -> Iterator[TaskResult]:
    cache = environment.cache_dir()
    place = unpack(asked.sha, archive, cache) if archive is not None else None

    def settle_here(request: CompileRequest) -> CompileRequest:
        request = replace(request, cache_dir=str(cache))
        return settle(request, asked.sha, place) if place else request

    requests = [settle_here(request) for request in asked.requests]
    base = settle_here(asked.base) if asked.base is not None else None
    try:
        made_here = list(_make(requests, base, asked))
    except Exception as error:
        made_here = list(_fail(asked, error))
    for number, made in made_here:
        result = _plain(number, made)
        yield give_back(result, place, asked.root) if place else result


def give_back(result: TaskResult, place: Path, root: str) -> TaskResult:
    """Return the result as if it had been compiled where the user's files lie."""
    texts = TaskResult(0, result.kind, result.message, result.detail, result.run)
    here, there = f"{place}{os.sep}".encode(), f"{root}{os.sep}".encode()
    moved = decode(msgspec.json.encode(texts).replace(here, there), TaskResult)
    return msgspec.structs.replace(
        result, run=moved.run, message=moved.message, detail=moved.detail
    )


def _make(
    requests: list[CompileRequest], base: CompileRequest | None, asked: TaskRequest
) -> Iterator[tuple[int, Made | Compiled | Measurement]]:
    if asked.measures is not None:
        yield 0, measure_here(asked.measures, requests, asked.timeout, asked.plan)
    elif asked.plan:
        from perfcli.fake.executor import FakeExecutor, FakeGenerator

        if asked.generates:
            yield from FakeGenerator(asked.plan).generate(requests, base)
        else:
            yield from FakeExecutor(asked.plan).compile(requests, lambda _: None)
    elif asked.generates:
        yield from _keep_template(asked.timeout).generate(requests, base)
    else:
        from perfcli.worker.process import ProcessExecutor

        yield from ProcessExecutor(asked.timeout).compile(requests, lambda _: None)


@functools.cache
def _keep_template(timeout: float | None) -> TemplateProcess:
    """Return the process that generates code, which stays for the next task of this one."""
    from perfcli.worker.template import TemplateProcess

    return TemplateProcess(timeout)


@contextmanager
def _variables(wanted: Mapping[str, str]) -> Iterator[None]:
    """Give this process the caller's variables that can change generated code, while the block
    lasts: Ray sets OMP_NUM_THREADS. The GPUs that Ray lends to a task stay those."""
    lent = {"CUDA_VISIBLE_DEVICES"}
    before = environment.relevant_variables(os.environ)
    for name in before.keys() - wanted.keys() - lent:
        del os.environ[name]
    os.environ.update({name: value for name, value in wanted.items() if name not in lent})
    try:
        yield
    finally:
        for name in wanted.keys() - before.keys() - lent:
            del os.environ[name]
        os.environ.update(before)
