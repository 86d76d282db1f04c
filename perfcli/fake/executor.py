"""Compiles nothing and makes deterministic bundles up, so that the whole command line is tested
without torch (hidden ``--fake``, or ``PERFCLI_FAKE=1``).

``PERFCLI_FAKE=weighed`` makes up the work of kernels as well, so that their times are estimated;
``PERFCLI_FAKE=takes:0.5`` does so, too, and takes so many seconds for each run.
``PERFCLI_FAKE=user:1`` plants a failure in request 1: ``user``, ``compile``, ``killed``, ``hang``
or ``interrupt``; ``user:NAME`` in requests that set the option NAME, ``user:all`` in every one.
What follows a semicolon is about measuring (``measuring``).
"""

from __future__ import annotations

import hashlib
import importlib.util
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from perfcli.errors import CompileFailed, PerfcliError, UserCodeFailed, WorkerFailed
from perfcli.fake.run import make_up_run, weigh_kernels
from perfcli.machine.environment import Interpreter
from perfcli.model import Bundle, CompileRequest, Generated, KernelFacts, KernelText, Run
from perfcli.worker.roles import Compiled, Made, Progress

FAILURES = ("user", "compile", "killed", "hang", "interrupt")


class FakeExecutor:
    """Makes up what an executor would answer. ``plan`` is ``1`` for all well, or a failure and the
    request it hits, ``killed:1``."""

    def __init__(self, plan: str = "1") -> None:
        failure, _, request = plan.partition(";")[0].partition(":")
        self.failure = failure if failure in FAILURES else None
        self.failing = request or "0"
        self.seconds = float(request) if failure == "takes" else 0.0
        self.weighs = failure in ("weighed", "takes")

    def compile(
        self, requests: Sequence[CompileRequest], progress: Callable[[Progress], None]
    ) -> Iterator[tuple[int, Compiled]]:
        for number, request in enumerate(requests):
            progress(Progress(number, "import", 0, None, "importing torch"))
            progress(Progress(number, "trace", 0, None, "tracing"))
            failure = _find_planted(self, number, request)
            if isinstance(failure, PerfcliError):
                yield number, failure
                continue
            if failure is not None:
                raise failure
            time.sleep(self.seconds)
            bundle = make_up_run(request)
            if self.weighs:
                run = replace(bundle.run, kernels=weigh_kernels(bundle.run.kernels), weighed=True)
                bundle = replace(bundle, run=run)
            total = len(bundle.run.kernels)
            for done in range(total + 1):
                progress(Progress(number, "kernels", done, total, "compiling kernels"))
            progress(Progress(number, "done", total, total))
            yield number, bundle


def _find_planted(plan: FakeExecutor, number: int, request: CompileRequest) -> BaseException | None:
    """Return the failure that hits this request, if one does."""
    hits = (str(number), "all", *request.variant.options)
    return _failure(plan.failure, request) if plan.failure and plan.failing in hits else None


def fake_interpreter(python: str | None = None) -> Interpreter:
    """Return this interpreter's torch where it has one, for its options, else an empty one."""
    torch = importlib.util.find_spec("torch")
    folder = Path(torch.origin).parent if torch and torch.origin else Path()
    return Interpreter(python or "python", "3.11.9", "2.13.0", folder, "3.7.1", None, None, "fake")


def _failure(kind: str, request: CompileRequest) -> BaseException:
    name = request.scenario
    failures: Mapping[str, BaseException] = {
        "user": UserCodeFailed(
            f"{name} raised ValueError: no such layer",
            'Traceback (most recent call last):\n  File "model.py", line 7, in forward\n'
            "ValueError: no such layer",
        ),
        "compile": CompileFailed(
            f"Inductor could not compile forward 0 of {name}: LoweringException: no lowering"
        ),
        "killed": WorkerFailed(
            f"the worker for {name} was killed by signal 9 (out of memory?)", "last line of its log"
        ),
        "hang": WorkerFailed(f"the worker for {name} gave no answer within 600 s: --timeout"),
        "interrupt": KeyboardInterrupt(),
    }
    return failures[kind]


class FakeGenerator:
    def __init__(self, plan: str = "1") -> None:
        self._planned = FakeExecutor(plan)
        self._candidates: dict[str, KernelFacts] = {}
        self.generated = 0

    def generate(
        self, requests: Sequence[CompileRequest], base: CompileRequest | None = None
    ) -> Iterator[tuple[int, Made]]:
        for number, request in enumerate(requests):
            yield number, self._made(request)
            self.generated += 1

    def _made(self, request: CompileRequest) -> Made:
        failure = _find_planted(self._planned, self.generated, request)
        if isinstance(failure, PerfcliError):
            return failure
        if failure is not None:
            raise failure
        bundle = make_up_run(request)
        self._candidates |= {kernel.source: kernel for kernel in bundle.run.kernels}
        bare = tuple(replace(k, candidates=(), alternatives=()) for k in bundle.run.kernels)
        run = replace(bundle.run, kernels=bare)
        return Generated(_hash(run, bundle.blobs), Bundle(run, bundle.blobs))

    def with_binaries(
        self,
        kernels: Sequence[tuple[KernelFacts, KernelText]],
        request: CompileRequest,
        weighs: bool = False,
    ) -> tuple[KernelFacts, ...]:
        found = tuple(
            replace(facts, candidates=self._candidates[facts.source].candidates)
            for facts, _ in kernels
        )
        return weigh_kernels(found) if weighs else found

    def close(self) -> None:
        """Do nothing: there are no processes."""


def _hash(run: Run, blobs: Mapping[str, str]) -> str:
    found = hashlib.sha256()
    for kernel in run.kernels:
        found.update(f"{kernel.graph} {kernel.name} {blobs[kernel.source]}\n".encode())
    return found.hexdigest()
