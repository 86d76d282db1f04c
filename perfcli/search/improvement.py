"""What a search of a catalogue for a better, or a worse, value of the metric found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from perfcli.search.answer import Answer
from perfcli.search.options import OptionChange
from perfcli.search.result import Dependency

Direction = Literal["improve", "worsen"]


@dataclass(frozen=True, slots=True)
class Effect:
    """One change alone."""

    change: OptionChange
    answer: Answer
    gain: float | None
    """How much the metric goes into the direction that was asked for, in its unit; below 0: into
    the other one. ``None``: it has no answer."""
    same_as: OptionChange | None = None
    """The first change that generates the same code."""
    changes_code: bool | None = None
    """Against the code without any change."""


@dataclass(frozen=True, slots=True)
class Interaction:
    """Two changes that do more, or less, together than the sum of what each does alone."""

    options: tuple[OptionChange, OptionChange]
    together: float
    apart: float
    """Gains, in the metric's unit."""


@dataclass(frozen=True, slots=True)
class Improvement:
    baseline: Answer | None = None
    effects: tuple[Effect, ...] = ()
    """In the order of the catalogue, as far as it came."""
    best: tuple[OptionChange, ...] = ()
    """The set with the best value that was seen; without any one of its changes it is not as
    good, except where the search was stopped. Empty: nothing is better than no change."""
    answer: Answer | None = None
    """Of the best set."""
    gain: float = 0.0
    interactions: tuple[Interaction, ...] = ()
    """Among the pairs that were tested."""
    dependencies: tuple[Dependency, ...] = ()
    """Of the best set: options that alone change no code, and what they do something on top of."""
    pairs_left: int = 0
    """Pairs of changes with code of their own that no tested set has."""
    untried: tuple[OptionChange, ...] = ()
    """Changes with code of their own that were not tested beside the best set, not even together
    with others."""
    stopped: str = ""
