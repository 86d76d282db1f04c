"""Shows what a search is at, on stderr: two lines that change on a terminal, a line per test in a
log."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

from perfcli import units
from perfcli.bisect.answer import _typed
from perfcli.bisect.forge import Forge
from perfcli.bisect.metrics import SearchMetric
from perfcli.console.notes import LiveDisplay, Notes
from perfcli.search.question import Answer, Query

if TYPE_CHECKING:
    from rich.live import Live

FIRST = "compiling the first variants"
GAP_SECONDS = 10.0
"""A log hears of what takes longer than this."""


class Watcher(LiveDisplay):
    """Is called before a question is answered, and with its answer; it is a context manager."""

    def __init__(
        self,
        forge: Forge,
        metric: SearchMetric,
        notes: Notes,
        name: Callable[[Any], str] = lambda value: f"value {value}",
        first: str = FIRST,
    ) -> None:
        self._forge = forge
        self._name = name
        self._metric = metric
        self._notes = notes
        self._began = time.monotonic()
        self._compiled = 0
        self._bad = self._unresolved = 0
        self._live: Live | None = None
        self._asked: set[object] = set()
        self._failed: set[object] = set()
        """What was said to have no answer: it is said once."""
        self._text = self._doing = first
        self._said = self._began
        self._ended = threading.Event()
        forge.told = self._tell

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    def __enter__(self) -> Self:
        if sys.stderr.isatty() and not self._notes.quiet:
            from rich.console import Console
            from rich.live import Live

            console = Console(stderr=True, markup=False, highlight=False, emoji=False)
            # Drawn anew at each refresh, so that the seconds go on while something is compiled.
            self._live = self._drawn = Live(
                console=console, transient=True, refresh_per_second=4, get_renderable=self._screen
            )
            self._live.start()
        elif not self._notes.quiet:
            self._say(self._text)
            threading.Thread(target=self._go_on_saying, daemon=True).start()
        return self

    def __exit__(self, *error: Any) -> None:
        self._ended.set()
        super().__exit__(*error)

    def _tell(self, doing: str) -> None:
        """Hear what is done now, which may take long."""
        self._doing = doing
        if self._live is not None:
            self._text = units.printable(f"{doing}\nknown: {self._counts()}")
            self._live.refresh()

    def _go_on_saying(self) -> None:
        while not self._ended.wait(GAP_SECONDS / 10):
            if time.monotonic() - self._said >= GAP_SECONDS:
                self._say(f"{self._doing}, {units.seconds(self.seconds)}")

    def _say(self, text: str) -> None:
        self._said = time.monotonic()
        self._notes.say(text)

    def __call__(self, question: Query[Any], answer: Answer | None) -> None:
        if self._notes.quiet:
            return
        new = question.wanted not in self._asked or question.fresh
        if answer is not None and new:
            self._asked.add(question.wanted)
            self._count(answer)
        if self._live is not None:
            self._draw(question)
            self._live.refresh()
        elif answer is not None and self._forge.compiled > self._compiled:
            if question.wanted in self._failed:
                return
            if answer.outcome == "unresolved":
                self._failed.add(question.wanted)
            seconds = units.seconds(self.seconds)
            self._say(
                f"{self._tried(question)}: {self._write_answer(answer)} · {self._counts()}, "
                f"{seconds}"
            )
            self._compiled = self._forge.compiled

    def _count(self, answer: Answer) -> None:
        self._bad += answer.outcome == "bad"
        self._unresolved += answer.outcome == "unresolved"

    def _draw(self, question: Query[Any]) -> None:
        """Draw the lines here, not in ``_screen``: what it counts is changed by this thread."""
        left = f" · left: {_left(question)}" if question.suspects is not None else ""
        lines = f"trying {self._tried(question)}{left}\nknown: {self._counts()}"
        self._text = units.printable(lines)

    def _screen(self) -> Any:
        from rich.text import Text

        return Text(f"{self._text}, {units.seconds(self.seconds)}")

    def _tried(self, question: Query[Any]) -> str:
        wanted = question.wanted
        step = f"{question.step}, " if question.step else ""
        if not isinstance(wanted, frozenset):
            return f"{step}{self._name(wanted)}"
        if len(wanted) == 1:
            return step + self._named(next(iter(wanted)))
        return f"{step}{units.plural(len(wanted), 'change')}" if wanted else step.rstrip(", ")

    def _named(self, key: str) -> str:
        """Return a change as it is typed: ``online_softmax=false``."""
        found = (c for c in self._forge.space.changes if c.key == key)
        return next((_typed(c.name, c.bad) for c in found), key)

    def _counts(self) -> str:
        forge = self._forge
        parts = [f"{forge.compiled} compiled", units.plural(forge.classes, "class", "classes")]
        if self._bad:
            parts.append(f"{self._bad} bad")
        if self._unresolved:
            parts.append(f"{self._unresolved} without an answer")
        return ", ".join(parts)

    def _write_answer(self, answer: Answer) -> str:
        if answer.outcome == "unresolved":
            return f"no answer ({answer.reason[:80]})"
        if answer.value is None or answer.reason:
            return answer.reason or answer.outcome
        return _written(self._metric, answer.value)


def _written(metric: SearchMetric, value: float | None) -> str:
    """Return a metric's value for people; of timed ones it is a ratio."""
    if metric.is_timed:
        return units.interval(value)
    return f"{metric.bound} {units.writer(metric.of_runs)(value)}".lstrip()


def _left(question: Query[Any]) -> str:
    return f"{question.suspects} suspects" if question.suspects != 1 else "1 suspect"
