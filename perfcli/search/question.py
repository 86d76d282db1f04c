"""How a search asks: it is a generator that yields questions and is sent answers.

A search neither runs nor remembers a test. What was answered once is answered again at no cost by
whoever drives it (``drive``), so that a search that starts over, or is resumed from a file, asks
only for what is missing.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

from perfcli.search.answer import Answer

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Question(Generic[K]):
    wanted: K
    """A set of changes, or a value of a numeric option."""
    maybe: tuple[K, ...] = ()
    """What may be asked next, the most likely first: cores that are idle can begin with it."""
    fresh: bool = False
    """A noisy test shall be measured once more, independently of what is known."""
    step: str = ""
    suspects: int | None = None
    """Among how many changes, or values, the answer still lies."""


Search: TypeAlias = Generator[Question[K], Answer, T]


class Stopped(Exception):
    """Thrown into a search that may not ask any more; it returns what it knows by then."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
