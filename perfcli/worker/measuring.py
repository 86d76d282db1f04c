"""What the interleaving parent asks of a measuring worker.

Two implementations: ``live.LiveWorker`` talks to a process, ``fake_measuring.FakeWorker`` makes
up turns, so that everything above is tested without torch and without waiting.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from perfcli.model import Ask, MeasureRequest, Prepared, Turn
from perfcli.worker.executor import Phase


class MeasuringWorker(Protocol):
    """One variant, compiled and warm in a process of its own."""

    def prepare(self) -> Prepared:
        """Wait until it is compiled, checked and warm.

        Raises UserCodeFailed, CompileFailed, WrongResult, OutOfMemory, or WorkerFailed where it
        died, hung or sent nonsense.
        """
        ...

    def turn(self, ask: Ask) -> Turn:
        """Time ``ask.steps`` steps. Raises as ``prepare``."""
        ...

    def close(self) -> None:
        """End the process, whatever it does; may be called again."""
        ...


StartWorker = Callable[[MeasureRequest, Callable[[Phase], None]], MeasuringWorker]
"""Starts a worker and returns at once, so that both sides of a pair compile at the same time;
``prepare`` waits. The function is told of phases while it does."""
