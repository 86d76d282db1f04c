"""Shows one run on the screen, or some of its kernels."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from perfcli import units
from perfcli.model import KernelFacts, Run

from .._rows.kernels import (
    BOUND,
    RUN_COLUMNS,
    TIME,
    TRACED,
    Column,
    choose_columns,
    name_places,
    write_cells,
    write_kernel,
    write_share,
)
from .._rows.step import MOST_PLACES, list_step_lines
from .._rows.totals import explain_breaks, explain_emptiness, write_question, write_variant
from .externs import _list_externs
from .kernel import shorten_location
from .selections import _list_selections
from .tables import HANGING, Hanging, _draw_command, _KernelTable
from .timing import _draw_observed

SORTED_BY = "bytes"
"""Where no times are estimated."""
EXPECTED = "spills and registers are those of the launch configuration that is expected to win"


def show_run(
    run: Run,
    path: str = "",
    reference: str = "",
    brief: bool = False,
    top: int = 0,
    sort: str = "",
    sortable: bool = True,
) -> RenderableType:
    """Show one run alone: what was compiled, its costliest kernels by the column ``sort``, ``top``
    of them (0: all), and its extern operators; in brief how to name it. Without ``sort``, the
    column is the estimated time, or the bytes where there is none. What is left out is said with
    the command's options; ``sortable`` says whether it has --sort."""
    if brief:
        return Text(units.printable(reference))
    sort = sort or _choose_order(run.kernels)
    ordered = _order(run.kernels, sort)
    return Group(
        *_draw_head(run),
        *_list_costliest(run, ordered[: top or None], sort, sortable),
        *_list_externs(run),
        *_list_selections(run),
        *_draw_end(run, path, reference),
    )


def _choose_order(kernels: Sequence[KernelFacts]) -> str:
    """Return the column that says best what a kernel costs."""
    if any(kernel.traced_seconds is not None for kernel in kernels):
        return TRACED
    return TIME if any(kernel.estimate is not None for kernel in kernels) else SORTED_BY


def show_listing(run: Run) -> RenderableType:
    """Show all kernels of a run, graph by graph, with the numbers that inspect-kernel takes."""
    table, graph = _KernelTable(choose_columns(run.kernels, RUN_COLUMNS)), None
    places = name_places(run.kernels)
    for number, kernel in enumerate(run.kernels):
        if kernel.graph != graph:
            graph = kernel.graph
            table.add("", Text(units.printable(graph), style="bold"), {})
        _add_kernel(table, number, run, places[number])
    return table


def _draw_head(run: Run) -> list[RenderableType]:
    launches = sum(kernel.launches for kernel in run.kernels)
    externs = run.count_externs().total()
    breaks = sum(run.graph_breaks.values())
    facts = [
        units.plural(len(run.kernels), "generated kernel"),
        units.plural(launches, "launch", "launches"),
        *_write_step(run),
        *_write_spilled(run.kernels),
        units.plural(externs, "extern call"),
        units.plural(len(run.graphs), "graph"),
        *([units.plural(breaks, "graph break")] if breaks else []),
    ]
    seconds = sum(run.compile_seconds.values())
    notes = [units.printable(f"note: {note}") for note in run.notes]
    nothing = explain_emptiness(run)
    return [
        *([Text(nothing, style="bold yellow")] if nothing else []),
        Text(", ".join(facts), style="bold"),
        Text(write_question(run)),
        Text(write_variant(run) + (f" · compiled in {units.seconds(seconds)}" if seconds else "")),
        *_draw_observed(run),
        *(Text(f"{label}: {text}", style="dim") for label, text in list_step_lines(run)),
        *_draw_breaks(run),
        *(Text(note, style="yellow") for note in notes),
        Text(""),
    ]


def _write_spilled(kernels: Sequence[KernelFacts]) -> list[str]:
    """Return ``0 spilled words``, as comparisons count them, and how many the launch configurations
    have that are expected to win, where that differs."""
    known = [(k.spilled_words, k.shown) for k in kernels]
    counted = [(words, c.spilled_words) for words, c in known if words is not None and c]
    if not counted:
        return []
    least, shown = sum(words for words, _ in counted), sum(words or 0 for _, words in counted)
    text = units.plural(least, "spilled word")
    return [text if least == shown else f"{text} ({shown} where the expected configurations run)"]


def _write_step(run: Run) -> list[str]:
    """Return ``141 µs by estimate``, and of how many kernels where some have none."""
    known = [kernel for kernel in run.kernels if kernel.estimate is not None]
    if not any(kernel.launches for kernel in known):
        return []
    of = f" of {len(known)} of them" if len(known) < len(run.kernels) else ""
    return [f"{units.seconds(sum(map(_seconds_of, known)))} by estimate{of}"]


def _draw_breaks(run: Run) -> Iterator[RenderableType]:
    """Yield each reason for graph breaks, and below it the lines of the model where Dynamo gave
    up."""
    for text, places in explain_breaks(run):
        yield Text(f"graph break: {text}", style="yellow")
        for place in places[:MOST_PLACES]:
            line = f"{shorten_location(place.location)}  {place.code}".rstrip()
            yield Hanging(Text(line), HANGING)
            if place.explanation:
                yield Hanging(Text(place.explanation, style="dim"), 2 * HANGING)
        if len(places) > MOST_PLACES:
            more = units.plural(len(places) - MOST_PLACES, "more line")
            yield Hanging(Text(f"… and {more}: perfcli explain lists all", style="dim"), HANGING)


# --- the kernels -----------------------------------------------------------------------------


def _list_costliest(
    run: Run, numbers: Sequence[int], sort: str, sortable: bool
) -> list[RenderableType]:
    """Return a table of these kernels with the column that they are sorted by in front, and a line
    about those that it leaves out."""
    if not run.kernels:
        return []
    known = choose_columns(run.kernels, RUN_COLUMNS)
    columns = sorted(known, key=lambda column: column.title != sort)
    table = _KernelTable(columns)
    places = name_places(run.kernels)
    for number in numbers:
        _add_kernel(table, number, run, places[number])
    if len(run.kernels) > 1:
        # What is never launched is another form of a kernel that is: nobody pays for it.
        every = write_cells([k for k in run.kernels if k.launches], RUN_COLUMNS)
        style = "italic"
        table.add(
            "   Σ  ",
            Text(f"all {len(run.kernels)} kernels", style=style),
            {title: Text(text, style=style) for title, text in every.items()},
        )
    parts: list[RenderableType] = [table]
    if any(kernel.shown is not kernel.best for kernel in run.kernels):
        parts.append(Text(EXPECTED, style="dim"))
    left = len(run.kernels) - len(numbers)
    if not left:
        return parts
    titles = ", ".join(column.title for column in columns if column.title != BOUND)
    more = f"… and {left} more: --top 0 lists all"
    more += f", --sort COLUMN orders by another ({titles})" if sortable else ""
    return [*parts, Text(more, style="dim")]


def _add_kernel(table: _KernelTable, number: int, run: Run, place: str) -> None:
    row = write_kernel(number, run.kernels[number], columns=RUN_COLUMNS)
    cells = {**row.cells, TIME: f"{row.cells[TIME]} {_write_part(number, run):>5}"}
    table.add(f"{number:>4}  ", Text(row.name), cells, place)


def _write_part(number: int, run: Run) -> str:
    """Return a kernel's part of all generated kernels' estimated time; empty where it has none."""
    total = sum(_seconds_of(kernel) for kernel in run.kernels)
    mine = _seconds_of(run.kernels[number])
    return write_share(mine / total) if total and mine else ""


def _seconds_of(kernel: KernelFacts) -> float:
    return kernel.step_seconds or 0.0


def _order(kernels: Sequence[KernelFacts], sort: str) -> list[int]:
    """Return the numbers of the kernels, the costliest first by one column; in the order of the
    run where nothing is known of it."""
    column = next(column for column in RUN_COLUMNS if column.title == sort)
    return sorted(range(len(kernels)), key=lambda number: _rank(kernels[number], column))


def _rank(kernel: KernelFacts, column: Column) -> tuple[bool, float]:
    """Return what sorts the costliest kernel first: the largest number, of occupancy the least;
    unknown ones come last."""
    value = column.of(kernel)
    if value is None:
        return True, 0.0
    return False, value if column.total is min else -value


def _draw_end(run: Run, path: str, reference: str) -> list[RenderableType]:
    parts: list[RenderableType] = [Text("")]
    if path:
        parts.append(Text(units.printable(f"stored as {path}"), overflow="fold"))
    if reference and run.kernels:
        worst = max(
            range(len(run.kernels)),
            key=lambda n: (
                run.kernels[n].spilled_words or 0,
                run.kernels[n].bytes_moved or run.kernels[n].traced_seconds or 0,
            ),
        )
        parts.append(
            _draw_command(f"look closer: perfcli inspect-kernel {shlex.quote(reference)} {worst}")
        )
    return parts
