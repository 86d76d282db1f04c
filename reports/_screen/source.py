"""A kernel's source with what each line became in machine code."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from perfcli import units
from perfcli.model import Candidate, LineCounts

_GUTTER = "{:>4} {:>4} {:>4} {:>4}"


@dataclass(frozen=True)
class SourceView:
    """Shows each line behind its LDG, STG, LDL and STL instructions, spills in red.

    What is longer than the screen is wide is cut, or the columns would be lost: --source prints it
    in full.
    """

    source: str
    chosen: Candidate | None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for line in self._lines():
            line.no_wrap = True
            line.truncate(options.max_width, overflow="ellipsis")
            yield line

    def _lines(self) -> Iterator[Text]:
        lines = self.chosen.lines if self.chosen else {}
        if lines:
            yield Text(_GUTTER.format("LDG", "STG", "LDL", "STL"), style="dim")
        source = units.printable(self.source).expandtabs(4).splitlines()
        for number, line in enumerate(source, 1):
            counts = lines.get(str(number), LineCounts())
            spills = counts.local_loads or counts.local_stores
            text = Text()
            if lines:
                text.append(_write_gutter(counts), style="bold red" if spills else "cyan")
                text.append("!" if spills else " ", style="bold red")
            text.append(f"{number:>4} ", style="dim")
            yield text.append(line, style="red" if spills else "")


def _write_gutter(counts: LineCounts) -> str:
    numbers = (counts.global_loads, counts.global_stores, counts.local_loads, counts.local_stores)
    return _GUTTER.format(*(n or "" for n in numbers))
