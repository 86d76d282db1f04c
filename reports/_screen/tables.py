"""Tables that look right on narrow and wide screens."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from perfcli import units
from perfcli.units import shorten

from .._rows.kernels import Column

# A kernel's name needs this much; columns that leave it less are left out, the last ones first.
LEAST_NAME = 30
_WIDTHS = {
    "traced": 12,
    "time": 14, "bound": 12,
    "loads": 5, "stores": 6, "vector": 6, "spilled": 7, "regs": 4, "bytes": 8, "shared": 10,
    "occup.": 7,
}  # fmt: skip
_PADDING = 2


class _KernelTable:
    """Kernels in rows, with as many columns of numbers as the screen has room for."""

    def __init__(self, columns: Sequence[Column]) -> None:
        """Make a table whose ``columns`` come in order of importance."""
        self._titles = [column.title for column in columns]
        self._rows: list[_KernelLine] = []

    def add(
        self, prefix: str, name: Text, cells: Mapping[str, Text | str], place: str = ""
    ) -> None:
        """Add one row. ``place`` says which part of the model the kernel computes."""
        shown = {title: _as_text(cells.get(title, "")) for title in self._titles}
        self._rows.append(_KernelLine(prefix, name, shown, place))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        place = self._place_width(options.max_width)
        widths = self._number_widths(options.max_width - LEAST_NAME - (place and place + _PADDING))
        left = options.max_width - sum(width + _PADDING for width in widths.values())
        if place:  # a wide screen shows more of it, once the names are whole
            longest = max(len(row.prefix) + row.name.cell_len for row in self._rows)
            whole = max(len(row.place) for row in self._rows)
            place = min(whole, max(place, left - _PADDING - max(longest, LEAST_NAME)))
            left -= place + _PADDING
        table = start_table()
        table.add_column("kernel", no_wrap=True)
        if place:
            table.add_column("model", no_wrap=True, min_width=place)
        for title, width in widths.items():
            table.add_column(title, justify="right", no_wrap=True, min_width=width)
        for row in self._rows:
            where = [shorten(row.place, place)] if place else []
            table.add_row(row.shorten(left), *where, *(row.cells[title] for title in widths))
        yield table
        hidden = [title for title in self._titles if title not in widths]
        if hidden:
            yield Text(f"hidden at this width: {', '.join(hidden)}", style="dim")

    def _place_width(self, width: int) -> int:
        longest = max((len(row.place) for row in self._rows), default=0)
        return min(max(longest, len("model")), width // 4) if longest else 0

    def _number_widths(self, room: int) -> dict[str, int]:
        """Return the columns that fit into ``room`` with their widths: no number is ever cut."""
        widths: dict[str, int] = {}
        for title in self._titles:
            longest = max((row.cells[title].cell_len for row in self._rows), default=0)
            widths[title] = max(_WIDTHS[title], longest)
            if sum(width + _PADDING for width in widths.values()) > room:
                del widths[title]
                break
        return widths


@dataclass(frozen=True, slots=True)
class _KernelLine:
    """Holds one row of a table of kernels, before its width is known."""

    prefix: str
    name: Text
    cells: Mapping[str, Text]
    place: str

    def shorten(self, width: int) -> Text:
        """Return prefix and name; the number at a name's end tells kernels apart, so that its
        middle gives way."""
        name, room = self.name, width - len(self.prefix)
        if name.cell_len > room:
            keep = (room - 1) // 2
            name = name[:keep] + Text("…", style="dim") + name[-(room - 1 - keep) :]
        return Text.assemble((self.prefix, "dim"), name)


def _as_text(cell: Text | str) -> Text:
    return Text(cell) if isinstance(cell, str) else cell


def start_table() -> Table:
    """Return a table with columns two spaces apart: the box's own and one of padding."""
    return Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False, pad_edge=False)


def _draw_labelled(rows: Iterable[tuple[str, Text]]) -> Table:
    """Return lines behind labels; what does not fit goes on below its line."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for label, text in rows:
        table.add_row(label, text)
    return table


def _draw_command(command: str) -> Text:
    """Return a line that is never wrapped: it would be pasted in two lines."""
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
