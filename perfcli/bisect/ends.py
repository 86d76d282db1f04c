"""The report of a search and of the comparison of its ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from perfcli.bisect import document, view
from perfcli.bisect.answer import CHANGES, Bisection, list_changes
from perfcli.console import documents, output
from perfcli.console.documents import Wanted
from perfcli.diagnosis import judge
from perfcli.diff.compare import gather_evidence
from perfcli.errors import NotComparable
from perfcli.model import Comparison
from perfcli.workflow.context import Context
from perfcli.workflow.fingerprint import Job
from perfcli.workflow.obtain import Obtained, obtain

if TYPE_CHECKING:
    from rich.text import Text


@dataclass(frozen=True, slots=True)
class Shown:
    wanted: Wanted
    quiet: bool
    report: bool


def _worth_comparing(found: Bisection) -> bool:
    """Return whether to compare both ends, which is not worth while after an interrupt: nobody
    waits; nor where a limit came before any answer: compiling both ends to the end would outlast
    it. Of a catalogue where there is an answer."""
    if found.stopped == "interrupted":
        return False
    if found.direction is not None:
        return bool(found.cure)
    return not found.stopped or bool(found.culprits and found.culprits.sets)


@dataclass(frozen=True, slots=True)
class _Compared:
    comparison: Comparison
    places: list[tuple[str, str]]


def _compare_ends(jobs: Sequence[Job], context: Context) -> _Compared | None:
    """Return both, compiled to the end, each in a fresh process, or as stored."""
    try:
        runs: list[Obtained] = obtain(jobs, context, again="")
        comparison, broken = judge(gather_evidence(runs[0].run, runs[1].run))
    except NotComparable as error:
        context.notes.warn(f"the two ends are not compared: {error}")
        return None
    if broken:
        context.notes.warn(str(broken))
    return _Compared(comparison, [(run.reference, run.shown_path) for run in runs])


def _line(text: str) -> Text:
    """Return the line unwrapped, because commands are to be pasted: they stay in one line."""
    from rich.text import Text

    if "perfcli compare " in text:
        return Text(text, no_wrap=True, overflow="ignore")
    return Text(text)


def _show(found: Bisection, ends: _Compared | None, shown: Shown) -> None:
    """Writes the report to stdout and, where asked for, JSON and the table."""
    from rich.console import Group
    from rich.text import Text

    comparison = ends.comparison if ends else None
    if shown.wanted.json is not None:
        references = [reference for reference, _ in ends.places] if ends else []
        fields = document._fields(found, comparison, references)
        output.write_document("bisection", fields, shown.wanted.json)
    documents.write_table(CHANGES, list_changes(found), shown.wanted)
    lines = [view._verdict(found)] if shown.quiet else view._lines(found)
    output.show(Group(*map(_line, lines)), shown.wanted.stdout)
    if ends is None or shown.quiet:
        return
    screen = output.screen()
    head = Text("\nthe two ends:" if found.direction is None else "\nbefore and after:")
    body = screen.comparison(ends.comparison, ends.places, not shown.report, False)
    output.show(Group(head, body), shown.wanted.stdout)
    references = [reference for reference, _ in ends.places]
    if not shown.report and all(references):
        line = f"look closer: perfcli compare {' '.join(references)}"
        output.show(Group(_line(line)), shown.wanted.stdout)
