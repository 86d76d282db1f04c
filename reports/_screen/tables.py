"""Tables that look right on narrow and wide screens."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from perfcli import units

from .._rows.kernels import Column

# A kernel's name needs this much; columns that leave it less are left out, the last ones first.
LEAST_NAME = 30
_WIDTHS = {
    "loads": 5, "stores": 6, "vector": 6, "spilled": 7, "regs": 4, "bytes": 8, "shared": 10,
    "occup.": 7,
}  # fmt: skip
_PADDING = 2


@dataclass(frozen=True, slots=True)
class KernelTable:
    """A table for kernels, with as many number columns as the width allows."""

    table: Table
    titles: tuple[str, ...]
    hidden: tuple[str, ...]
    """Columns that there was no room for."""
    name_width: int

    def add(self, prefix: str, name: Text, cells: Mapping[str, Text | str]) -> None:
        """One row; the number at a name's end tells kernels apart, so its middle gives way."""
        room = self.name_width - len(prefix)
        if name.cell_len > room:
            keep = (room - 1) // 2
            name = name[:keep] + Text("…", style="dim") + name[-(room - 1 - keep) :]
        row = Text.assemble((prefix, "dim"), name)
        self.table.add_row(row, *(cells.get(title, "") for title in self.titles))


def _kernel_table(width: int, columns: Sequence[Column]) -> KernelTable:
    """``columns`` in order of importance."""
    titles: list[str] = []
    left = width - LEAST_NAME
    for column in columns:
        left -= _WIDTHS[column.title] + _PADDING
        if left < 0:
            break
        titles.append(column.title)
    table = plain_table()
    table.add_column("kernel", no_wrap=True)
    for title in titles:
        table.add_column(title, justify="right", no_wrap=True, min_width=_WIDTHS[title])
    name_width = width - sum(_WIDTHS[title] + _PADDING for title in titles)
    hidden = tuple(c.title for c in columns if c.title not in titles)
    return KernelTable(table, tuple(titles), hidden, name_width)


def plain_table() -> Table:
    """Columns two spaces apart: the box's own and one of padding."""
    return Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False, pad_edge=False)


def _labelled(rows: Iterable[tuple[str, Text]]) -> Table:
    """Lines behind labels; what does not fit goes on below its line."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for label, text in rows:
        table.add_row(label, text)
    return table


def _hidden(table: KernelTable) -> Iterator[Text]:
    if table.hidden:
        yield Text(f"hidden at this width: {', '.join(table.hidden)}", style="dim")


def _to_paste(command: str) -> Text:
    """Never wrapped: it would be pasted in two lines."""
    return Text(units.printable(command), no_wrap=True, overflow="ignore")


HANGING = 2


@dataclass(frozen=True, slots=True)
class Hanging:
    """A line behind ``indent`` columns; what does not fit goes on below it, further in. Control
    characters are shown as such, since most of these texts come from the user's model."""

    text: Text
    indent: int = 0

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        text = Text(units.printable(self.text.plain), self.text.style, spans=self.text.spans)
        for number, part in enumerate(self._parts(text, console, options.max_width)):
            part.rstrip()
            yield Text.assemble(" " * (self.indent + (HANGING if number else 0)), part)

    def _parts(self, text: Text, console: Console, width: int) -> Iterator[Text]:
        room = width - self.indent
        if text.cell_len <= room:
            yield text
            return
        yield from text.wrap(console, max(room - HANGING, 20))
