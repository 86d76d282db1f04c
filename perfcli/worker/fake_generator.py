"""A generator that generates nothing (see ``fake``): made-up kernels, whose text is their code.

``PERFCLI_FAKE=compile:NAME`` fails wherever the option NAME is set, ``compile:all`` everywhere,
``interrupt:N`` is Ctrl-C while request N (counted over all calls, from 0) is compiled.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from perfcli.errors import PerfcliError
from perfcli.model import (
    Bundle,
    CompileRequest,
    Generated,
    KernelFacts,
    KernelText,
    Run,
)
from perfcli.worker.fake import FakeExecutor, planted
from perfcli.worker.generator import Made
from perfcli.worker.made_up import made_up


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
        failure = planted(self._planned, self.generated, request)
        if isinstance(failure, PerfcliError):
            return failure
        if failure is not None:
            raise failure
        bundle = made_up(request)
        self._candidates |= {kernel.source: kernel for kernel in bundle.run.kernels}
        bare = tuple(replace(k, candidates=(), alternatives=()) for k in bundle.run.kernels)
        run = replace(bundle.run, kernels=bare)
        return Generated(_hash(run, bundle.blobs), Bundle(run, bundle.blobs))

    def with_binaries(
        self, kernels: Sequence[tuple[KernelFacts, KernelText]], request: CompileRequest
    ) -> tuple[KernelFacts, ...]:
        return tuple(
            replace(facts, candidates=self._candidates[facts.source].candidates)
            for facts, _ in kernels
        )

    def close(self) -> None:
        """There are no processes."""


def _hash(run: Run, blobs: Mapping[str, str]) -> str:
    found = hashlib.sha256()
    for kernel in run.kernels:
        found.update(f"{kernel.graph} {kernel.name} {blobs[kernel.source]}\n".encode())
    return found.hexdigest()
