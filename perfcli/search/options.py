"""What is searched over: single changes of options, and sets of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

Subset = frozenset[str]
"""The keys of the changes that are made; every other option stays as it is on the good side."""


@dataclass(frozen=True, slots=True)
class OptionChange:
    """One option that differs between the good and the bad side; of a catalogue, one of the values
    worth trying (``bad``) beside the default (``good``)."""

    name: str
    good: Any
    bad: Any
    rank: int = 0
    """Blamed first where there is a choice: the documented options have the lowest."""

    @property
    def key(self) -> str:
        """Tells two values of the same option apart."""
        return f"{self.name}={self.bad}"


def ordered(changes: Iterable[OptionChange]) -> tuple[OptionChange, ...]:
    """By rank, then by name and value, so that a search is the same however they were listed."""
    return tuple(sorted(changes, key=lambda change: (change.rank, change.key)))
