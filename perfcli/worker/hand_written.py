"""The parent's side of hand-written kernels: processes that compile, check and time them.

A worker is sent ``{"launches": LaunchesRequest}``, ``{"describe": DescribeRequest}``, ``{"check":
CheckRequest}`` or ``{"bench": BenchRequest}``, the last then any number of ``BenchAsk``. It replies
``compiled``, ``described`` and ``checked`` (number, found), ``compiling`` (number, total),
``checking``, ``preparing`` (name), ``benched`` (found) or ``error``; then ``done``.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from functools import partial

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
    Runner,
)
from perfcli.worker import protocol
from perfcli.worker.kernel_channel import Worker
from perfcli.worker.kernel_checking import Checking

SILENT_SECONDS = 600.0
"""A worker hangs that says nothing for so long, unless somebody gives it another limit: tuning one
problem by Inductor takes up to a minute or two, a kernel that waits for itself for ever."""


class KernelProcess:
    """See ``kernel_worker.KernelWorker``. ``timeout_seconds`` is for each launch, case or problem:
    the longest that a worker may be silent."""

    def __init__(self, python: str | None = None, timeout_seconds: float | None = None) -> None:
        self._python = python
        self._timeout = timeout_seconds or SILENT_SECONDS
        self._bench: Worker | None = None

    def compiled(self, request: LaunchesRequest) -> Iterator[tuple[int, Candidate]]:
        worker = Worker(self._python, self._timeout, {"CUDA_VISIBLE_DEVICES": ""})
        try:
            worker.doing("compiling kernels")
            for reply in worker.ask({"launches": request}):
                yield reply.number, worker.decoded(reply, Candidate)
        finally:
            worker.close()

    def described(self, request: DescribeRequest) -> tuple[DescribedLaunch, ...]:
        worker = Worker(self._python, self._timeout, {"CUDA_VISIBLE_DEVICES": ""})
        try:
            worker.doing("describing kernels")
            replies = worker.ask({"describe": request})
            return tuple(worker.decoded(reply, DescribedLaunch) for reply in replies)
        finally:
            worker.close()

    def checked(
        self, request: CheckRequest, compiling: Callable[[int, int], None]
    ) -> Iterator[tuple[int, CheckedCase]]:
        with tempfile.TemporaryDirectory(prefix="perfcli-triton-") as kernels:
            checking = Checking(request, compiling)
            while checking.left:
                yield from checking.run(partial(self._checker, request.runner, kernels))

    def _checker(self, runner: Runner, kernels: str) -> Worker:
        """All of one check have one cache of Triton's."""
        own = {"TRITON_CACHE_DIR": kernels}
        if runner == "interpreter":
            own |= {"TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": ""}
        return Worker(self._python, self._timeout, own)

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

    def _started(self, request: BenchRequest) -> Worker:
        self._bench = Worker(self._python, self._timeout, {})
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


def _benched(worker: Worker, ask: BenchAsk, preparing: Callable[[str], None]) -> Benched:
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
