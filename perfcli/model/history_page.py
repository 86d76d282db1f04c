"""Describes the pages of a history: an overview of everything, and series with their changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

Link = tuple[str, str]
"""A name, and where it leads."""


@dataclass(frozen=True, slots=True)
class DrawnChange:
    """Says that the level of a drawn series changed at a point."""

    index: int
    before: float
    after: float
    worse: bool


@dataclass(frozen=True, slots=True)
class DrawnSeries:
    """Holds a series as it is drawn."""

    title: str
    label: str
    """What its values are of."""
    kind: str
    basis: str
    unit: str
    """``ratio``, ``seconds``, ``bytes`` or ``count``."""
    points: Sequence[Sequence[float]]
    """Of each point the number of its entry, its value, and the ends of its interval if it has
    one."""
    changes: Sequence[DrawnChange]
    word: str = ""
    """How its end stands to its best; empty where that is not judged."""
    look: str = ""


@dataclass(frozen=True, slots=True)
class ChangedSeries:
    """Says by how much a series changed at a place."""

    number: int
    """That of the series on its page."""
    name: str
    size: str
    levels: str
    worse: bool


@dataclass(frozen=True, slots=True)
class ChangedPlace:
    """Holds what changed from one entry to the next, and what lies behind."""

    id: str
    name: str
    series: Sequence[ChangedSeries]
    behind: Sequence[tuple[str, Sequence[str]]]
    link: str = ""
    """Where both sides are compared; empty where they are not."""


@dataclass(frozen=True, slots=True)
class SeriesPage:
    """Holds a page of series."""

    title: str
    entries: Sequence[Sequence[str]]
    """Of each entry its commit, its day or, without a commit, its time, and its title."""
    series: Sequence[DrawnSeries]
    """Those that are judged come first."""
    places: Sequence[ChangedPlace]
    note: str = ""
    left_out: str = ""
    """How many places are not listed, in a sentence."""
    trail: Sequence[Link] = ()
    """The pages above it."""
    kernels: Sequence[Link] = ()
    constant: Sequence[tuple[str, str, str]] = ()
    """Series that never changed: their names, how many points they have, and their values."""


@dataclass(frozen=True, slots=True)
class OverviewRow:
    """Says how one scenario stands, by the series that stands worst."""

    name: str
    details: str
    link: str
    word: str
    look: str
    series: str
    course: str
    """The newest points as those of a line, 120 wide and 24 high."""
    last: str
    ratio: str
    change: str
    entries: str


@dataclass(frozen=True, slots=True)
class OverviewPage:
    """Holds the page that lists everything."""

    title: str
    note: str
    rows: Sequence[OverviewRow]


HistoryPage = SeriesPage | OverviewPage
