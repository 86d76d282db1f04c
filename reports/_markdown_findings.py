"""Findings of one comparison, in Markdown."""

from __future__ import annotations

from collections.abc import Iterator

from perfcli.model import Comparison

from . import _finding_rows
from ._finding_rows import FindingRow
from ._markdown_fit import Section
from ._markdown_text import block, code, prose, shorten, summary

# Of one text of a finding, and of the lines of a kernel that it shows.
MOST_TEXT = 2000
MOST_LINES = 20


def findings(comparison: Comparison, rank: int, root: str) -> list[Section]:
    """What came with the head in full, what was fixed a line each, the rest counted."""
    came = tuple(_came(row) for row in _finding_rows.came(comparison, root))
    fixed = tuple(f"- fixed: {_text(line)}\n" for line in _finding_rows.gone(comparison, root))
    both = _finding_rows.on_both_sides(comparison)
    sections = []
    if came:
        sections.append(Section(rank, "**Findings**\n\n", came, "\n", "finding"))
    if fixed:
        sections.append(Section(rank + 2, "", fixed, "\n", "fixed finding"))
    if both:
        sections.append(Section(rank + 2, f"{prose(both)}.\n\n", what="line"))
    return sections


def _came(row: FindingRow) -> str:
    """One item of a list, what belongs to it indented below."""
    kernels = f" ({row.kernels})" if row.kernels else ""
    lines = [f"- **{prose(row.label)}**{kernels}: {_text(row.headline)}"]
    lines += [f"  - {_text(evidence)}" for evidence in row.evidence]
    lines += [f"  - hence {_text(text)}" for text in row.hence]
    lines += [f"  - {line}" for line in _model_line(row)]
    lines += [f"  - → {_text(row.advice)}"] if row.advice else []
    lines += [f"  - {_text(cure)}" for cure in row.cures]
    lines += _source(row)
    return "\n".join(lines) + "\n"


def _model_line(row: FindingRow) -> Iterator[str]:
    if row.location:
        text = f": {code(shorten(row.code, MOST_TEXT))}" if row.code else ""
        yield f"{code(row.location)}{text}"


def _source(row: FindingRow) -> Iterator[str]:
    """Lines of the kernel that the evidence names, to unfold."""
    if row.source_lines:
        shown = row.source_lines[:MOST_LINES]
        lines = "\n".join(f"{number:>5}  {text.strip()[:MOST_TEXT]}" for number, text in shown)
        inner = block(lines.replace("\t", " "), "python")
        title = summary("the kernel's lines")
        text = f"<details><summary>{title}</summary>\n\n{inner}\n</details>"
        yield "\n" + "\n".join(f"  {line}" if line else "" for line in text.split("\n"))


def _text(text: str) -> str:
    return prose(shorten(text, MOST_TEXT))
