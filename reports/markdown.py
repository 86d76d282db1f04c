"""Markdown for a GitHub issue, a comment, or any other page: the verdict first, then what it rests
on, then what one has to unfold."""

from __future__ import annotations

from perfcli.model import Document, Judgement

from ._markdown.document import write_document

# GitHub takes 65,536 in the body of an issue or a comment, where who posts it may put a mark first.
MOST_CHARACTERS = 65_536 - 64


def _render(judgement: Judgement) -> str:
    """Return a document at most ``MOST_CHARACTERS`` long: what is least important is left out, and
    that is said."""
    return write_document(judgement, MOST_CHARACTERS, len)


MARKDOWN = Document("markdown", ".md", _render)
