"""Totals, times and kernels of one comparison, in Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from perfcli.model import Comparison
from perfcli.units import shorten

from .._rows.findings import FindingRow, count_on_both_sides, list_gone, list_new
from .._rows.groups import (
    GroupRows,
    count_unchanged,
    count_unprovenanced,
    list_changed,
    write_group,
)
from .._rows.kernels import Column, KernelRow, choose_columns
from .._rows.step import list_step_changes
from .._rows.timing import (
    ESTIMATED_COLUMNS,
    TIME_TITLES,
    KernelTimeRow,
    list_estimated,
    list_estimated_kernels,
    list_estimated_step,
    list_measured,
    list_step_times,
    order_by_change,
    write_kernel_time,
    write_unexplained,
)
from .._rows.totals import (
    list_beside,
    list_changed_breaks,
    list_explanations,
    list_hand_written,
    list_totals,
)
from .fit import Section
from .text import (
    _fence,
    _quote_code,
    _quote_prose,
    _quote_summary,
    _shorten,
    _table,
    _table_head,
    _table_row,
)

# Of a kernel's name in a table.
MOST_NAME = 80
_PARTS = {"base": "−", "head": "+", "sum": "Σ"}


def _write_totals(comparison: Comparison) -> str:
    """Return those that changed, and in a line those that did not."""
    rows = list_totals(comparison)
    moved = [row for row in rows if row.delta or row.base != row.head]
    same = [row.title for row in rows if row not in moved]
    cells = [
        [_mark(row.title, row.outcome), row.base, row.head, row.delta, row.relative]
        for row in moved
    ]
    if not moved:
        return ""
    text = _table(("", "base", "head", "change", ""), cells) + "\n"
    return text + (f"Unchanged: {_quote_prose('; '.join(same))}.\n\n" if same else "")


def _mark(title: str, outcome: str) -> str:
    """Return what got worse is bold."""
    return f"**{title}**" if outcome == "worse" else title


def _write_times(comparison: Comparison, rank: int) -> list[Section]:
    timing = comparison.timing
    if timing is None:
        return _write_estimates(comparison, rank)
    rows = [
        [row.title, row.base, row.head, row.delta, _quote_prose(row.change), row.verdict or ""]
        for row in list_step_times(timing)
    ]
    step = Section(rank, _table(("", "base", "head", "change", "", ""), rows) + "\n", what="table")
    shown = [write_kernel_time(g, comparison) for g in order_by_change(timing)]
    titles = [t for t in TIME_TITLES if any(row.cells[t] for row in shown)]
    lines = tuple(
        _table_row([_name_time(row), *(_quote_prose(row.cells[title]) for title in titles)])
        for row in shown
    )
    head = _open_details("Times of kernels, largest change first") + _table_head(
        ["kernel", *titles]
    )
    unexplained = write_unexplained(timing)
    end = f"\n{_quote_prose(unexplained)}\n" if unexplained else ""
    sections = [step]
    if lines:
        tail = f"{end}\n</details>\n\n"
        sections.append(Section(rank + 1, head, lines, tail, "kernel time"))
    how = "".join(f"- {label}: {_quote_prose(text)}\n" for label, text in list_measured(timing))
    sections.append(
        Section(
            rank + 3, f"{_open_details('How it was measured')}{how}\n</details>\n\n", what="note"
        )
    )
    return sections


def _write_estimates(comparison: Comparison, rank: int) -> list[Section]:
    """Return the estimated step and kernels, where something changes or can't be told."""
    estimate, shown = comparison.estimate, list_estimated_kernels(comparison)
    if estimate is None or not (shown or estimate.missing):
        return []
    rows = [
        [row.title, row.base, row.head, row.delta, _quote_prose(row.change), row.verdict or ""]
        for row in list_estimated_step(estimate)
    ]
    head = ("estimated", "base", "head", "change", "80 % interval", "")
    sections = [Section(rank, _table(head, rows) + "\n", what="table")]
    titles = [t for t in ESTIMATED_COLUMNS if any(row.cells[t] for row in shown)]
    lines = tuple(
        _table_row([_name_time(row), *(_quote_prose(row.cells[title]) for title in titles)])
        for row in shown
    )
    if lines:
        opened = _open_details("Estimated times of kernels, largest change first")
        head_row = opened + _table_head(["kernel", *titles])
        sections.append(Section(rank + 1, head_row, lines, "\n</details>\n\n", "kernel time"))
    how = "".join(f"- {label}: {_quote_prose(text)}\n" for label, text in list_estimated(estimate))
    return [*sections, Section(rank + 3, f"{how}\n", what="note")]


def _name_time(row: KernelTimeRow) -> str:
    number = f"{row.number} " if row.number is not None else ""
    suffix = f" {_quote_prose(row.suffix)}" if row.suffix else ""
    return f"{number}{_quote_code(shorten(row.name, MOST_NAME))}{suffix}"


def write_groups(comparison: Comparison, rank: int) -> list[Section]:
    """Return the changed groups, costliest first, behind a line that opens them."""
    groups = list_changed(comparison)
    columns = choose_columns((*comparison.base.kernels, *comparison.head.kernels))
    ends = (count_unchanged(comparison), count_unprovenanced(comparison))
    rest = "; ".join(line for line in ends if line)
    if not groups:
        return [Section(rank, f"{_quote_prose(rest)}.\n\n")] if rest else []
    title = f"Kernels that changed, costliest first: {len(groups)}"
    head = _open_details(title) + _table_head(["", "kernel", *(c.title for c in columns)], 2)
    rows = tuple(_write_group(write_group(g, comparison), columns) for g in groups)
    tail = (f"\n{_quote_prose(rest)}.\n" if rest else "") + "\n</details>\n\n"
    return [Section(rank, head, rows, tail, "kernel group")]


def _write_group(group: GroupRows, columns: Sequence[Column]) -> str:
    note = f": {_quote_prose(group.note)}" if group.note else ""
    deltas = [f"**{group.deltas[c.title][0]}**" if c.title in group.deltas else "" for c in columns]
    lines = [["", f"**{_quote_prose(group.headline)}**{note}", *deltas]]
    lines += [
        [_write_number(row), _write_name(row), *(row.cells[c.title] for c in columns)]
        for row in group.rows
    ]
    return "".join(map(_table_row, lines))


def _write_number(row: KernelRow) -> str:
    return _PARTS[row.part] if row.number is None else f"{_PARTS[row.part]} {row.number}"


def _write_name(row: KernelRow) -> str:
    return row.name if row.number is None else _quote_code(shorten(row.name, MOST_NAME))


def _write_beside(comparison: Comparison, rank: int) -> list[Section]:
    """Return Inductor's kernels and hand-written ones, where these are the head."""
    if comparison.beside is None:
        return []
    rows = [[r.title, r.inductor, r.ours] for r in list_beside(comparison.beside)]
    lines = [f"explained by {each}" for each in list_explanations(comparison, comparison.beside)]
    lines += list_hand_written(comparison.beside)
    lines += [f"left out: {each}" for each in comparison.beside.left_out]
    text = _table(("", "Inductor", "hand-written"), rows)
    text += "\n" + "".join(f"- {_quote_prose(line)}\n" for line in lines)
    return [Section(rank, f"Beside hand-written kernels:\n\n{text}\n", what="table")]


def _write_breaks(comparison: Comparison) -> str:
    breaks = [f"graph breaks: {line}" for line in list_changed_breaks(comparison)]
    lines = [f"{label}: {text}" for label, text in list_step_changes(comparison)]
    return "".join(f"- {_quote_prose(line)}\n" for line in (*breaks, *lines))


def _open_details(title: str) -> str:
    return f"<details><summary>{_quote_summary(title)}</summary>\n\n"


# Of one text of a finding, and of the lines of a kernel that it shows.
MOST_TEXT = 2000
MOST_LINES = 20


def write_findings(comparison: Comparison, rank: int, root: str) -> list[Section]:
    """Return what came with the head in full, what was fixed a line each, the rest counted."""
    came = tuple(_write_finding(row) for row in list_new(comparison, root))
    fixed = tuple(f"- fixed: {_write_text(line)}\n" for line in list_gone(comparison, root))
    both = count_on_both_sides(comparison)
    sections = []
    if came:
        sections.append(Section(rank, "**Findings**\n\n", came, "\n", "finding"))
    if fixed:
        sections.append(Section(rank + 2, "", fixed, "\n", "fixed finding"))
    if both:
        sections.append(Section(rank + 2, f"{_quote_prose(both)}.\n\n", what="line"))
    return sections


def _write_finding(row: FindingRow) -> str:
    """Return one item of a list, what belongs to it indented below."""
    kernels = f" ({row.kernels})" if row.kernels else ""
    lines = [f"- **{_quote_prose(row.label)}**{kernels}: {_write_text(row.headline)}"]
    lines += [f"  - {_write_text(evidence)}" for evidence in row.evidence]
    lines += [f"  - hence {_write_text(text)}" for text in row.hence]
    lines += [f"  - {line}" for line in _write_model_line(row)]
    lines += [f"  - → {_write_text(row.advice)}"] if row.advice else []
    lines += [f"  - {_write_text(cure)}" for cure in row.cures]
    lines += _write_source(row)
    return "\n".join(lines) + "\n"


def _write_model_line(row: FindingRow) -> Iterator[str]:
    if row.location:
        text = f": {_quote_code(_shorten(row.code, MOST_TEXT))}" if row.code else ""
        yield f"{_quote_code(row.location)}{text}"


def _write_source(row: FindingRow) -> Iterator[str]:
    """Yield lines of the kernel that the evidence names, to unfold."""
    if row.source_lines:
        shown = row.source_lines[:MOST_LINES]
        lines = "\n".join(f"{number:>5}  {text.strip()[:MOST_TEXT]}" for number, text in shown)
        inner = _fence(lines.replace("\t", " "), "python")
        title = _quote_summary("the kernel's lines")
        text = f"<details><summary>{title}</summary>\n\n{inner}\n</details>"
        yield "\n" + "\n".join(f"  {line}" if line else "" for line in text.split("\n"))


def _write_text(text: str) -> str:
    return _quote_prose(_shorten(text, MOST_TEXT))
