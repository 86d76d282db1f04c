"""Writes one check of a judgement in Markdown: verdict, limits, totals, findings, kernels,
environment."""

from __future__ import annotations

from collections.abc import Iterator

from perfcli import units
from perfcli.model import Comparison, FindingResult, Judged, Origin, Run
from perfcli.units import shorten

from .._rows.judgement import (
    STATES,
    is_plain_check,
    name_check,
    name_limited,
    write_allowance,
    write_check_outcome,
    write_limit,
    write_provenance,
)
from .._rows.kernels import choose_columns, write_kernel
from .._rows.places import parse_place
from .._rows.step import list_step_lines
from .._rows.totals import (
    explain_emptiness,
    list_breaks,
    list_totals,
    write_options,
    write_question,
    write_questions,
    write_variant,
)
from .._screen.findings import sum_up
from .._screen.verdict import FirstLines
from .fit import Section
from .kernels import (
    MOST_NAME,
    MOST_TEXT,
    _write_beside,
    _write_breaks,
    _write_times,
    _write_totals,
    write_findings,
    write_groups,
)
from .text import (
    _quote_code,
    _quote_prose,
    _quote_summary,
    _shorten,
    _table,
    _table_head,
    _table_row,
)


def _write_alone(comparison: Comparison, rank: int, root: str) -> list[Section]:
    run = comparison.head
    opening = f"{_quote_code(_shorten(write_question(run), MOST_TEXT))}\n\n"
    opening += f"{_quote_prose(_shorten(write_variant(run), MOST_TEXT))}\n\n"
    opening += f"{_quote_prose(sum_up(run, comparison.findings))}.\n\n"
    opening += "".join(f"- graph break: {_quote_prose(line)}\n" for line in list_breaks(run))
    lines = list_step_lines(run)
    opening += "".join(f"- {label}: {_quote_prose(text)}\n" for label, text in lines)
    opening += "".join(f"- note: {_quote_prose(note)}\n" for note in run.notes)
    rows = [(row.title, row.head) for row in list_totals(comparison)]
    return [
        Section(rank + 1, f"{opening}\n", what="summary"),
        Section(rank + 2, _table(("", ""), rows) + "\n", what="table"),
        *write_findings(comparison, rank + 3, root),
        _write_kernels(run, rank + 4),
    ]


def _write_kernels(run: Run, rank: int) -> Section:
    columns = choose_columns(run.kernels)
    rows = []
    for number, kernel in enumerate(run.kernels):
        row = write_kernel(number, kernel)
        name = _quote_code(shorten(row.name, MOST_NAME))
        rows.append(_table_row([str(number), name, *(row.cells[c.title] for c in columns)]))
    opened = f"<details><summary>{_quote_summary(f'Kernels: {len(rows)}')}</summary>\n\n"
    head = opened + _table_head(["", "kernel", *(c.title for c in columns)], 2)
    return Section(rank, head, tuple(rows), "\n</details>\n\n", "kernel")


# Ranks: how important something is within its check.
LIMITS, VERDICT, TOTALS, FINDINGS, KERNELS, ENVIRONMENT = 1, 2, 3, 5, 7, 9
RANKS = 10


def _write_check(judged: Judged, rank: int, root: str, alone: bool) -> list[Section]:
    """Return a check's sections; ``rank`` is added to theirs.

    ``alone``: the document's title has said its verdict.
    """
    sections = [] if alone else [Section(rank, _write_title(judged), what="detailed check")]
    sections += _write_limits(judged, rank + LIMITS, root)
    if judged.fault:
        fault = f"{_quote_prose(_shorten(judged.fault, MOST_TEXT))}\n\n"
        sections.append(Section(rank + LIMITS, fault, what="error"))
    if judged.comparison is not None and judged.alone:
        sections += _write_alone(judged.comparison, rank, root)
    elif judged.comparison is not None:
        sections += _write_comparison(judged, judged.comparison, rank, root)
    return sections


def _write_title(judged: Judged) -> str:
    # The first lines of a plain comparison say its reason, and more.
    said = judged.fault or is_plain_check(judged) or _has_same_reason(judged)
    reason = "" if said else f"\n\n{_quote_prose(_shorten(judged.reason, MOST_TEXT))}"
    return f"### {write_check_outcome(judged)} {_quote_code(name_check(judged))}{reason}\n\n"


def _has_same_reason(judged: Judged) -> bool:
    return judged.comparison is not None and judged.reason == judged.comparison.reason


def _write_limits(judged: Judged, rank: int, root: str) -> list[Section]:
    """Return those that are broken, allowed or not known; kept ones are counted."""
    told = [r for r in judged.limits if r.state in ("broken", "allowed", "unknown")]
    states = ("broken", "unknown", "allowed")
    told.sort(key=lambda r: (states.index(r.state), not r.is_cause))
    rows = [
        f"- **{STATES[r.state]}** {_write_subject(name_limited(r))}: "
        f"{_quote_prose(_shorten(write_limit(r), MOST_TEXT))}{_write_place(r.origin, root)}\n"
        for r in told
    ]
    rows += list(_list_findings(judged, root))
    kept = sum(result.state in ("kept", "better") for result in judged.limits)
    tail = f"- {units.plural(kept, 'limit')} kept\n\n" if kept else "\n"
    if not rows and not kept:
        return []
    return [Section(rank, "**Limits**\n\n", tuple(rows), tail, "limit")]


def _write_place(origin: Origin | None, root: str) -> str:
    """Return the line of the model below an item of a list; empty where it is not known."""
    where = parse_place(origin.location, root) if origin else None
    if origin is None or where is None:
        return ""
    code = (
        f": {_quote_code(_shorten(origin.code.strip(), MOST_TEXT))}" if origin.code.strip() else ""
    )
    return f"\n  - {_quote_code(where.text)}{code}"


def _write_subject(what: str) -> str:
    return what if what == "total" else _quote_code(_shorten(what, MOST_TEXT))


def _list_findings(judged: Judged, root: str) -> Iterator[str]:
    """Yield the findings that count against the head, or are excepted."""
    for result in judged.findings:
        if judged.comparison is not None:
            finding = judged.comparison.findings[result.finding]
            text = f"{finding.code} {finding.headline}{_write_exception(result)}"
            said = _quote_prose(_shorten(text, MOST_TEXT))
            yield f"- **{result.state}** {said}{_write_place(finding.origin, root)}\n"


def _write_exception(result: FindingResult) -> str:
    return f"; {write_allowance(result.allowance)}" if result.allowance else ""


def _write_comparison(
    judged: Judged, comparison: Comparison, rank: int, root: str
) -> list[Section]:
    sides = (("base", comparison.base), ("head", comparison.head))
    empty = [f"{side}: {text}" for side, run in sides if (text := explain_emptiness(run))]
    opening = f"{_quote_code(_shorten(write_questions(comparison), MOST_TEXT))}\n\n"
    opening += "".join(f"- {line}\n" for line in _list_first_lines(comparison))
    opening += "".join(f"- {_quote_prose(_shorten(line, MOST_TEXT))}\n" for line in empty)
    opening += _write_breaks(comparison)
    sections = [Section(rank + VERDICT, f"{opening}\n", what="verdict")]
    sections += _write_times(comparison, rank + TOTALS)
    sections += _write_beside(comparison, rank + TOTALS)
    changed = _write_totals(comparison)
    sections += [Section(rank + TOTALS, changed, what="table")] if changed else []
    sections += write_findings(comparison, rank + FINDINGS, root)
    sections += write_groups(comparison, rank + KERNELS)
    sections += [_write_environment(judged, comparison, rank + ENVIRONMENT)]
    return sections


def _list_first_lines(comparison: Comparison) -> Iterator[str]:
    """Yield what the first lines of the terminal's report say below the verdict; the verdict's own
    line, too, where the reason is another."""
    first, *rest = FirstLines(comparison).rows()
    for label, text in (("", first[1]), *rest):
        said = f"{label}: " if label else ""
        yield f"{said}{_quote_prose(_shorten(text, MOST_TEXT))}"


def _write_environment(judged: Judged, comparison: Comparison, rank: int) -> Section:
    source = write_provenance(judged)
    ids = judged.provenance is None or judged.provenance.kind == "run"
    lines = [f"apart: {text}" for text in comparison.differences]
    lines += [f"base: {source}"] if source and not ids else []
    if ids and comparison.base.id and comparison.head.id:
        lines.append(f"runs: {comparison.base.id} and {comparison.head.id}")
    notes = dict.fromkeys((*comparison.base.notes, *comparison.head.notes))
    # A gate's documents are the same bytes wherever they are made.
    lines += [f"note: {text}" for text in notes] if ids else []
    cells = zip(_list_facts(comparison.base), _list_facts(comparison.head), strict=True)
    rows = [
        (title, _quote_prose(base), _quote_prose(head))
        for (title, base), (_, head) in cells
        if base or head
    ]
    body = _table(("", "base", "head"), rows, right=9)
    body += "\n" + "".join(f"- {_quote_prose(_shorten(line, MOST_TEXT))}\n" for line in lines)
    head = f"<details><summary>{_quote_summary('Environment')}</summary>\n\n"
    return Section(rank, f"{head}{body}\n</details>\n\n", what="environment")


def _list_facts(run: Run) -> list[tuple[str, str]]:
    environment = run.environment
    variables = " ".join(f"{name}={value}" for name, value in environment.variables.items())
    return [
        ("variant", _shorten(run.variant.name or write_options(run.variant), MOST_TEXT)),
        ("torch", environment.torch),
        ("triton", environment.triton or ""),
        ("ptxas", environment.ptxas or ""),
        ("python", environment.python),
        ("GPU", environment.gpu or ""),
        ("driver", environment.driver or ""),
        ("variables", _shorten(variables, MOST_TEXT)),
    ]
