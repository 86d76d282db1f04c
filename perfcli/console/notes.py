"""Prints notes and progress on stderr: a bar on a terminal, a few lines in a log, nothing when
quiet."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from perfcli import units

if TYPE_CHECKING:
    import rich.progress
    from rich.live import Live

    from perfcli.worker.roles import Phase, Progress

# Nobody wants a bar that flashes by.
PATIENCE_SECONDS = 2.0
# By then a command that has to wait for a process says so.
FIRST_WORD_SECONDS = 1.0
STARTING = "starting Python with torch"
# A log hears of a phase when it begins, then after so long, twice as long, and so on.
FIRST_GAP_SECONDS = 15.0
# Cases or kernels that have to be done before an estimate means anything.
LEAST_DONE = 3


def guard_commands(text: str) -> str:
    """Return the text as it may go to stderr.

    GitHub Actions reads stderr for workflow commands, and a line of a user's traceback must not
    be one.
    """
    text = units.printable(text)
    if not os.environ.get("GITHUB_ACTIONS"):
        return text
    return "\n".join(
        f"| {line}" if line.lstrip().startswith(("::", "##[")) else line
        for line in text.split("\n")
    )


class Notes:
    """Prints remarks that are neither result nor error."""

    def __init__(self, quiet: bool) -> None:
        self.quiet = quiet

    def say(self, text: str) -> None:
        if not self.quiet:
            print(guard_commands(text), file=sys.stderr, flush=True)  # noqa: T201

    def warn(self, text: str) -> None:
        """Print a warning, even when quiet: something is not as it was asked for."""
        print(guard_commands(f"warning: {text}"), file=sys.stderr, flush=True)  # noqa: T201


class LiveDisplay:
    """Takes what rich draws off the terminal when the ``with`` block ends, however it ends."""

    _drawn: Live | rich.progress.Progress | None = None

    _bar: rich.progress.Progress | None = None

    _first: FirstWord | None = None
    """What is shown until something is told."""

    def __enter__(self) -> Self:
        if self._first is not None:
            self._first.start()
        return self

    def hide(self) -> None:
        """Take it off the terminal until something is told again."""
        self._end_first()
        if self._drawn is not None:
            self._drawn.stop()
            self._drawn = self._bar = None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end_first()
        if self._drawn is not None:
            self._drawn.stop()

    def _end_first(self) -> None:
        if self._first is not None:
            self._first.end()
            self._first = None


class FirstWord(threading.Timer):
    """Says what is waited for before anything is told, unless it is ended before."""

    def __init__(self, text: str, notes: Notes) -> None:
        super().__init__(FIRST_WORD_SECONDS, self._say)
        self.daemon = True
        self._text, self._notes = text, notes
        self._lock = threading.Lock()
        self._ended = notes.quiet
        self._bar: rich.progress.Progress | None = None

    def _say(self) -> None:
        with self._lock:
            if self._ended:
                return
            if not sys.stderr.isatty():
                self._notes.say(self._text)
                return
            self._bar = start_bar()
            self._bar.start()
            self._bar.add_task(self._text, total=None)

    def end(self) -> None:
        """Take it off the terminal, or never say it."""
        self.cancel()
        with self._lock:
            self._ended = True
            if self._bar is not None:
                self._bar.stop()


class Reporter(LiveDisplay):
    """Shows how far each named request has come; a context manager, called for each event.
    ``first`` is said where nothing is told for a second."""

    def __init__(self, names: Sequence[str], notes: Notes, first: str = "") -> None:
        self._names = names
        self._notes = notes
        self._first = FirstWord(first, notes) if first else None
        self._started = time.monotonic()
        self._phases: dict[tuple[int, str], _Pace] = {}
        self._bar: rich.progress.Progress | None = None
        self._tasks: dict[int, Any] = {}

    def __call__(self, event: Progress) -> None:
        if event.note:
            self._notes.say(f"{self._names[event.request]}: {event.note}")
            return
        now = time.monotonic()
        pace = self._phases.setdefault((event.request, event.phase), _Pace(now, event.done))
        if self._notes.quiet or now - self._started < PATIENCE_SECONDS:
            return
        self._end_first()
        text = f"{self._names[event.request]}: {_name_phase(event)}{pace.estimate(event, now)}"
        if sys.stderr.isatty():
            self._show_bar(event, text)
        elif now >= pace.next_said:
            pace.put_off(now)
            self._notes.say(f"{text} ({units.seconds(now - self._started)})")

    def count(self, phase: Phase, text: str) -> Callable[[int, int], None]:
        """Return what shows how many things of the only request are done, and of how many."""
        from perfcli.worker.roles import Progress

        return lambda done, total: self(Progress(0, phase, done, total, text))

    def _show_bar(self, event: Progress, text: str) -> None:
        if self._bar is None:
            self._bar = self._drawn = start_bar()
            self._tasks.clear()
            self._bar.start()
        if event.request not in self._tasks:
            self._tasks[event.request] = self._bar.add_task("", total=None)
        self._bar.update(
            self._tasks[event.request],
            description=text,
            completed=event.done,
            total=1 if event.phase == "done" and not event.total else event.total,
        )


@dataclass(slots=True)
class _Pace:
    """How fast one phase goes, and when a log is to hear of it again: a long one not often."""

    started: float
    first: int
    next_said: float = 0.0
    gap: float = FIRST_GAP_SECONDS

    def put_off(self, now: float) -> None:
        self.next_said = now + self.gap
        self.gap *= 2

    def estimate(self, event: Progress, now: float) -> str:
        """Return ``, 83 of 755, about 12 min left``; nothing before a part of it is done."""
        done = event.done - self.first
        if not event.total or done < LEAST_DONE or event.done >= event.total:
            return ""
        left = (now - self.started) / done * (event.total - event.done)
        return f", {event.done} of {event.total}, about {write_duration(left)} left"


def write_duration(seconds: float) -> str:
    """``40 s``, ``12 min``, ``3 h``: no more than an estimate can tell."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _name_phase(event: Progress) -> str:
    from perfcli.worker.roles import PHASES

    return event.text or PHASES[event.phase]


def start_bar() -> rich.progress.Progress:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    )
