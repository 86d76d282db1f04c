"""Writes one page for people: works offline, asks for nothing, holds all that is shown.

The same judgement gives the same bytes: no times, ids of runs or folders of this machine in it.
"""

from __future__ import annotations

from perfcli.model import Document, Judgement

from ._html.page import page


def _render(judgement: Judgement) -> str:
    return page(judgement)


DOCUMENT = Document("html", ".html", _render)
