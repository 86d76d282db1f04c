"""Tables that look right on narrow and wide screens."""

from __future__ import annotations

from rich import box
from rich.table import Table

from . import _rows

# A kernel's name needs this much; columns that leave it less are left out, the last ones first.
LEAST_NAME = 34
_WIDTHS = {"loads": 6, "stores": 6, "spilled": 7, "regs": 4, "bytes": 8, "shared": 9, "occup.": 6}
_PADDING = 2


def plain_table() -> Table:
    return Table(box=box.SIMPLE_HEAD, padding=(0, 1), show_edge=False, pad_edge=False)


def kernel_table(width: int) -> tuple[Table, list[str]]:
    """An empty table for kernels, and the titles of the number columns that fit."""
    titles = columns_for(width)
    table = plain_table()
    # The number at a name's end tells kernels apart, so it is the middle that gives way.
    table.add_column("kernel", no_wrap=True, overflow="ellipsis", ratio=1)
    for title in titles:
        table.add_column(title, justify="right", no_wrap=True, min_width=_WIDTHS[title])
    return table, titles


def columns_for(width: int) -> list[str]:
    titles: list[str] = []
    left = width - LEAST_NAME
    for column in _rows.COLUMNS:
        left -= _WIDTHS[column.title] + _PADDING
        if left < 0:
            break
        titles.append(column.title)
    return titles
