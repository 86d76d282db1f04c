"""The summary of a step in GitHub Actions: Markdown, with more room than an issue has."""

from __future__ import annotations

from perfcli.model import Document, Judgement

from ._markdown.document import write_document

# GitHub drops the whole summary of a step that is longer.
MOST_BYTES = 1024 * 1024


def _render(judgement: Judgement) -> str:
    return write_document(judgement, MOST_BYTES, lambda text: len(text.encode()))


GITHUB = Document("github", ".md", _render)
