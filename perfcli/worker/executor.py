"""What the command line asks of whoever compiles: requests in, bundles out, in order.

Two implementations: ``process.ProcessExecutor`` starts workers, ``fake.FakeExecutor`` makes up
deterministic bundles so that the whole command line is tested without torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from perfcli.model import Bundle, CompileRequest

Phase = Literal["import", "trace", "kernels", "check", "warm", "done"]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far one request has come. ``total`` is None where it is not known yet."""

    request: int
    """Index into the requests given to ``compile``."""
    phase: Phase
    done: int = 0
    total: int | None = None
    text: str = ""


class Executor(Protocol):
    def compile(
        self, requests: Sequence[CompileRequest], progress: Callable[[Progress], None]
    ) -> Iterator[Bundle]:
        """Yield one bundle per request, in order, each as soon as it is there.

        ``Run.id``, ``created``, ``fingerprint`` are the caller's to fill in. Raises
        UserCodeFailed, CompileFailed or WorkerFailed for the request that failed; bundles that
        were yielded before stay good.
        """
        ...
