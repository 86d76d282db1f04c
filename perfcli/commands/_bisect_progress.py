"""What a search is at, on stderr: two lines that change on a terminal, a line per test in a log."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any

from perfcli import units
from perfcli.bisect.metrics import Metric
from perfcli.commands._bisect_forge import Forge
from perfcli.commands._progress import Notes
from perfcli.search.answer import Answer
from perfcli.search.question import Question

if TYPE_CHECKING:
    from rich.live import Live


class Watcher:
    """Called before a question is answered, and with its answer; a context manager."""

    def __init__(self, forge: Forge, metric: Metric, notes: Notes) -> None:
        self._forge = forge
        self._metric = metric
        self._notes = notes
        self._began = time.monotonic()
        self._compiled = 0
        self._bad = self._unresolved = 0
        self._live: Live | None = None
        self._asked: set[object] = set()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    def __enter__(self) -> Watcher:
        if sys.stderr.isatty() and not self._notes.quiet:
            from rich.console import Console
            from rich.live import Live

            console = Console(stderr=True, markup=False, highlight=False, emoji=False)
            self._live = Live(console=console, transient=True, refresh_per_second=4)
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def __call__(self, question: Question[Any], answer: Answer | None) -> None:
        if self._notes.quiet:
            return
        new = question.wanted not in self._asked or question.fresh
        if answer is not None and new:
            self._asked.add(question.wanted)
            self._count(answer)
        if self._live is not None:
            self._live.update(self._screen(question))
        elif answer is not None and self._forge.compiled > self._compiled:
            self._notes.say(f"{self._tried(question)}: {self._said(answer)} · {self._known()}")
            self._compiled = self._forge.compiled

    def _count(self, answer: Answer) -> None:
        self._bad += answer.outcome == "bad"
        self._unresolved += answer.outcome == "unresolved"

    def _screen(self, question: Question[Any]) -> Any:
        from rich.text import Text

        left = f" · left: {_left(question)}" if question.suspects is not None else ""
        lines = f"trying {self._tried(question)}{left}\nknown: {self._known()}"
        return Text(units.printable(lines))

    def _tried(self, question: Question[Any]) -> str:
        wanted = question.wanted
        step = f"{question.step}, " if question.step else ""
        if not isinstance(wanted, frozenset):
            return f"{step}value {wanted}"
        if len(wanted) == 1:
            return step + self._named(next(iter(wanted)))
        return f"{step}{units.plural(len(wanted), 'change')}" if wanted else step.rstrip(", ")

    def _named(self, key: str) -> str:
        """A change as it is typed: ``online_softmax=false``."""
        found = (c for c in self._forge.space.changes if c.key == key)
        return next((f"{c.name}={units.setting(c.bad)}" for c in found), key)

    def _known(self) -> str:
        forge = self._forge
        parts = [f"{forge.compiled} compiled", units.plural(forge.classes, "class", "classes")]
        if self._bad:
            parts.append(f"{self._bad} bad")
        if self._unresolved:
            parts.append(f"{self._unresolved} without an answer")
        return ", ".join([*parts, units.seconds(self.seconds)])

    def _said(self, answer: Answer) -> str:
        if answer.outcome == "unresolved":
            return f"no answer ({answer.reason[:80]})"
        if answer.value is None:
            return answer.outcome
        return written(self._metric, answer.value)


def written(metric: Metric, value: float | None) -> str:
    """A metric's value for people; of timed ones it is a ratio."""
    if metric.is_timed:
        return units.interval(value)
    return units.writer(metric.of_runs)(value)


def _left(question: Question[Any]) -> str:
    return f"{question.suspects} suspects" if question.suspects != 1 else "1 suspect"
