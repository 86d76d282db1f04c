"""Lines whose continuation is seen to belong to them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from perfcli import units

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
