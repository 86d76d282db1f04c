"""Writes one page for people: works offline, asks for nothing, holds all that is shown.

The same judgement gives the same bytes: no times, ids of runs or folders of this machine in it.
"""

from __future__ import annotations

from perfcli.model import Document

from ._html.page import page

DOCUMENT = Document("html", ".html", page)
