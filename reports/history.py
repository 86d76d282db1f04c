"""Writes the pages of a history: series to zoom into, and the overview of everything.

The same series give the same bytes: there is no time in them but those of points.
"""

from __future__ import annotations

from perfcli.model import HistoryDocument

from ._html.history import render_history

DOCUMENT = HistoryDocument("history", ".html", render_history)
