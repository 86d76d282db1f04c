"""A judgement in Markdown, as much of it as fits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from perfcli.model import GRAVEST_FIRST, Judged, Judgement

from .._rows.judgement import is_plain, list_checks, name_check, write_outcome
from .._rows.places import strip_root
from .check import RANKS, _write_check
from .fit import Section, _fit
from .text import _quote_code, _quote_prose, _shorten, _table_head, _table_row

MOST_REASON = 2000


def write_document(judgement: Judgement, most: int, measure: Callable[[str], int]) -> str:
    """Return a document at most ``most`` long by ``measure``, the verdict first."""
    ordered = sorted(judgement.checks, key=lambda each: GRAVEST_FIRST.index(each.outcome))
    alone = len(ordered) == 1
    concluded = judgement.conclusion is not None
    sections = [Section(0, _write_title(judgement, alone))]
    if not alone:
        sections.append(_write_checks(judgement, ordered))
    sections += _write_warnings(judgement)
    for number, each in enumerate(ordered):
        # Passing checks have all their details after the others'.
        rank = RANKS * (1 + number + (each.outcome == "pass") * len(ordered))
        sections += (
            replace(section, chapter=number + 1)
            for section in _write_check(each, rank, judgement.root, alone and not concluded)
        )
    if judgement.command:
        sections.append(
            Section(2, f"Made by {_quote_code(_shorten(judgement.command, MOST_REASON))}.\n")
        )
    text = _fit(sections, most, measure, "Left out to fit")
    text = strip_root(text, judgement.root)  # reasons and notes may name files, too
    return text.rstrip("\n") + "\n"


def _write_title(judgement: Judgement, alone: bool) -> str:
    name = f" {_quote_code(_shorten(name_check(judgement.checks[0]), 200))}" if alone else ""
    title = f"## {f'{write_outcome(judgement)}{name}'.strip()}\n\n"
    if judgement.conclusion is not None:
        lines = (judgement.conclusion.text, judgement.conclusion.note)
        quoted = (_quote_prose(_shorten(line, MOST_REASON)) for line in lines if line)
        return title + "".join(f"{line}\n\n" for line in quoted)
    # The first lines of a plain comparison say its reason, and more.
    said = alone and is_plain(judgement) and judgement.outcome != "fault"
    return title if said else f"{title}{_quote_prose(_shorten(judgement.reason, MOST_REASON))}\n\n"


def _write_checks(judgement: Judgement, ordered: list[Judged]) -> Section:
    rows = [
        _table_row(
            (row.word, _quote_code(_shorten(row.name, 200)), _quote_prose(_shorten(row.text, 300)))
        )
        for row in list_checks(replace(judgement, checks=tuple(ordered)))
    ]
    return Section(1, _table_head(("", "check", ""), 9), tuple(rows), "\n", "check")


def _write_warnings(judgement: Judgement) -> list[Section]:
    lines = tuple(
        f"- warning: {_quote_prose(_shorten(each, MOST_REASON))}\n" for each in judgement.warnings
    )
    return [Section(3, "", lines, "\n", "warning")] if lines else []
