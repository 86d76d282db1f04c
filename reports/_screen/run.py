"""One run on the screen, or some of its kernels."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.text import Text

from perfcli import units
from perfcli.model import Run

from .._rows import totals
from .._rows.kernels import kernel_row, known_columns
from .tables import _hidden, _kernel_table, _to_paste


def run_view(run: Run, path: str = "", reference: str = "", brief: bool = False) -> RenderableType:
    """One run alone: what was compiled, and its kernels; in brief how to name it."""
    if brief:
        return Text(units.printable(reference))
    return Group(
        *_run_head(run),
        _Listing(run, range(len(run.kernels))),
        *_run_end(run, path, reference),
    )


def listing_view(run: Run, numbers: Sequence[int]) -> RenderableType:
    """Some kernels of a run, with the numbers that inspect-kernel takes."""
    return _Listing(run, numbers)


def _run_head(run: Run) -> list[RenderableType]:
    launches = sum(kernel.launches for kernel in run.kernels)
    spilled = [k.spilled_words for k in run.kernels if k.spilled_words is not None]
    externs = sum(extern.count for extern in run.externs)
    breaks = sum(run.graph_breaks.values())
    facts = [
        units.plural(len(run.kernels), "kernel"),
        units.plural(launches, "launch", "launches"),
        units.plural(externs, "extern call"),
        *([units.plural(sum(spilled), "spilled word")] if spilled else []),
        units.plural(len(run.graphs), "graph"),
        *([units.plural(breaks, "graph break")] if breaks else []),
    ]
    seconds = sum(run.compile_seconds.values())
    notes = [f"graph break: {reason}" for reason in totals.graph_breaks(run)]
    notes += [units.printable(f"note: {note}") for note in run.notes]
    nothing = totals.without_kernels(run)
    return [
        *([Text(nothing, style="bold yellow")] if nothing else []),
        Text(", ".join(facts), style="bold"),
        Text(totals.question(run)),
        Text(f"{totals.variant(run)} · compiled in {units.seconds(seconds)}"),
        *(Text(note, style="yellow") for note in notes),
        Text(""),
    ]


def _run_end(run: Run, path: str, reference: str) -> list[RenderableType]:
    parts: list[RenderableType] = [Text("")]
    if path:
        parts.append(Text(units.printable(f"stored as {path}"), overflow="fold"))
    if reference and run.kernels:
        worst = max(
            range(len(run.kernels)),
            key=lambda n: (run.kernels[n].spilled_words or 0, run.kernels[n].bytes_moved or 0),
        )
        parts.append(
            _to_paste(f"look closer: perfcli inspect-kernel {shlex.quote(reference)} {worst}")
        )
    return parts


class _Listing:
    def __init__(self, run: Run, numbers: Sequence[int]) -> None:
        self.run = run
        self.numbers = numbers

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        table = _kernel_table(options.max_width, known_columns(self.run.kernels))
        graph = None
        for number in self.numbers:
            kernel = self.run.kernels[number]
            if kernel.graph != graph:
                graph = kernel.graph
                table.add("", Text(units.printable(graph), style="bold"), {})
            row = kernel_row(number, kernel)
            table.add(f"{number:>4}  ", Text(row.name), row.cells)
        yield table.table
        yield from _hidden(table)
