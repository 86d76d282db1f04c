"""Prints tables: with rich in a terminal, as plain aligned columns in a pipe."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Group, RenderableType

WIDTH, PADDED = 100, 60
GAP = 2


def show(
    headers: Sequence[str], rows: Sequence[Sequence[str]], *, stack_last: bool = False
) -> None:
    """Print a table to stdout.

    In a terminal it is about 100 columns wide, and long cells wrap between words; if that is too
    narrow for a table, each cell is a line of its own. In a pipe each row is one line, and nothing
    is cut off. ``stack_last``: a terminal shows the last column below the first.
    """
    if sys.stdout.isatty():
        _show_rich(headers, rows, stack_last)
    else:
        sys.stdout.write(plain(headers, rows))


def plain(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return columns of equal width, two spaces apart; cells beyond 60 characters stick out."""
    lines = [list(headers), *([" ".join(cell.split()) for cell in row] for row in rows)]
    lengths = [[len(line[column]) for line in lines] for column in range(len(headers))]
    widths = [max(n for n in column if n <= PADDED or n == column[0]) for column in lengths]
    return "".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        + "\n"
        for line in lines
    )


def _show_rich(headers: Sequence[str], rows: Sequence[Sequence[str]], stack_last: bool) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    if stack_last:
        headers, rows = headers[:-1], [_stack(row) for row in rows]
    columns = list(zip(headers, *rows, strict=True))
    widths = _fit(columns, console.width)
    if widths is None:
        console.print(_list_below(headers, rows), soft_wrap=False)
        return
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, GAP, 0, 0))
    for number, (header, width) in enumerate(zip(headers, widths, strict=True)):
        style = "" if number else "cyan"
        table.add_column(header, overflow="fold", style=style, width=width)
    for row in rows:
        table.add_row(*map(Text, row))
    console.print(table)


def _fit(columns: Sequence[Sequence[str]], width: int) -> list[int] | None:
    """Return the width of each column: at most 100 together where that breaks no word, else as
    much as the terminal has; None where not even that is enough."""
    least = [max(_longest(cell.split()) for cell in column) for column in columns]
    widths = [max(_longest(cell.splitlines()) for cell in column) for column in columns]
    room = width - GAP * (len(columns) - 1)
    if sum(least) > room:
        return None
    room = max(min(room, WIDTH - GAP * (len(columns) - 1)), sum(least))
    while sum(widths) > room:
        spare = [most - fewest for most, fewest in zip(widths, least, strict=True)]
        widest = max(
            (number for number in range(len(widths)) if spare[number]),
            key=lambda number: widths[number],
        )
        widths[widest] -= 1
    return widths


def _longest(texts: Iterable[str]) -> int:
    return max(map(len, texts), default=0)


def _list_below(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> Group:
    """Return each row as a line for its first cell and one for each other that has something."""
    from rich.console import Group
    from rich.padding import Padding
    from rich.text import Text

    lines: list[RenderableType] = []
    for row in rows:
        lines.append(Text(row[0], style="cyan", overflow="fold"))
        for header, cell in zip(headers[1:], row[1:], strict=True):
            if cell:
                text = Text.assemble((f"{header}: ", "bold"), cell, overflow="fold")
                lines.append(Padding(text, (0, 0, 0, GAP)))
    return Group(*lines)


def _stack(row: Sequence[str]) -> Sequence[str]:
    """Return the row with its last cell below the first, where a terminal has no room for it."""
    first = f"{row[0]}\n  {row[-1]}" if row[-1] else row[0]
    return (first, *row[1:-1])
