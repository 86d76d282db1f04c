"""A judgement in Markdown, as much of it as fits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from perfcli.model import GRAVEST_FIRST, Judged, Judgement

from .._rows import judgement as _judgement_rows
from .._rows.places import without_root
from .check import RANKS, _check
from .fit import Section, _fit
from .text import _code, _prose, _shorten, _table_head, _table_row

MOST_REASON = 2000


def document(judgement: Judgement, most: int, measure: Callable[[str], int]) -> str:
    """Return a document at most ``most`` long by ``measure``, the verdict first."""
    ordered = sorted(judgement.checks, key=lambda each: GRAVEST_FIRST.index(each.outcome))
    alone = len(ordered) == 1
    sections = [Section(0, _title(judgement, alone))]
    if not alone:
        sections.append(_checks(judgement, ordered))
    sections += _warnings(judgement)
    for number, each in enumerate(ordered):
        # Passing checks have all their details after the others'.
        rank = RANKS * (1 + number + (each.outcome == "pass") * len(ordered))
        sections += (
            replace(section, chapter=number + 1)
            for section in _check(each, rank, judgement.root, alone)
        )
    if judgement.command:
        sections.append(Section(2, f"Made by {_code(_shorten(judgement.command, MOST_REASON))}.\n"))
    text = _fit(sections, most, measure, "Left out to fit")
    text = without_root(text, judgement.root)  # reasons and notes may name files, too
    return text.rstrip("\n") + "\n"


def _title(judgement: Judgement, alone: bool) -> str:
    name = (
        f" {_code(_shorten(_judgement_rows.check_name(judgement.checks[0]), 200))}" if alone else ""
    )
    title = f"## {f'{_judgement_rows.word(judgement)}{name}'.strip()}\n\n"
    # The first lines of a plain comparison say its reason, and more.
    said = alone and _judgement_rows.is_plain(judgement) and judgement.outcome != "fault"
    return title if said else f"{title}{_prose(_shorten(judgement.reason, MOST_REASON))}\n\n"


def _checks(judgement: Judgement, ordered: list[Judged]) -> Section:
    rows = [
        _table_row((row.word, _code(_shorten(row.name, 200)), _prose(_shorten(row.text, 300))))
        for row in _judgement_rows.check_rows(replace(judgement, checks=tuple(ordered)))
    ]
    return Section(1, _table_head(("", "check", ""), 9), tuple(rows), "\n", "check")


def _warnings(judgement: Judgement) -> list[Section]:
    lines = tuple(
        f"- warning: {_prose(_shorten(each, MOST_REASON))}\n" for each in judgement.warnings
    )
    return [Section(3, "", lines, "\n", "warning")] if lines else []
