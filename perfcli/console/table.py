"""Tables on their way out: rich in a terminal, plain aligned columns in a pipe."""

from __future__ import annotations

import sys
from collections.abc import Sequence

WIDTH, PADDED = 100, 60


def show(
    headers: Sequence[str], rows: Sequence[Sequence[str]], *, stack_last: bool = False
) -> None:
    """Print a table to stdout: at most 100 columns wide in a terminal, where long cells wrap; one
    line a row in a pipe, nothing cut off. ``stack_last``: a terminal shows the last column below
    the first."""
    if sys.stdout.isatty():
        _show_rich(headers, rows, stack_last)
    else:
        sys.stdout.write(plain(headers, rows))


def plain(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns of equal width, two spaces apart; cells beyond 60 characters stick out."""
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
    console.width = min(console.width, WIDTH)
    if stack_last:
        headers, rows = headers[:-1], [_stacked(row) for row in rows]
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    longest = max((len(line) for row in rows for line in row[0].splitlines()), default=0)
    table.add_column(headers[0], overflow="fold", style="cyan", min_width=min(longest, 50))
    for header in headers[1:]:
        table.add_column(header, overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    console.print(table)


def _stacked(row: Sequence[str]) -> Sequence[str]:
    """The last cell below the first, where a terminal has no room for it."""
    first = f"{row[0]}\n  {row[-1]}" if row[-1] else row[0]
    return (first, *row[1:-1])
