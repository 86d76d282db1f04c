"""The launch configurations of one kernel, each with what it costs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from perfcli import units
from perfcli.model import Candidate, KernelFacts

from .._rows.kernels import list_candidate_titles, write_blocks, write_candidate
from .tables import Hanging, start_table

_PADDING = 2
# Block sizes that have less room than this beside the numbers stand below them.
_LEAST_CONFIG = 24


@dataclass(frozen=True)
class _Candidates:
    """A row for each: what does not fit beside the numbers stands below them, no number is cut."""

    kernel: KernelFacts
    chosen: Candidate | None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        candidates, titles = self.kernel.candidates, ("", *list_candidate_titles(self.kernel))
        rows = [self._write_row(number) for number in range(len(candidates))]
        configs = [units.printable(write_blocks(candidate)) for candidate in candidates]
        widths = [max(map(len, column)) for column in zip(titles, *rows, strict=True)]
        room = options.max_width - sum(width + _PADDING for width in widths)
        if room >= min(max(map(len, configs)), _LEAST_CONFIG):
            yield _draw_wide(titles, rows, configs)
        else:
            yield from _draw_narrow(titles, rows, configs, widths, options.max_width)

    def _write_row(self, number: int) -> tuple[str, ...]:
        mark = "▸" if self.kernel.candidates[number] is self.chosen else " "
        return (f"{mark}{number}", *write_candidate(number, self.kernel))


def _draw_wide(
    titles: Sequence[str], rows: Sequence[Sequence[str]], configs: Sequence[str]
) -> Table:
    table = start_table()
    table.add_column("", no_wrap=True)
    table.add_column("config", overflow="fold")
    for title in titles[1:-1]:
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column(titles[-1], no_wrap=True)
    for row, config in zip(rows, configs, strict=True):
        table.add_row(Text(row[0]), Text(config), *row[1:])
    return table


def _draw_narrow(
    titles: Sequence[str],
    rows: Sequence[Sequence[str]],
    configs: Sequence[str],
    widths: Sequence[int],
    width: int,
) -> Iterator[RenderableType]:
    """Draw as many columns of numbers as fit; the others, and the config, stand below each row."""
    kept, left = 0, width + _PADDING
    while kept < len(widths) and left >= widths[kept] + _PADDING:
        left -= widths[kept] + _PADDING
        kept += 1
    heading = _align(titles[:kept], widths)
    yield Text(heading.rstrip(), style="bold")
    yield Text("─" * len(heading))
    for row, config in zip(rows, configs, strict=True):
        yield Text(_align(row[:kept], widths).rstrip())
        others = [f"{title} {cell}" for title, cell in zip(titles[kept:], row[kept:], strict=True)]
        yield Hanging(Text(" · ".join([*([config] if config else []), *others]), style="dim"), 4)


def _align(cells: Sequence[str], widths: Sequence[int]) -> str:
    """Align numbers on the right, the mark in front and the occupancy on the left."""
    last = len(widths) - 1
    return (" " * _PADDING).join(
        cell.ljust(width) if column in (0, last) else cell.rjust(width)
        for column, (cell, width) in enumerate(zip(cells, widths, strict=False))
    )
