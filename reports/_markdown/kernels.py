"""Totals, times and kernels of one comparison, in Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from perfcli.model import Comparison

from .._rows import findings as _finding_rows
from .._rows import groups as _group_rows
from .._rows import names
from .._rows import timing as _timing_lines
from .._rows import timing as _timing_rows
from .._rows import totals as _beside_rows
from .._rows import totals as _run_lines
from .._rows import totals as _total_rows
from .._rows.findings import FindingRow
from .._rows.kernels import Column, KernelRow, known_columns
from .fit import Section
from .text import _block, _code, _prose, _shorten, _summary, _table, _table_head, _table_row

# Of a kernel's name in a table.
MOST_NAME = 80
_PARTS = {"base": "−", "head": "+", "sum": "Σ"}


def _totals(comparison: Comparison) -> str:
    """Return those that changed, and in a line those that did not."""
    rows = _total_rows.total_rows(comparison)
    moved = [row for row in rows if row.delta or row.base != row.head]
    same = [row.title for row in rows if row not in moved]
    cells = [
        [_marked(row.title, row.outcome), row.base, row.head, row.delta, row.relative]
        for row in moved
    ]
    if not moved:
        return ""
    text = _table(("", "base", "head", "change", ""), cells) + "\n"
    return text + (f"Unchanged: {_prose('; '.join(same))}.\n\n" if same else "")


def _marked(title: str, outcome: str) -> str:
    """Return what got worse is bold."""
    return f"**{title}**" if outcome == "worse" else title


def _times(comparison: Comparison, rank: int) -> list[Section]:
    timing = comparison.timing
    if timing is None:
        return []
    rows = [
        [row.title, row.base, row.head, row.delta, _prose(row.change), row.verdict or ""]
        for row in _timing_rows.step_rows(timing)
    ]
    step = Section(rank, _table(("", "base", "head", "change", "", ""), rows) + "\n", what="table")
    shown = [_timing_rows.kernel_time_row(g, comparison) for g in _timing_rows.by_change(timing)]
    titles = [t for t, _ in _timing_rows.COLUMNS if any(row.cells[t] for row in shown)]
    lines = tuple(
        _table_row([_time_name(row), *(_prose(row.cells[title]) for title in titles)])
        for row in shown
    )
    head = _opened("Times of kernels, largest change first") + _table_head(["kernel", *titles])
    unexplained = _timing_lines.unexplained(timing)
    end = f"\n{_prose(unexplained)}\n" if unexplained else ""
    sections = [step]
    if lines:
        tail = f"{end}\n</details>\n\n"
        sections.append(Section(rank + 1, head, lines, tail, "kernel time"))
    how = "".join(
        f"- {label}: {_prose(text)}\n" for label, text in _timing_lines.measured_lines(timing)
    )
    sections.append(
        Section(
            rank + 3,
            f"{_opened('How it was measured')}{how}\n</details>\n\n",
            what="note",
        )
    )
    return sections


def _time_name(row: _timing_rows.KernelTimeRow) -> str:
    number = f"{row.number} " if row.number is not None else ""
    suffix = f" {_prose(row.suffix)}" if row.suffix else ""
    return f"{number}{_code(names.shorten(row.name, MOST_NAME))}{suffix}"


def kernels(comparison: Comparison, rank: int) -> list[Section]:
    """Return the changed groups, costliest first, behind a line that opens them."""
    groups = _group_rows.changed_groups(comparison)
    columns = known_columns((*comparison.base.kernels, *comparison.head.kernels))
    ends = (_group_rows.unchanged(comparison), _group_rows.without_provenance(comparison))
    rest = "; ".join(line for line in ends if line)
    if not groups:
        return [Section(rank, f"{_prose(rest)}.\n\n")] if rest else []
    title = f"Kernels that changed, costliest first: {len(groups)}"
    head = _opened(title) + _table_head(["", "kernel", *(c.title for c in columns)], 2)
    rows = tuple(_group(_group_rows.group_rows(g, comparison), columns) for g in groups)
    tail = (f"\n{_prose(rest)}.\n" if rest else "") + "\n</details>\n\n"
    return [Section(rank, head, rows, tail, "kernel group")]


def _group(group: _group_rows.GroupRows, columns: Sequence[Column]) -> str:
    note = f": {_prose(group.note)}" if group.note else ""
    deltas = [f"**{group.deltas[c.title][0]}**" if c.title in group.deltas else "" for c in columns]
    lines = [["", f"**{_prose(group.headline)}**{note}", *deltas]]
    lines += [
        [_number(row), _name(row), *(row.cells[c.title] for c in columns)] for row in group.rows
    ]
    return "".join(map(_table_row, lines))


def _number(row: KernelRow) -> str:
    return _PARTS[row.part] if row.number is None else f"{_PARTS[row.part]} {row.number}"


def _name(row: KernelRow) -> str:
    return row.name if row.number is None else _code(names.shorten(row.name, MOST_NAME))


def _beside(comparison: Comparison, rank: int) -> list[Section]:
    """Return Inductor's kernels and hand-written ones, where these are the head."""
    if comparison.beside is None:
        return []
    rows = [[r.title, r.inductor, r.ours] for r in _beside_rows.beside_rows(comparison.beside)]
    lines = [
        f"explained by {each}" for each in _beside_rows.explanations(comparison, comparison.beside)
    ]
    lines += _beside_rows.kernels(comparison.beside)
    lines += [f"left out: {each}" for each in comparison.beside.left_out]
    text = _table(("", "Inductor", "hand-written"), rows)
    text += "\n" + "".join(f"- {_prose(line)}\n" for line in lines)
    return [Section(rank, f"Beside hand-written kernels:\n\n{text}\n", what="table")]


def _breaks(comparison: Comparison) -> str:
    return "".join(
        f"- graph breaks: {_prose(line)}\n" for line in _run_lines.changed_breaks(comparison)
    )


def _opened(title: str) -> str:
    return f"<details><summary>{_summary(title)}</summary>\n\n"


# Of one text of a finding, and of the lines of a kernel that it shows.
MOST_TEXT = 2000
MOST_LINES = 20


def findings(comparison: Comparison, rank: int, root: str) -> list[Section]:
    """Return what came with the head in full, what was fixed a line each, the rest counted."""
    came = tuple(_came(row) for row in _finding_rows.came(comparison, root))
    fixed = tuple(f"- fixed: {_text(line)}\n" for line in _finding_rows.gone(comparison, root))
    both = _finding_rows.on_both_sides(comparison)
    sections = []
    if came:
        sections.append(Section(rank, "**Findings**\n\n", came, "\n", "finding"))
    if fixed:
        sections.append(Section(rank + 2, "", fixed, "\n", "fixed finding"))
    if both:
        sections.append(Section(rank + 2, f"{_prose(both)}.\n\n", what="line"))
    return sections


def _came(row: FindingRow) -> str:
    """Return one item of a list, what belongs to it indented below."""
    kernels = f" ({row.kernels})" if row.kernels else ""
    lines = [f"- **{_prose(row.label)}**{kernels}: {_text(row.headline)}"]
    lines += [f"  - {_text(evidence)}" for evidence in row.evidence]
    lines += [f"  - hence {_text(text)}" for text in row.hence]
    lines += [f"  - {line}" for line in _model_line(row)]
    lines += [f"  - → {_text(row.advice)}"] if row.advice else []
    lines += [f"  - {_text(cure)}" for cure in row.cures]
    lines += _source(row)
    return "\n".join(lines) + "\n"


def _model_line(row: FindingRow) -> Iterator[str]:
    if row.location:
        text = f": {_code(_shorten(row.code, MOST_TEXT))}" if row.code else ""
        yield f"{_code(row.location)}{text}"


def _source(row: FindingRow) -> Iterator[str]:
    """Yield lines of the kernel that the evidence names, to unfold."""
    if row.source_lines:
        shown = row.source_lines[:MOST_LINES]
        lines = "\n".join(f"{number:>5}  {text.strip()[:MOST_TEXT]}" for number, text in shown)
        inner = _block(lines.replace("\t", " "), "python")
        title = _summary("the kernel's lines")
        text = f"<details><summary>{title}</summary>\n\n{inner}\n</details>"
        yield "\n" + "\n".join(f"  {line}" if line else "" for line in text.split("\n"))


def _text(text: str) -> str:
    return _prose(_shorten(text, MOST_TEXT))
