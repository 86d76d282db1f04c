"""Measured times on the screen: the step, the kernels, and how they were measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.text import Text

from perfcli.model import Comparison, Run, TimeVerdict
from perfcli.units import shorten

from .._rows.timing import (
    ESTIMATED_COLUMNS,
    TIME_TITLES,
    KernelTimeRow,
    TimeRow,
    count_rest,
    list_estimated,
    list_estimated_kernels,
    list_estimated_step,
    list_measured,
    list_observed,
    list_step_times,
    name_doubt,
    order_by_change,
    write_kernel_time,
    write_unexplained,
)
from .tables import _draw_labelled, start_table

MOST_KERNELS = 12
LEAST_NAME = 26
LEAST_WITH_DELTA = 88
LEAST_WITH_MARK = 72
_PADDING = 2
MARKS: Mapping[TimeVerdict, str] = {
    "slower": "red", "faster": "green", "same": "dim", "unsure": "yellow",
}  # fmt: skip


def _show_timing(comparison: Comparison) -> list[RenderableType]:
    """Return the view of everything that was measured, or nothing where nothing was."""
    timing = comparison.timing
    if timing is None:
        return []
    parts: list[RenderableType] = [Text("Traced" if timing.traced else "Measured", style="bold")]
    parts += [_Step(tuple(list_step_times(timing))), Text("")]
    shown = order_by_change(timing)[:MOST_KERNELS]
    if shown:
        parts += [Text("Kernels by time, largest changes first", style="bold")]
        rows = [write_kernel_time(group, comparison) for group in shown]
        parts += [_Kernels(tuple(rows), TIME_TITLES)]
    ends = (name_doubt(shown), count_rest(timing, shown), write_unexplained(timing))
    parts += [Text(line, style="dim") for line in ends if line]
    parts += [Text("")] if timing.groups else []
    parts += [_draw_labelled((label, Text(text)) for label, text in list_measured(timing))]
    return [*parts, Text("")]


def _draw_observed(run: Run) -> list[RenderableType]:
    """Return what a trace says of a run's steps, or nothing where there is none."""
    lines = list_observed(run)
    if not lines:
        return []
    return [_draw_labelled((label, Text(text)) for label, text in lines)]


def _show_estimate(comparison: Comparison) -> list[RenderableType]:
    """Return the view of what was estimated, or nothing where nothing was, or nothing changes."""
    estimate = comparison.estimate
    rows = list_estimated_kernels(comparison)
    if estimate is None or not (rows or estimate.missing):
        return []
    parts: list[RenderableType] = [Text("Estimated", style="bold")]
    parts += [_Step(tuple(list_estimated_step(estimate))), Text("")]
    if rows:
        parts += [Text("Kernels by estimated time, largest changes first", style="bold")]
        parts += [_Kernels(tuple(rows[:MOST_KERNELS]), ESTIMATED_COLUMNS)]
    if len(rows) > MOST_KERNELS:
        parts += [Text(f"… {len(rows) - MOST_KERNELS} more: --json FILE has them all", style="dim")]
    parts += [_draw_labelled((label, Text(text)) for label, text in list_estimated(estimate))]
    return [*parts, Text("")]


@dataclass(frozen=True)
class _Step:
    """Base, head and change of each; the difference as well where there is room."""

    rows: Sequence[TimeRow]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        wide = options.max_width >= LEAST_WITH_DELTA
        table = start_table()
        table.add_column("", no_wrap=True)
        for title in ("base", "head", *(["change"] if wide else []), "" if wide else "change"):
            table.add_column(title, justify="right", no_wrap=True)
        if options.max_width >= LEAST_WITH_MARK:
            table.add_column("", no_wrap=True)
        for row in self.rows:
            style = MARKS[row.verdict] if row.verdict else ""
            delta = [row.delta or "·"] if wide else []
            mark = Text(row.verdict or "", style=style)
            change = Text(row.change or ("" if wide else "·"), style=style)
            cells: Sequence[RenderableType] = (row.title, row.base, row.head, *delta, change, mark)
            table.add_row(*cells[: len(table.columns)])
        yield table


@dataclass(frozen=True)
class _Kernels:
    """A row each, in as many columns as fit and are known."""

    rows: Sequence[KernelTimeRow]
    titles: Sequence[str]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        widths = self._widths()
        titles, left = [], options.max_width - LEAST_NAME
        for title, width in widths.items():
            if width > left:
                break
            titles.append(title)
            left -= width
        table = start_table()
        table.add_column("kernel", no_wrap=True)
        for title in titles:
            table.add_column(title, justify="right" if title else "left", no_wrap=True)
        for row in self.rows:
            cells = (Text(row.cells[t], style=_choose_style(t, row)) for t in titles)
            table.add_row(_draw_name(row, LEAST_NAME + left), *cells)
        yield table
        hidden = [title for title in widths if title and title not in titles]
        if hidden:
            yield Text(f"hidden at this width: {', '.join(hidden)}", style="dim")

    def _widths(self) -> dict[str, int]:
        """Return the width of each column that a kernel has something in, with the space before
        it."""
        widths = {title: max(len(row.cells[title]) for row in self.rows) for title in self.titles}
        return {title: max(len(title), w) + _PADDING for title, w in widths.items() if w}


def _choose_style(title: str, row: KernelTimeRow) -> str:
    return MARKS[row.verdict] if title in ("", "change") or row.verdict == "same" else ""


def _draw_name(row: KernelTimeRow, room: int) -> Text:
    """Return the kernel's number and name, which gives way in the middle, and what became of it."""
    number = f"{row.number:>3}  " if row.number is not None else "     "
    suffix = f" {row.suffix}" if row.suffix else ""
    name = shorten(row.name, room - len(number) - len(suffix))
    return Text.assemble((number, "dim"), name, (suffix, "italic"))
