"""Defines how a search asks: it is a generator that yields questions and is sent answers.

A search neither runs nor remembers a test. What was answered once is answered again at no cost by
whoever drives it (``drive``), so that a search that starts over, or is resumed from a file, asks
only for what is missing.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeAlias, TypeVar

Outcome = Literal["bad", "good", "unresolved"]


@dataclass(frozen=True, slots=True)
class Evidence:
    """Holds what a noisy answer rests on."""

    log_odds: float
    """Natural logarithm of the odds that it is bad, where both were equally likely before."""
    measurements: int
    mean: float | None = None
    """Log ratio to the good end, all measurements weighed together."""
    standard_error: float | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    outcome: Outcome
    value: float | None = None
    """The metric, in its own unit; of a timed test the ratio to the good end."""
    code: str | None = None
    """The class: the hash of the generated code. ``None`` where it did not compile."""
    evidence: Evidence | None = None
    """The evidence of a noisy test; ``None``: the answer is exact."""
    reason: str = ""
    """Why it is unresolved, or what its value rests on where that is not the metric."""

    @property
    def is_bad(self) -> bool:
        return self.outcome == "bad"


K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Query(Generic[K]):
    wanted: K
    """A set of changes, or a value of a numeric option."""
    maybe: tuple[K, ...] = ()
    """What may be asked next, the most likely first: cores that are idle can begin with it."""
    fresh: bool = False
    """A noisy test shall be measured once more, independently of what is known."""
    step: str = ""
    suspects: int | None = None
    """Among how many changes, or values, the answer still lies."""


Search: TypeAlias = Generator[Query[K], Answer, T]


class Stopped(Exception):
    """Thrown into a search that may not ask any more; it returns what it knows by then."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


Subset = frozenset[str]
"""The keys of the changes that are made; every other option stays as it is on the good side."""


@dataclass(frozen=True, slots=True)
class OptionChange:
    """Describes one option that differs between the good and the bad side; of a catalogue, one of
    the values worth trying (``bad``) beside the default (``good``)."""

    name: str
    good: Any
    bad: Any
    rank: int = 0
    """Blamed first where there is a choice: the documented options have the lowest."""

    @property
    def key(self) -> str:
        """Tell two values of the same option apart."""
        return f"{self.name}={self.bad}"


def sort_changes(changes: Iterable[OptionChange]) -> tuple[OptionChange, ...]:
    """Sort changes by rank, then by name and value, so that a search is the same however they were
    listed."""
    return tuple(sorted(changes, key=lambda change: (change.rank, change.key)))
