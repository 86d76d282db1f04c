"""Does the parent's side of hand-written kernels: processes that compile, check and time them.

A worker is sent ``{"launches": LaunchesRequest}``, ``{"describe": DescribeRequest}``, ``{"check":
CheckRequest}``, ``{"corpus": CorpusRequest}``, ``{"operators": OperatorsRequest}``, ``{"texts":
KernelsRequest}`` (kernels that Inductor wrote) or ``{"bench": BenchRequest}``, the last then any
number of ``BenchAsk``. It replies ``compiled``, ``described``, ``checked`` and ``timed`` (number,
found), ``compiling`` (number, total), ``checking``, ``preparing`` (name), ``host`` and ``benched``
(found) or ``error``; then ``done``.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from perfcli.compile.binaries.cache import Compiled
from perfcli.decoding import decode
from perfcli.errors import WorkerFailed
from perfcli.machine.environment import clean_environment
from perfcli.machine.scratch import make_scratch
from perfcli.model import Candidate, KernelsRequest
from perfcli.model.kernel_work import (
    BenchAsk,
    Benched,
    BenchRequest,
    CheckedCase,
    CheckRequest,
    ColdAndHot,
    CorpusCode,
    CorpusRequest,
    DescribedLaunch,
    DescribeRequest,
    LaunchesRequest,
    OperatorsRequest,
    Runner,
    TimedOperator,
)
from perfcli.worker import protocol
from perfcli.worker.channel import Channel, HeldWorker, Reply

T = TypeVar("T")


class _Reply(Reply):
    number: int = 0
    total: int = 0
    name: str = ""
    found: msgspec.Raw = msgspec.Raw(b"")


class _Worker(HeldWorker):
    def __init__(
        self, python: str | None, timeout_seconds: float | None, own: Mapping[str, str]
    ) -> None:
        self._python, self._timeout, self._own = python, timeout_seconds, own
        super().__init__()

    def _begin(self) -> None:
        environment = _environment(self._folder, self._own)
        self._channel = Channel(self._python, environment, self._folder)
        self._channel.doing = "importing torch"

    def doing(self, what: str) -> None:
        self._open().doing = what

    def ask(self, question: Mapping[str, Any]) -> Iterator[_Reply]:
        """Yield the replies up to ``done``. Raises what the worker says went wrong, and
        WorkerFailed where it died or hung."""
        channel = self._open()
        channel.send(protocol.encode(question))
        while True:
            channel.give(self._timeout)
            reply = channel.receive_as(_Reply)
            if reply.type == "done":
                return
            reply.raise_error()
            yield reply

    def decoded(self, reply: _Reply, kind: type[T]) -> T:
        try:
            return decode(reply.found, kind)
        except msgspec.DecodeError as error:
            raise self.failure(f"the worker sent a broken result ({error})") from error

    def failure(self, message: str) -> WorkerFailed:
        return self._open().failure(message)


def _environment(folder: Path, own: Mapping[str, str]) -> dict[str, str]:
    private = {
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
        "TRITON_CACHE_DIR": str(folder / "triton"),
        "PYTHONHASHSEED": "0",
        "TMPDIR": str(folder),
    }
    return clean_environment(os.environ, {**private, **own})


@contextmanager
def _start(
    python: str | None, timeout_seconds: float, what: str, own: Mapping[str, str] | None = None
) -> Iterator[_Worker]:
    """Start a worker for one question, which it is at next."""
    worker = _Worker(python, timeout_seconds, own or {})
    try:
        worker.doing(what)
        yield worker
    finally:
        worker.close()


class _Checking:
    """Checks the cases of a family. ``compiling`` hears how much is compiled ahead, and of how
    much."""

    def __init__(self, request: CheckRequest, compiling: Callable[[int, int], None]) -> None:
        self.left = dict(enumerate(request.cases))
        self._request = request
        self._compiling = compiling
        self._is_ahead = False

    def run(self, start: Callable[[], _Worker]) -> Iterator[tuple[int, CheckedCase]]:
        """Yield what one worker finds of the cases that are left. One that is lost on a GPU takes
        its case with it and no more; while it compiled ahead, it takes none: the next compiles each
        kernel where its case runs, so that it is known which one it was. Raises WorkerFailed where
        a worker of the interpreter's died or hung."""
        numbers = list(self.left)
        asked = replace(self._request, cases=tuple(self.left.values()))
        worker = start()
        try:
            for place, checked in self._answers(worker, asked):
                del self.left[numbers[place]]
                yield numbers[place], checked
        except WorkerFailed as error:
            if self._request.runner == "interpreter" or not self.left:
                raise
            if not self._is_ahead:
                # One after the other: the first that has no answer is the one it died of.
                culprit = next(iter(self.left))
                plan = self.left.pop(culprit).plan
                died = CheckedCase("failed", plan.variant if plan else "", reason=str(error))
                yield culprit, died
        finally:
            worker.close()
        self._request = replace(self._request, target=None)

    def _answers(self, worker: _Worker, asked: CheckRequest) -> Iterator[tuple[int, CheckedCase]]:
        self._is_ahead = asked.target is not None
        worker.doing("compiling kernels ahead" if self._is_ahead else "running cases")
        for reply in worker.ask({"check": asked}):
            if reply.type == "compiling":
                self._compiling(reply.number, reply.total)
            elif reply.type == "checking":
                self._is_ahead = False
                worker.doing("running cases")
            else:
                yield reply.number, worker.decoded(reply, CheckedCase)


SILENT_SECONDS = 600.0
"""A worker hangs that says nothing for so long, unless somebody gives it another limit: tuning one
problem by Inductor takes up to a minute or two, a kernel that waits for itself for ever."""


class KernelProcess:
    """Answers, in processes of its own, as a ``roles.KernelWorker``. ``timeout_seconds`` is for
    each launch, case or problem: the longest that a worker may be silent."""

    def __init__(self, python: str | None = None, timeout_seconds: float | None = None) -> None:
        self._python = python
        self._timeout = timeout_seconds or SILENT_SECONDS
        self._bench: _Worker | None = None

    def compiled(self, request: LaunchesRequest) -> Iterator[tuple[int, Candidate]]:
        with self._without_device("compiling kernels") as worker:
            for reply in worker.ask({"launches": request}):
                yield reply.number, worker.decoded(reply, Candidate)

    def built(self, request: KernelsRequest) -> Iterator[tuple[int, Compiled]]:
        """Yield each text's number and what it became, as they come. A text that Triton refuses has
        an ``error``. Raises WorkerFailed where the worker died or hung, CompileFailed where its
        torch can't compile for the target."""
        with self._without_device("compiling kernels") as worker:
            for reply in worker.ask({"texts": request}):
                yield reply.number, worker.decoded(reply, Compiled)

    def described(self, request: DescribeRequest) -> tuple[DescribedLaunch, ...]:
        with self._without_device("describing kernels") as worker:
            replies = worker.ask({"describe": request})
            return tuple(worker.decoded(reply, DescribedLaunch) for reply in replies)

    def _without_device(self, what: str) -> AbstractContextManager[_Worker]:
        return _start(self._python, self._timeout, what, {"CUDA_VISIBLE_DEVICES": ""})

    def checked(
        self, request: CheckRequest, compiling: Callable[[int, int], None]
    ) -> Iterator[tuple[int, CheckedCase]]:
        kernels = make_scratch("triton-")
        try:
            checking = _Checking(request, compiling)
            while checking.left:
                yield from checking.run(partial(self._checker, request.runner, str(kernels)))
        finally:
            shutil.rmtree(kernels, ignore_errors=True)

    def _checker(self, runner: Runner, kernels: str) -> _Worker:
        """Return a worker for a check; all workers of one check have one cache of Triton's."""
        own = {"TRITON_CACHE_DIR": kernels}
        if runner == "interpreter":
            own |= {"TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": ""}
        return _Worker(self._python, self._timeout, own)

    def benched(
        self, request: BenchRequest, ask: BenchAsk, preparing: Callable[[str], None]
    ) -> Benched:
        worker = self._bench or self._started(request)
        try:
            found = _receive_benched(worker, ask, preparing)
        except BaseException:
            self.close()
            raise
        if found.device_lost:
            self.close()
        return found

    def _started(self, request: BenchRequest) -> _Worker:
        self._bench = _Worker(self._python, self._timeout, {})
        try:
            for _ in self._bench.ask({"bench": request}):
                pass
        except BaseException:
            self.close()
            raise
        return self._bench

    def close(self) -> None:
        if self._bench is not None:
            self._bench.close()
            self._bench = None


def time_corpus(
    request: CorpusRequest, python: str | None = None
) -> Iterator[CorpusCode | tuple[int, ColdAndHot]]:
    """Yield what cases are compiled to, then the times of each by its number, as they come. A case
    that Triton refuses, or whose times were lost, is left out. Raises WorkerFailed where the worker
    died or hung."""
    with _start(python, SILENT_SECONDS, "compiling kernels") as worker:
        for reply in worker.ask({"corpus": request}):
            if reply.type == "compiled":
                yield worker.decoded(reply, CorpusCode)
            else:
                worker.doing("timing kernels")
                cold, hot = worker.decoded(reply, list)
                yield reply.number, (tuple(cold), tuple(hot))


def time_operators(
    request: OperatorsRequest, python: str | None = None
) -> Iterator[dict[str, float] | tuple[int, tuple[TimedOperator, ...]]]:
    """Yield what the host needs for calls, in microseconds by kind, then the calls of each case by
    its number, as they come. A case whose times were lost is left out. Raises WorkerFailed where
    the worker died or hung."""
    with _start(python, SILENT_SECONDS, "timing library operators") as worker:
        for reply in worker.ask({"operators": request}):
            if reply.type == "host":
                yield worker.decoded(reply, dict[str, float])
            else:
                yield reply.number, worker.decoded(reply, tuple[TimedOperator, ...])


def _receive_benched(worker: _Worker, ask: BenchAsk, preparing: Callable[[str], None]) -> Benched:
    found: Benched | None = None
    for reply in worker.ask(protocol.plain(ask)):
        if reply.type == "preparing":
            worker.doing(f"getting {reply.name} ready" if reply.name else "timing")
            preparing(reply.name)
        else:
            found = worker.decoded(reply, Benched)
    if found is None:
        raise worker.failure("the worker was done without a result")
    return found
