"""Keeps as much of a document as fits, leaves out the least important, and says so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from perfcli import units

Measure = Callable[[str], int]

# For the line that says what was left out.
_RESERVE = 400
# Of the room that is left, for one section's rows before all others have had theirs.
_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class Section:
    """Rows between a head and a tail, all together or none; rows may be left out from the end.
    ``rank``: the smaller, the more important. ``what`` a row is, in singular: ``kernel group``."""

    rank: int
    head: str
    rows: tuple[str, ...] = ()
    tail: str = ""
    what: str = ""
    chapter: int = 0
    """Sections of one chapter go together with its title, the most important of them."""


def _fit(sections: Sequence[Section], most: int, measure: Measure, left_out: str) -> str:
    """Return the sections in order, at most ``most`` by ``measure``.

    ``left_out`` stands before what was left out: ``Left out to fit``. What has rank 0 has to fit by
    itself.
    """
    order = sorted(range(len(sections)), key=lambda number: sections[number].rank)
    room = most - _RESERVE
    taken: dict[int, int] = {}
    closed: set[int] = set()
    for number in order:
        section = sections[number]
        if section.chapter in closed:
            continue
        frame = measure(section.head) + measure(section.tail)
        first = measure(section.rows[0]) if section.rows else 0
        if frame + first > room:
            if section.chapter and not any(sections[n].chapter == section.chapter for n in taken):
                closed.add(section.chapter)
            continue
        room -= frame
        taken[number], room = _count_rows(
            section.rows, 0, room, max(first, int(room * _SHARE)), measure
        )
    for number in order:
        if number in taken:
            rows, done = sections[number].rows, taken[number]
            taken[number], room = _count_rows(rows, done, room, room, measure)
    text = "".join(_write_section(sections[number], taken[number]) for number in sorted(taken))
    return text + _count_missing(sections, taken, left_out)


def _count_rows(
    rows: Sequence[str], done: int, room: int, share: int, measure: Measure
) -> tuple[int, int]:
    """Return how many rows there are with those that go into ``share``, and the room that
    remains."""
    while done < len(rows) and (size := measure(rows[done])) <= share:
        done, share, room = done + 1, share - size, room - size
    return done, room


def _write_section(section: Section, rows: int) -> str:
    return f"{section.head}{''.join(section.rows[:rows])}{section.tail}"


def _count_missing(sections: Sequence[Section], taken: dict[int, int], left_out: str) -> str:
    counts: Counter[str] = Counter()
    for number, section in enumerate(sections):
        missing = len(section.rows) - taken.get(number, 0)
        if section.what and (missing or number not in taken):
            counts[section.what] += missing or 1
    if not counts:
        return ""
    return f"\n{left_out}: {', '.join(units.plural(n, what) for what, n in counts.items())}.\n"
