"""Says where in the user's model something comes from, relative to the repository."""

from __future__ import annotations

import functools
import os.path
import re
from dataclasses import dataclass
from pathlib import PurePosixPath
from urllib.parse import quote

from .._screen.kernel import shorten_location


@dataclass(frozen=True, slots=True)
class Place:
    """A line of a file. ``path`` has no root where ``inside`` the repository."""

    path: str
    line: int | None
    inside: bool

    @property
    def text(self) -> str:
        """Return ``models/norm.py:12``; for files elsewhere no more than the folder."""
        location = self.path if self.line is None else f"{self.path}:{self.line}"
        return location if self.inside else shorten_location(location)

    @property
    def uri(self) -> str:
        """Return the address relative to the repository, else ``file:///…``, percent-encoded (RFC
        3986)."""
        encoded = quote(self.path, safe="/", errors="replace")
        return f"file://{encoded}" if self.path.startswith("/") else encoded


@functools.lru_cache(maxsize=4096)
def parse_place(location: str, root: str) -> Place | None:
    """Return the place of ``file:line`` or a file, or None where there is none.

    Paths that are relative already are taken to be relative to the root.
    """
    match = re.fullmatch(r"(?P<path>.+?)(?::(?P<line>\d+))?", location, re.DOTALL)
    if match is None:
        return None
    path, line = match["path"], int(match["line"]) if match["line"] else None
    if not os.path.isabs(path):
        return Place(PurePosixPath(path).as_posix(), line, inside=not path.startswith(".."))
    relative = os.path.relpath(path, root) if root else ".."
    inside = not relative.startswith("..")
    return Place(PurePosixPath(relative if inside else path).as_posix(), line, inside)


def strip_root(text: str, root: str) -> str:
    """Return a text whose paths inside the repository are relative to it."""
    folder = root.rstrip("/")
    if folder not in text:
        return text
    return re.sub(rf"(?<![\w./-]){re.escape(folder)}/", "", text) if folder else text
