"""Holds what a search for culprits found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from perfcli.search.question import Answer, OptionChange

Status = Literal[
    "explained",  # what is found, taken off the bad side, leaves it good
    "partly explained",  # something is found, and what is left is still bad or has no answer
    "not explained",  # nothing is found
    "not worse",  # the bad side is not bad
    "unsure",  # nobody can tell whether the bad side is bad
    "good side is bad",  # the difference is not one of these options
    "an end is unresolved",
]


@dataclass(frozen=True, slots=True)
class Dependency:
    """Says that ``option`` alone does not change the generated code; with any of ``needs`` on it
    does."""

    option: OptionChange
    needs: tuple[OptionChange, ...]


@dataclass(frozen=True, slots=True)
class OwnEffect:
    option: OptionChange
    alone: Answer
    """The good side with this change only."""
    changes_code: bool | None
    """``None``: one of the two has no class."""


@dataclass(frozen=True, slots=True)
class CulpritSet:
    """Holds changes that are bad together, and not with any one of them left out."""

    options: tuple[OptionChange, ...]
    with_it: Answer
    """The good side with the set: bad."""
    without: Answer
    """The bad side without it, and without the sets that were found before."""
    own: tuple[OwnEffect, ...]
    dependencies: tuple[Dependency, ...]
    minimal: bool
    """Each set with one change less was tested and is good; else some have no answer."""

    @property
    def is_interaction(self) -> bool:
        """Return whether they are bad together only: no one of them is to blame alone. Of two or
        three changes every smaller set was tested; of more, those with one change less and the
        single ones."""
        return len(self.options) > 1

    @property
    def proven(self) -> bool:
        """Return whether it is proven both ways: good with the set is bad, and bad without it is
        good."""
        return self.with_it.outcome == "bad" and self.without.outcome == "good"


@dataclass(frozen=True, slots=True)
class Culprits:
    status: Status | None
    """``None``: stopped before anything could be said."""
    sets: tuple[CulpritSet, ...] = ()
    """The sets in the order they were found; each is bad without the others. The last one's
    ``without`` proves all of them together."""
    good_end: Answer | None = None
    bad_end: Answer | None = None
    left: Answer | None = None
    """The bad side without all of them."""
    suspects: tuple[OptionChange, ...] = ()
    """The smallest set of changes known to be bad beside those that are found, where the search did
    not explain everything or was stopped."""
    stopped: str = ""
    """Why it stopped before the end; empty where it did not."""
    contradictions: int = 0
    """How often a measurement repeated for proof was not as before, and the search went back."""

    def share(self, answer: Answer | None) -> float | None:
        """Return how much of the difference between the two ends an answer has: 0 at the good one,
        1 at the bad one. ``left`` may be good, as it is nearer to the good end, and still have
        some."""
        if answer is None or self.good_end is None or self.bad_end is None:
            return None
        good, bad = self.good_end.value, self.bad_end.value
        if answer.value is None or good is None or bad is None or good == bad:
            return None
        return (answer.value - good) / (bad - good)


Direction = Literal["improve", "worsen"]


@dataclass(frozen=True, slots=True)
class Effect:
    """Says what one change does alone."""

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
    """Holds two changes that do more, or less, together than the sum of what each does alone."""

    options: tuple[OptionChange, OptionChange]
    together: float
    apart: float
    """Gains, in the metric's unit."""


@dataclass(frozen=True, slots=True)
class Improvement:
    baseline: Answer | None = None
    effects: tuple[Effect, ...] = ()
    """The effects in the order of the catalogue, as far as the search came."""
    best: tuple[OptionChange, ...] = ()
    """The set with the best value that was seen; without any one of its changes it is not as
    good, except where the search was stopped. Empty: nothing is better than no change."""
    answer: Answer | None = None
    """The answer of the best set."""
    gain: float = 0.0
    interactions: tuple[Interaction, ...] = ()
    """Among the pairs that were tested."""
    dependencies: tuple[Dependency, ...] = ()
    """Options of the best set that alone change no code, and what they do something on top of."""
    pairs_left: int = 0
    """Pairs of changes with code of their own that no tested set has."""
    untried: tuple[OptionChange, ...] = ()
    """Changes with code of their own that were not tested beside the best set, not even together
    with others."""
    stopped: str = ""
