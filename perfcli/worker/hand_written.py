"""The parent's side of hand-written kernels: processes that compile, check and time them.

A worker is sent ``{"launches": LaunchesRequest}``, ``{"describe": DescribeRequest}``, ``{"check":
CheckRequest}`` or ``{"bench": BenchRequest}``, the last then any number of ``BenchAsk``. It replies
``compiled``, ``described`` and ``checked`` (number, found), ``preparing`` (name), ``benched``
(found) or ``error``; then ``done``.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from perfcli.environment import clean_environment
from perfcli.errors import WorkerFailed
from perfcli.model import Candidate
from perfcli.model.kernel_work import (
    BenchAsk,
    Benched,
    BenchRequest,
    CheckedCase,
    CheckRequest,
    DescribedLaunch,
    DescribeRequest,
    LaunchesRequest,
)
from perfcli.worker import protocol
from perfcli.worker.channel import Channel

T = TypeVar("T")

SILENT_SECONDS = 600.0
"""A worker hangs that says nothing for so long, unless somebody gives it another limit: tuning one
problem by Inductor takes up to a minute or two, a kernel that waits for itself for ever."""


class _Reply(msgspec.Struct):
    type: str
    number: int = 0
    name: str = ""
    kind: str = ""
    message: str = ""
    detail: str = ""
    found: msgspec.Raw = msgspec.Raw(b"")


class KernelProcess:
    """See ``kernel_worker.KernelWorker``. ``timeout_seconds`` is for each launch, case or problem:
    the longest that a worker may be silent."""

    def __init__(self, python: str | None = None, timeout_seconds: float | None = None) -> None:
        self._python = python
        self._timeout = timeout_seconds or SILENT_SECONDS
        self._bench: _Worker | None = None

    def compiled(self, request: LaunchesRequest) -> Iterator[tuple[int, Candidate]]:
        worker = _Worker(self._python, self._timeout, {"CUDA_VISIBLE_DEVICES": ""})
        try:
            worker.doing("compiling kernels")
            for reply in worker.ask({"launches": request}):
                yield reply.number, worker.decoded(reply, Candidate)
        finally:
            worker.close()

    def described(self, request: DescribeRequest) -> tuple[DescribedLaunch, ...]:
        worker = _Worker(self._python, self._timeout, {"CUDA_VISIBLE_DEVICES": ""})
        try:
            worker.doing("describing kernels")
            replies = worker.ask({"describe": request})
            return tuple(worker.decoded(reply, DescribedLaunch) for reply in replies)
        finally:
            worker.close()

    def checked(self, request: CheckRequest) -> Iterator[tuple[int, CheckedCase]]:
        left = dict(enumerate(request.cases))
        while left:
            numbers = list(left)
            asked = replace(request, cases=tuple(left.values()))
            try:
                for place, checked in self._checked_by_one(asked):
                    del left[numbers[place]]
                    yield numbers[place], checked
            except WorkerFailed as error:
                if request.runner == "interpreter" or not left:
                    raise
                # One after the other: the first that has no answer is the one it died of.
                culprit = next(iter(left))
                plan = left.pop(culprit).plan
                died = CheckedCase("failed", plan.variant if plan else "", reason=str(error))
                yield culprit, died

    def _checked_by_one(self, request: CheckRequest) -> Iterator[tuple[int, CheckedCase]]:
        interpreted = {"TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": ""}
        worker = _Worker(
            self._python, self._timeout, interpreted if request.runner == "interpreter" else {}
        )
        try:
            worker.doing("running cases")
            for reply in worker.ask({"check": request}):
                yield reply.number, worker.decoded(reply, CheckedCase)
        finally:
            worker.close()

    def benched(
        self, request: BenchRequest, ask: BenchAsk, preparing: Callable[[str], None]
    ) -> Benched:
        worker = self._bench or self._started(request)
        try:
            found = _benched(worker, ask, preparing)
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


def _benched(worker: _Worker, ask: BenchAsk, preparing: Callable[[str], None]) -> Benched:
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


class _Worker:
    """One process, and a folder for its caches."""

    def __init__(
        self, python: str | None, timeout_seconds: float | None, own: Mapping[str, str]
    ) -> None:
        self._timeout = timeout_seconds
        self._folder = Path(tempfile.mkdtemp(prefix="perfcli-"))
        self._channel: Channel | None = None
        try:
            self._channel = Channel(python, _environment(self._folder, own), self._folder)
            self._channel.doing = "importing torch"
        except BaseException:
            self.close()
            raise

    def doing(self, what: str) -> None:
        self._open().doing = what

    def ask(self, question: Mapping[str, Any]) -> Iterator[_Reply]:
        """The replies up to ``done``.

        Raises what the worker says went wrong, and WorkerFailed where it died or hung.
        """
        channel = self._open()
        channel.send(protocol.encode(question))
        while True:
            channel.give(self._timeout)
            reply = channel.receive_as(_Reply)
            if reply.type == "done":
                return
            if reply.type == "error":
                raise protocol.error(reply.kind, reply.message, reply.detail)
            yield reply

    def decoded(self, reply: _Reply, kind: type[T]) -> T:
        try:
            return msgspec.json.decode(reply.found, type=kind)
        except msgspec.DecodeError as error:
            raise self.failure(f"the worker sent a broken result ({error})") from error

    def failure(self, message: str) -> WorkerFailed:
        return self._open().failure(message)

    def close(self) -> None:
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        shutil.rmtree(self._folder, ignore_errors=True)

    def _open(self) -> Channel:
        if self._channel is None:
            raise WorkerFailed("the worker is closed")
        return self._channel


def _environment(folder: Path, own: Mapping[str, str]) -> dict[str, str]:
    private = {
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
        "TRITON_CACHE_DIR": str(folder / "triton"),
        "PYTHONHASHSEED": "0",
        "TMPDIR": str(folder),
    }
    return clean_environment(os.environ, {**private, **own})
