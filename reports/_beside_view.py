"""Inductor's kernels beside hand-written ones on the screen."""

from __future__ import annotations

from rich.console import RenderableType
from rich.text import Text

from perfcli import units
from perfcli.model import Beside, Comparison

from . import _beside_rows
from ._tables import labelled, plain_table


def beside_view(comparison: Comparison) -> list[RenderableType]:
    """Nothing where the head are no hand-written kernels."""
    beside = comparison.beside
    if beside is None:
        return []
    table = plain_table()
    for title in ("", "Inductor", "hand-written"):
        table.add_column(title, justify="right" if title else "left", no_wrap=True)
    for row in _beside_rows.beside_rows(beside):
        table.add_row(row.title, row.inductor, row.ours)
    heading = Text("Beside hand-written kernels", style="bold")
    return [heading, table, Text(""), labelled(_lines(comparison, beside)), Text("")]


def _lines(comparison: Comparison, beside: Beside) -> list[tuple[str, Text]]:
    explained = _beside_rows.explanations(comparison, beside)
    nothing = "no finding that Inductor's kernels have and these lack"
    lines = [("explained by", Text(units.printable(each))) for each in explained]
    lines = lines or [("explained by", Text(nothing, style="dim"))]
    lines += [("kernels", Text(units.printable(each))) for each in _beside_rows.kernels(beside)]
    lines += [("left out", Text(units.printable(each))) for each in beside.left_out]
    if beside.untimed:
        lines.append(("not timed", Text(units.printable(beside.untimed), style="dim")))
    return lines
