"""Shows two runs on the screen: the verdict first, then what it rests on, then where to look."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.text import Text

from perfcli import units
from perfcli.model import Beside, Comparison

from .._rows.groups import (
    GroupRows,
    count_unchanged,
    count_unprovenanced,
    is_other_code,
    list_changed,
    write_group,
)
from .._rows.kernels import Part, choose_columns
from .._rows.totals import (
    explain_emptiness,
    list_beside,
    list_changed_breaks,
    list_explanations,
    list_hand_written,
    list_totals,
    write_questions,
    write_sides,
)
from .externs import _compare_externs
from .findings import _say_nothing_to_try, _show_findings
from .tables import _draw_command, _draw_labelled, _KernelTable, start_table
from .timing import _show_estimate, _show_timing
from .verdict import STYLES, FirstLines, _draw_sentence


def _show_beside(comparison: Comparison) -> list[RenderableType]:
    """Return the view of hand-written kernels, or nothing where the head has none."""
    beside = comparison.beside
    if beside is None:
        return []
    table = start_table()
    for title in ("", "Inductor", "hand-written"):
        table.add_column(title, justify="right" if title else "left", no_wrap=True)
    for row in list_beside(beside):
        table.add_row(row.title, row.inductor, row.ours)
    heading = Text("Beside hand-written kernels", style="bold")
    return [
        heading,
        table,
        Text(""),
        _draw_labelled(_list_beside_lines(comparison, beside)),
        Text(""),
    ]


def _list_beside_lines(comparison: Comparison, beside: Beside) -> list[tuple[str, Text]]:
    explained = list_explanations(comparison, beside)
    nothing = "no finding that Inductor's kernels have and these lack"
    lines = [("explained by", Text(units.printable(each))) for each in explained]
    lines = lines or [("explained by", Text(nothing, style="dim"))]
    lines += [("kernels", Text(units.printable(each))) for each in list_hand_written(beside)]
    lines += [("left out", Text(units.printable(each))) for each in beside.left_out]
    if beside.untimed:
        lines.append(("not timed", Text(units.printable(beside.untimed), style="dim")))
    return lines


MOST_GROUPS = 25
LEAST_FOLDED = 3
"""Kernels that differ in no number, from which on they are one line."""


def show_comparison(
    comparison: Comparison,
    places: Sequence[tuple[str, str]] = (),
    brief: bool = False,
    tried: bool = False,
) -> RenderableType:
    """Return the whole report, or in brief its first line.

    ``places``: for base and head how to name the run (empty where it is not stored), and its file.
    ``tried``: whether fixes were asked for.
    """
    if brief:
        line = _draw_sentence(comparison)
        line.no_wrap, line.overflow = True, "ignore"
        return Group(line)  # print joins bare texts and forgets that this one must not wrap
    parts: list[RenderableType] = [
        FirstLines(comparison),
        Text(""),
        _draw_sides(comparison),
        Text(""),
    ]
    parts += _say_without_kernels(comparison)
    times = [*_show_timing(comparison), *_show_estimate(comparison)]
    parts += [*times, Text("Generated code", style="bold")] if times else []
    parts += _show_beside(comparison)
    parts += [_Totals(comparison), *_compare_externs(comparison), Text("")]
    breaks = [Text(f"graph breaks: {change}") for change in list_changed_breaks(comparison)]
    parts += [*breaks, Text("")] if breaks else []
    groups = list_changed(comparison)
    if groups:
        parts += [Text("Kernels that changed, costliest first", style="bold")]
        parts += [_Groups(comparison)]
    ends = (count_unchanged(comparison), count_unprovenanced(comparison))
    parts += [Text(line, style="dim") for line in ends if line]
    parts += _show_findings(comparison, places[1][0] if places else "")
    came = [finding for finding in comparison.findings if finding.came_with_head]
    parts += _say_nothing_to_try(came) if tried else []
    parts += _list_closing(comparison, places)
    return Group(*parts)


def _say_without_kernels(comparison: Comparison) -> list[RenderableType]:
    sides = (("base", comparison.base), ("head", comparison.head))
    why = [f"{side}: {nothing}" for side, run in sides if (nothing := explain_emptiness(run))]
    return [*(Text(line, style="bold yellow") for line in why), Text("")] if why else []


def _draw_sides(comparison: Comparison) -> RenderableType:
    shown = write_sides(comparison.base, comparison.head)
    sides = [(side, Text(text)) for side, text in shown]
    notes = dict.fromkeys((*comparison.base.patch_notes, *comparison.head.patch_notes))
    sides += [("patched", Text(units.printable(note))) for note in notes]
    if comparison.differences:
        differences = units.printable("; ".join(comparison.differences))
        sides += [("apart", Text(differences, style="yellow"))]
    return Group(Text(write_questions(comparison)), _draw_labelled(sides))


class _Totals:
    """Base, head and difference of each total; in percent as well where there is room."""

    def __init__(self, comparison: Comparison) -> None:
        self.comparison = comparison

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        table = start_table()
        table.add_column("", no_wrap=True)
        titles = ("base", "head", "change", "")[: 4 if options.max_width > 64 else 3]
        for title in titles:
            table.add_column(title, justify="right", no_wrap=True)
        for row in list_totals(self.comparison):
            style = STYLES[row.outcome]
            delta = Text(row.delta or "·", style=style if row.delta else "dim")
            cells = (row.base, row.head, delta, Text(row.relative, style=style))
            table.add_row(row.title, *cells[: len(titles)])
        yield table


class _Groups:
    """The changed kernels, in as many columns as fit; of those that differ in no number, how many
    there are."""

    def __init__(self, comparison: Comparison) -> None:
        self.comparison = comparison

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        every = list_changed(self.comparison)
        other = [group for group in every if is_other_code(group, self.comparison)]
        folded = other if len(other) >= LEAST_FOLDED else []
        groups = [group for group in every if group not in folded]
        kernels = (*self.comparison.base.kernels, *self.comparison.head.kernels)
        table = _KernelTable(choose_columns(kernels))
        for group in groups[:MOST_GROUPS]:
            _add_group(table, write_group(group, self.comparison))
        if groups:
            yield table
        if len(groups) > MOST_GROUPS:
            yield Text(f"… and {len(groups) - MOST_GROUPS} more: --json FILE has them all")
        if folded:
            yield Text(f"{units.plural(len(folded), 'kernel')}: other code, same numbers")


_PARTS: dict[Part, tuple[str, str]] = {
    "base": ("−", "dim"),
    "head": ("+", ""),
    "sum": ("  Σ", "italic"),
}


def _add_group(table: _KernelTable, group: GroupRows) -> None:
    style = f"bold {STYLES[group.outcome]}".strip()
    deltas = {
        title: Text(text, style=f"bold {STYLES[outcome]}".strip())
        for title, (text, outcome) in group.deltas.items()
    }
    table.add("", Text(group.headline, style=style), deltas)
    if group.note:
        table.add("   ", Text(group.note, style="italic"), {})
    for row in group.rows:
        sign, style = _PARTS[row.part]
        number = f" {row.number:>3}  " if row.number is not None else "  "
        cells = {title: Text(cell, style=style) for title, cell in row.cells.items()}
        table.add(sign + number, Text(row.name, style=style), cells)


def _list_closing(
    comparison: Comparison, places: Sequence[tuple[str, str]]
) -> list[RenderableType]:
    """Return where the runs are, and what to type next."""
    stored = [
        (side, Text(units.printable(path)))
        for side, (_, path) in zip(("base", "head"), places, strict=False)
        if path
    ]
    parts: list[RenderableType] = []
    if stored:
        parts += [Text(""), Text("Stored", style="bold"), _draw_labelled(stored)]
    closer = _list_commands(comparison, places)
    if closer:
        parts += [Text(""), Text("Look closer", style="bold")]
        parts += [_draw_command(command) for command in closer]
    return parts


def _list_commands(comparison: Comparison, places: Sequence[tuple[str, str]]) -> list[str]:
    groups = list_changed(comparison)
    references = [reference for reference, _ in places] or ["", ""]
    commands = []
    if groups:
        match = groups[0].match
        for reference, indices in zip(references, (match.base, match.head), strict=True):
            if reference and indices:
                commands.append(f"perfcli inspect-kernel {shlex.quote(reference)} {indices[0]}")
    return commands[::-1]
