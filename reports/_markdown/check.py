"""Writes one check of a judgement in Markdown: verdict, limits, totals, findings, kernels,
environment."""

from __future__ import annotations

from collections.abc import Iterator

from perfcli import units
from perfcli.model import Comparison, FindingResult, Judged, Origin, Run

from .._rows import judgement, names
from .._rows import totals as _run_lines
from .._rows.judgement import check_name, check_word, limit_line, limit_of
from .._rows.kernels import kernel_row, known_columns
from .._rows.places import place
from .._rows.totals import total_rows
from .._screen import verdict
from .._screen.findings import summary_of
from .fit import Section
from .kernels import MOST_NAME, MOST_TEXT, _beside, _breaks, _times, _totals, findings, kernels
from .text import _code, _prose, _shorten, _summary, _table, _table_head, _table_row


def _alone(comparison: Comparison, rank: int, root: str) -> list[Section]:
    run = comparison.head
    opening = f"{_code(_shorten(_run_lines.question(run), MOST_TEXT))}\n\n"
    opening += f"{_prose(_shorten(_run_lines.variant(run), MOST_TEXT))}\n\n"
    opening += f"{_prose(summary_of(run, comparison.findings))}.\n\n"
    opening += "".join(f"- graph break: {_prose(line)}\n" for line in _run_lines.graph_breaks(run))
    opening += "".join(f"- note: {_prose(note)}\n" for note in run.notes)
    rows = [(row.title, row.head) for row in total_rows(comparison)]
    return [
        Section(rank + 1, f"{opening}\n", what="summary"),
        Section(rank + 2, _table(("", ""), rows) + "\n", what="table"),
        *findings(comparison, rank + 3, root),
        _kernels(run, rank + 4),
    ]


def _kernels(run: Run, rank: int) -> Section:
    columns = known_columns(run.kernels)
    rows = []
    for number, kernel in enumerate(run.kernels):
        row = kernel_row(number, kernel)
        name = _code(names.shorten(row.name, MOST_NAME))
        rows.append(_table_row([str(number), name, *(row.cells[c.title] for c in columns)]))
    opened = f"<details><summary>{_summary(f'Kernels: {len(rows)}')}</summary>\n\n"
    head = opened + _table_head(["", "kernel", *(c.title for c in columns)], 2)
    return Section(rank, head, tuple(rows), "\n</details>\n\n", "kernel")


# Ranks: how important something is within its check.
LIMITS, VERDICT, TOTALS, FINDINGS, KERNELS, ENVIRONMENT = 1, 2, 3, 5, 7, 9
RANKS = 10


def _check(judged: Judged, rank: int, root: str, alone: bool) -> list[Section]:
    """Return a check's sections; ``rank`` is added to theirs.

    ``alone``: the document's title has said its verdict.
    """
    sections = [] if alone else [Section(rank, _title(judged), what="detailed check")]
    sections += _limits(judged, rank + LIMITS, root)
    if judged.fault:
        fault = f"{_prose(_shorten(judged.fault, MOST_TEXT))}\n\n"
        sections.append(Section(rank + LIMITS, fault, what="error"))
    if judged.comparison is not None and judged.alone:
        sections += _alone(judged.comparison, rank, root)
    elif judged.comparison is not None:
        sections += _comparison(judged, judged.comparison, rank, root)
    return sections


def _title(judged: Judged) -> str:
    # The first lines of a plain comparison say its reason, and more.
    said = judged.fault or judgement.is_plain_check(judged) or _same_reason(judged)
    reason = "" if said else f"\n\n{_prose(_shorten(judged.reason, MOST_TEXT))}"
    return f"### {check_word(judged)} {_code(check_name(judged))}{reason}\n\n"


def _same_reason(judged: Judged) -> bool:
    return judged.comparison is not None and judged.reason == judged.comparison.reason


def _limits(judged: Judged, rank: int, root: str) -> list[Section]:
    """Return those that are broken, allowed or not known; kept ones are counted."""
    told = [r for r in judged.limits if r.state in ("broken", "allowed", "unknown")]
    states = ("broken", "unknown", "allowed")
    told.sort(key=lambda r: (states.index(r.state), not r.is_cause))
    rows = [
        f"- **{judgement.STATES[r.state]}** {_on(limit_of(r))}: "
        f"{_prose(_shorten(limit_line(r), MOST_TEXT))}{_place(r.origin, root)}\n"
        for r in told
    ]
    rows += list(_findings(judged, root))
    kept = sum(result.state in ("kept", "better") for result in judged.limits)
    tail = f"- {units.plural(kept, 'limit')} kept\n\n" if kept else "\n"
    if not rows and not kept:
        return []
    return [Section(rank, "**Limits**\n\n", tuple(rows), tail, "limit")]


def _place(origin: Origin | None, root: str) -> str:
    """Return the line of the model below an item of a list; empty where it is not known."""
    where = place(origin.location, root) if origin else None
    if origin is None or where is None:
        return ""
    code = f": {_code(_shorten(origin.code.strip(), MOST_TEXT))}" if origin.code.strip() else ""
    return f"\n  - {_code(where.text)}{code}"


def _on(what: str) -> str:
    return what if what == "total" else _code(_shorten(what, MOST_TEXT))


def _findings(judged: Judged, root: str) -> Iterator[str]:
    """Yield the findings that count against the head, or are excepted."""
    for result in judged.findings:
        if judged.comparison is not None:
            finding = judged.comparison.findings[result.finding]
            text = f"{finding.code} {finding.headline}{_excepted(result)}"
            said = _prose(_shorten(text, MOST_TEXT))
            yield f"- **{result.state}** {said}{_place(finding.origin, root)}\n"


def _excepted(result: FindingResult) -> str:
    return f"; {judgement.allowance_line(result.allowance)}" if result.allowance else ""


def _comparison(judged: Judged, comparison: Comparison, rank: int, root: str) -> list[Section]:
    sides = (("base", comparison.base), ("head", comparison.head))
    empty = [f"{side}: {text}" for side, run in sides if (text := _run_lines.without_kernels(run))]
    opening = f"{_code(_shorten(_run_lines.question(comparison.head), MOST_TEXT))}\n\n"
    opening += "".join(f"- {line}\n" for line in _first_lines(comparison))
    opening += "".join(f"- {_prose(_shorten(line, MOST_TEXT))}\n" for line in empty)
    opening += _breaks(comparison)
    sections = [Section(rank + VERDICT, f"{opening}\n", what="verdict")]
    sections += _times(comparison, rank + TOTALS)
    sections += _beside(comparison, rank + TOTALS)
    changed = _totals(comparison)
    sections += [Section(rank + TOTALS, changed, what="table")] if changed else []
    sections += findings(comparison, rank + FINDINGS, root)
    sections += kernels(comparison, rank + KERNELS)
    sections += [_environment(judged, comparison, rank + ENVIRONMENT)]
    return sections


def _first_lines(comparison: Comparison) -> Iterator[str]:
    """Yield what the first lines of the terminal's report say below the verdict; the verdict's own
    line, too, where the reason is another."""
    first, *rest = verdict.FirstLines(comparison).rows()
    for label, text in (("", first[1]), *rest):
        said = f"{label}: " if label else ""
        yield f"{said}{_prose(_shorten(text, MOST_TEXT))}"


def _environment(judged: Judged, comparison: Comparison, rank: int) -> Section:
    source = judgement.where_from(judged)
    ids = judged.provenance is None or judged.provenance.kind == "run"
    lines = [f"apart: {text}" for text in comparison.differences]
    lines += [f"base: {source}"] if source and not ids else []
    if ids and comparison.base.id and comparison.head.id:
        lines.append(f"runs: {comparison.base.id} and {comparison.head.id}")
    notes = dict.fromkeys((*comparison.base.notes, *comparison.head.notes))
    # A gate's documents are the same bytes wherever they are made.
    lines += [f"note: {text}" for text in notes] if ids else []
    cells = zip(_facts(comparison.base), _facts(comparison.head), strict=True)
    rows = [
        (title, _prose(base), _prose(head)) for (title, base), (_, head) in cells if base or head
    ]
    body = _table(("", "base", "head"), rows, right=9)
    body += "\n" + "".join(f"- {_prose(_shorten(line, MOST_TEXT))}\n" for line in lines)
    head = f"<details><summary>{_summary('Environment')}</summary>\n\n"
    return Section(rank, f"{head}{body}\n</details>\n\n", what="environment")


def _facts(run: Run) -> list[tuple[str, str]]:
    environment = run.environment
    variables = " ".join(f"{name}={value}" for name, value in environment.variables.items())
    return [
        ("variant", _shorten(run.variant.name or _run_lines.options(run.variant), MOST_TEXT)),
        ("torch", environment.torch),
        ("triton", environment.triton or ""),
        ("ptxas", environment.ptxas or ""),
        ("python", environment.python),
        ("GPU", environment.gpu or ""),
        ("driver", environment.driver or ""),
        ("variables", _shorten(variables, MOST_TEXT)),
    ]
