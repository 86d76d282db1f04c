"""Shows how far many requests have come together: how many are done, where, and how long the rest
may take."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from perfcli import units
from perfcli.console.notes import (
    FIRST_GAP_SECONDS,
    LEAST_DONE,
    PATIENCE_SECONDS,
    STARTING,
    FirstWord,
    LiveDisplay,
    Notes,
    Reporter,
    start_bar,
    write_duration,
)

if TYPE_CHECKING:
    import rich.progress

    from perfcli.worker.roles import Progress

MANY = 6
"""More requests than these are counted instead of being named."""


def watch(names: Sequence[str], notes: Notes, first: str = STARTING) -> Reporter | Tally:
    """Return what shows the progress of requests with these names. ``first`` is said where nothing
    is told for a second."""
    return Tally(names, notes, first=first) if len(names) > MANY else Reporter(names, notes, first)


class Tally(LiveDisplay):
    """Counts the requests that are ``done`` (``compiled``); a context manager, called for each
    event."""

    def __init__(
        self, names: Sequence[str], notes: Notes, done: str = "compiled", first: str = STARTING
    ) -> None:
        self._names = names
        self._notes = notes
        self._word = done
        self._first = FirstWord(first, notes)
        self._began = time.monotonic()
        self._next_said = self._began + PATIENCE_SECONDS
        self._gap = FIRST_GAP_SECONDS
        self._done: dict[int, str] = {}
        self._bar: rich.progress.Progress | None = None
        self._task: Any = None

    def __call__(self, event: Progress) -> None:
        if event.note:
            self._notes.say(f"{self._names[event.request]}: {event.note}")
        if event.phase == "done":
            self._done[event.request] = event.place
        if self._notes.quiet:
            return
        now = time.monotonic()
        if sys.stderr.isatty() or now >= self._next_said:
            self._end_first()
        if sys.stderr.isatty():
            self._show_bar(now)
        elif now >= self._next_said:
            self._next_said = now + self._gap
            self._gap *= 2
            seconds = units.seconds(now - self._began)
            self._notes.say(f"{self._write(now)} ({seconds})")

    def _write(self, now: float) -> str:
        """Return ``83 of 200 compiled (10.0.0.1: 40, 10.0.0.2: 43), about 12 min left``."""
        done, total = len(self._done), len(self._names)
        places = Counter(place for place in self._done.values() if place)
        shares = ", ".join(f"{place}: {number}" for place, number in sorted(places.items()))
        text = f"{done} of {total} {self._word}" + (f" ({shares})" if shares else "")
        if LEAST_DONE <= done < total:
            left = (now - self._began) / done * (total - done)
            text += f", about {write_duration(left)} left"
        return text

    def _show_bar(self, now: float) -> None:
        if self._bar is None:
            self._bar = self._drawn = start_bar()
            self._bar.start()
            self._task = self._bar.add_task("", total=len(self._names))
        self._bar.update(self._task, description=self._write(now), completed=len(self._done))
