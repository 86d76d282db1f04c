"""Keeps what a user's code prints, in case that it fails."""

from __future__ import annotations

import contextlib
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

_LINES = 20
_WIDTH = 400
"""Characters of a line that are shown, and of a text those that are kept for each of its lines."""
_MOST_LOGGED = 64 << 20
"""Characters that go to the log, which is a file: a loop that prints must not fill the disk."""


class _Kept:
    """A stream that keeps the end of what is written to it."""

    def __init__(self, stream: Any, parts: deque[str]) -> None:
        self._stream = stream
        self._parts = parts
        self._logged = 0

    def write(self, text: str) -> int:
        self._parts.append(text[-_LINES * _WIDTH :])
        self._logged += len(text)
        if self._logged <= _MOST_LOGGED:
            self._stream.write(text)
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class _Printed:
    """The last lines, in the order in which they were printed."""

    def __init__(self) -> None:
        self._parts: deque[str] = deque(maxlen=1000)

    def keep(self, stream: Any) -> Any:
        """Return a stream that writes to this one, too."""
        return _Kept(stream, self._parts)

    def tell(self) -> str:
        """Return them under a heading; empty where nothing was printed."""
        lines = "".join(self._parts).strip().splitlines()[-_LINES:]
        shown = (f"  {line if len(line) <= _WIDTH else line[:_WIDTH] + '…'}" for line in lines)
        return "\n".join(["", "", "it printed:", *shown]) if lines else ""


@contextlib.contextmanager
def keep_output() -> Iterator[_Printed]:
    """Keep what is printed while the block runs."""
    printed = _Printed()
    with (
        contextlib.redirect_stdout(printed.keep(sys.stdout)),
        contextlib.redirect_stderr(printed.keep(sys.stderr)),
    ):
        yield printed
