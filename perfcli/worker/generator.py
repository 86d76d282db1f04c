"""What a search asks of whoever generates code: many variants of one scenario, no further than
their code, and binaries for the kernels that somebody wants to know.

Two implementations: ``template.TemplateProcess``, and ``fake_generator.FakeGenerator`` for tests.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol, TypeAlias

from perfcli.errors import PerfcliError
from perfcli.model import CompileRequest, Generated, KernelFacts, KernelText

Made: TypeAlias = "Generated | PerfcliError"


class Generator(Protocol):
    def generate(
        self, requests: Sequence[CompileRequest], base: CompileRequest | None = None
    ) -> Iterator[tuple[int, Made]]:
        """Each request's number and what came of it, as they come; so many are compiled at once as
        they have ``jobs``. A request that fails is an error, never raised.

        ``base`` is what most of them have in common: what they share with it is compiled once.
        Where it is one of them, others may be left out: those that differ from it in nothing that
        was read (``Generated.unread``).
        """
        ...

    def with_binaries(
        self, kernels: Sequence[tuple[KernelFacts, KernelText]], request: CompileRequest
    ) -> tuple[KernelFacts, ...]:
        """The kernels with their candidates, as the whole compilation has them.

        Raises CompileFailed where Triton refuses one, WorkerFailed where the worker died.
        """
        ...

    def close(self) -> None:
        """Ends its processes; may be called again."""
        ...
