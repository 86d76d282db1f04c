"""One run by itself, in Markdown: its totals, all of its findings, all of its kernels."""

from __future__ import annotations

from perfcli.model import Comparison, Run

from . import _run_lines
from ._findings import summary_of
from ._kernel_rows import kernel_row, known_columns
from ._markdown_findings import MOST_TEXT, findings
from ._markdown_fit import Section
from ._markdown_kernels import MOST_NAME
from ._markdown_text import code, prose, summary, table, table_head, table_row
from ._markdown_text import shorten as shorten_text
from ._names import shorten
from ._total_rows import total_rows


def alone(comparison: Comparison, rank: int, root: str) -> list[Section]:
    run = comparison.head
    opening = f"{code(shorten_text(_run_lines.question(run), MOST_TEXT))}\n\n"
    opening += f"{prose(shorten_text(_run_lines.variant(run), MOST_TEXT))}\n\n"
    opening += f"{prose(summary_of(run, comparison.findings))}.\n\n"
    opening += "".join(f"- graph break: {prose(line)}\n" for line in _run_lines.graph_breaks(run))
    opening += "".join(f"- note: {prose(note)}\n" for note in run.notes)
    rows = [(row.title, row.head) for row in total_rows(comparison)]
    return [
        Section(rank + 1, f"{opening}\n", what="summary"),
        Section(rank + 2, table(("", ""), rows) + "\n", what="table"),
        *findings(comparison, rank + 3, root),
        _kernels(run, rank + 4),
    ]


def _kernels(run: Run, rank: int) -> Section:
    columns = known_columns(run.kernels)
    rows = []
    for number, kernel in enumerate(run.kernels):
        row = kernel_row(number, kernel)
        name = code(shorten(row.name, MOST_NAME))
        rows.append(table_row([str(number), name, *(row.cells[c.title] for c in columns)]))
    opened = f"<details><summary>{summary(f'Kernels: {len(rows)}')}</summary>\n\n"
    head = opened + table_head(["", "kernel", *(c.title for c in columns)], 2)
    return Section(rank, head, tuple(rows), "\n</details>\n\n", "kernel")
