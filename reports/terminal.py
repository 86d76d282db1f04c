"""The report that people read: the verdict first, then what it rests on, then where to look."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from perfcli import units
from perfcli.model import Comparison, Outcome, Run, Screen

from . import _rows
from ._kernel_view import kernel_view
from ._tables import kernel_table, plain_table

STYLES: dict[Outcome, str] = {"worse": "red", "better": "green", "same": "", "unknown": "yellow"}
MOST_GROUPS = 25


def comparison_view(
    comparison: Comparison, places: Sequence[tuple[str, str]] = (), brief: bool = False
) -> RenderableType:
    """The whole report, or in brief its first line. ``places``: for base and head how to name the
    run (empty where it is not stored), and its file."""
    if brief:
        return verdict(comparison)
    parts: list[RenderableType] = [verdict(comparison), Text(""), _sides(comparison), Text("")]
    parts += [_totals(comparison), Text("")]
    groups = _rows.changed_groups(comparison)
    if groups:
        parts += [Text("Kernels that changed, costliest first", style="bold")]
        parts += [_Groups(comparison)]
    parts += [Text(_rows.unchanged(comparison), style="dim")] if _rows.unchanged(comparison) else []
    parts += _closing(comparison, places)
    return Group(*parts)


def verdict(comparison: Comparison) -> Text:
    """The first line."""
    style = f"bold {STYLES[comparison.outcome]}".strip()
    word = Text(_rows.VERDICTS[comparison.outcome], style=style)
    return Text.assemble(word, "  ", units.printable(comparison.reason))


def _sides(comparison: Comparison) -> RenderableType:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row("of", Text(_rows.question(comparison.head)))
    table.add_row("base", Text(_rows.variant(comparison.base)))
    table.add_row("head", Text(_rows.variant(comparison.head)))
    if comparison.differences:
        differences = units.printable("; ".join(comparison.differences))
        table.add_row("apart", Text(differences, style="yellow"))
    return table


def _totals(comparison: Comparison) -> RenderableType:
    table = plain_table()
    table.add_column("")
    for title in ("base", "head", "change", ""):
        table.add_column(title, justify="right", no_wrap=True)
    for row in _rows.total_rows(comparison):
        style = STYLES[row.outcome]
        delta = Text(row.delta or "·", style=style if row.delta else "dim")
        table.add_row(row.title, row.base, row.head, delta, Text(row.relative, style=style))
    return table


class _Groups:
    """The changed kernels, in as many columns as fit."""

    def __init__(self, comparison: Comparison) -> None:
        self.comparison = comparison

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        groups = _rows.changed_groups(self.comparison)
        table, titles = kernel_table(options.max_width)
        for group in groups[:MOST_GROUPS]:
            rows = _rows.group_rows(group, self.comparison)
            head = Text.assemble(
                (rows.headline, f"bold {STYLES[rows.outcome]}".strip()), "  ", (rows.delta, "dim")
            )
            table.add_row(head, *("" for _ in titles))
            for row in rows.rows:
                _add(table, row, titles)
        yield table
        if len(groups) > MOST_GROUPS:
            yield Text(f"… and {len(groups) - MOST_GROUPS} more: --json FILE has them all")


_SIGNS: dict[_rows.Part, tuple[str, str]] = {
    "base": ("−", "dim"),
    "head": ("+", ""),
    "sum": (" ", "italic"),
}


def _add(table: Table, row: _rows.KernelRow, titles: Sequence[str]) -> None:
    sign, style = _SIGNS[row.part]
    number = f"{row.number:>4} " if row.number is not None else "     "
    name = Text.assemble((f"{sign}{number}", "dim"), (row.name, style))
    table.add_row(name, *(Text(row.cells[title], style=style) for title in titles))


def _closing(comparison: Comparison, places: Sequence[tuple[str, str]]) -> list[RenderableType]:
    """Where the runs are, and what to type next."""
    stored = [(side, path) for side, (_, path) in zip(("base", "head"), places, strict=False)]
    parts: list[RenderableType] = []
    if any(path for _, path in stored):
        table = Table.grid(padding=(0, 2))
        for side, path in stored:
            table.add_row(Text(f"{side} is", style="dim"), Text(path, overflow="fold"))
        parts += [Text(""), table]
    closer = list(_look_closer(comparison, places))
    if closer:
        parts += [Text(""), Text("Look closer", style="bold")]
        parts += [Padding(Text(command, overflow="fold"), (0, 0, 0, 2)) for command in closer]
    return parts


def _look_closer(comparison: Comparison, places: Sequence[tuple[str, str]]) -> list[str]:
    groups = _rows.changed_groups(comparison)
    references = [reference for reference, _ in places] or ["", ""]
    commands = []
    if groups:
        match = groups[0].match
        for reference, indices in zip(references, (match.base, match.head), strict=True):
            if reference and indices:
                commands.append(f"perfcli inspect-kernel {reference} {indices[0]}")
    return commands[::-1]


# --- one run ---------------------------------------------------------------------------------


def run_view(run: Run, path: str = "", reference: str = "", brief: bool = False) -> RenderableType:
    """One run alone: what was compiled, and its kernels; in brief how to name it."""
    if brief:
        return Text(reference or run.id)
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
    facts = [
        units.plural(len(run.kernels), "kernel"),
        units.plural(launches, "launch", "launches"),
        units.plural(externs, "extern call"),
        *([units.plural(sum(spilled), "spilled word")] if spilled else []),
        units.plural(len(run.graphs), "graph"),
        *([units.plural(len(run.graph_breaks), "graph break")] if run.graph_breaks else []),
    ]
    seconds = sum(run.compile_seconds.values())
    notes = [Text(units.printable(f"note: {note}"), style="yellow") for note in run.notes]
    return [
        Text(", ".join(facts), style="bold"),
        Text(_rows.question(run)),
        Text(f"{_rows.variant(run)} · compiled in {units.seconds(seconds)}"),
        *notes,
        Text(""),
    ]


def _run_end(run: Run, path: str, reference: str) -> list[RenderableType]:
    parts: list[RenderableType] = [Text("")]
    if path:
        parts.append(Text(f"stored as {path}", overflow="fold"))
    if reference and run.kernels:
        worst = max(
            range(len(run.kernels)),
            key=lambda n: (run.kernels[n].spilled_words or 0, run.kernels[n].bytes_moved or 0),
        )
        parts.append(Text(f"look closer: perfcli inspect-kernel {reference} {worst}"))
    return parts


class _Listing:
    def __init__(self, run: Run, numbers: Sequence[int]) -> None:
        self.run = run
        self.numbers = numbers

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        table, titles = kernel_table(options.max_width)
        graph = None
        for number in self.numbers:
            kernel = self.run.kernels[number]
            if kernel.graph != graph:
                graph = kernel.graph
                head = Text(units.printable(graph), style="bold")
                table.add_row(head, *("" for _ in titles))
            row = _rows.kernel_row(number, kernel)
            name = Text.assemble((f"{number:>4} ", "dim"), row.name)
            table.add_row(name, *(row.cells[title] for title in titles))
        yield table


SCREEN = Screen(comparison_view, run_view, kernel_view, listing_view)
