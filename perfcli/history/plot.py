"""Draws a series in the terminal: with dots of braille, or in a pipe with plain characters."""

from __future__ import annotations

import math
from collections.abc import Sequence

from perfcli import units
from perfcli.history import view
from perfcli.history.changes import Turning
from perfcli.history.series import Series

ROWS = 12
_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""The bits of a braille character, by row and column of its dots."""
_BRAILLE = 0x2800


def draw(series: Series, changes: Sequence[Turning], width: int, *, plain: bool) -> list[str]:
    """Return the lines of a drawing: values above each other, points side by side, a mark below
    each change. ``plain``: only ASCII."""
    values = series.values
    low, high = min(values), max(values)
    flat = math.isclose(low, high, rel_tol=1e-9)
    labels = {ROWS // 2: series.write(high)}
    if not flat:
        labels = {0: series.write(high), ROWS - 1: series.write(low)}
    margin = max(map(len, labels.values())) + 1
    columns = max(width - margin - 1, 20)
    across, down = (1, 1) if plain else (2, 4)
    places = _place(len(values), columns * across)
    rows = ROWS * down
    dots = {
        (rows // 2 if flat else round((high - value) / (high - low) * (rows - 1)), place)
        for place, value in zip(places, values, strict=True)
    }
    lines = _plain_lines(dots, columns) if plain else _braille_lines(dots, columns)
    found = []
    for number, line in enumerate(lines):
        found.append(f"{labels.get(number, ''):>{margin}}{'|' if plain else '┤'}{line}".rstrip())
    marks = [" "] * columns
    for each in changes:
        marks[min(places[each.index] // across, columns - 1)] = "^" if plain else "▲"
    edge = ("+" + "-" * columns) if plain else ("└" + "─" * columns)
    found.append(" " * margin + edge)
    found.append((" " * (margin + 1) + "".join(marks)).rstrip())
    first, last = (units.printable(_name(series, index)) for index in (0, -1))
    if len(values) == 1:
        return [*found, " " * (margin + 1) + first]
    found.append(" " * (margin + 1) + f"{first}{last:>{max(columns - len(first), len(last) + 1)}}")
    return found


def _place(count: int, columns: int) -> list[int]:
    """Return the column of each point, the first on the left and the last on the right."""
    return [index * (columns - 1) // max(count - 1, 1) for index in range(count)]


def _name(series: Series, index: int) -> str:
    stored = series.samples[index].stored
    commit = stored.entry.commit
    return f"{commit.id[:8]} {view.name_time(stored)}".strip()


def _plain_lines(dots: set[tuple[int, int]], columns: int) -> list[str]:
    return ["".join("*" if (r, c) in dots else " " for c in range(columns)) for r in range(ROWS)]


def _braille_lines(dots: set[tuple[int, int]], columns: int) -> list[str]:
    cells = [[0] * columns for _ in range(ROWS)]
    for row, column in dots:
        cells[row // 4][column // 2] |= _DOTS[row % 4][column % 2]
    return ["".join(chr(_BRAILLE + bits) if bits else " " for bits in row) for row in cells]
