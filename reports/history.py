"""Writes the pages of a history: series to zoom into, and the overview of everything.

The same series give the same bytes: no times of day in them, and no ids of runs.
"""

from __future__ import annotations

from perfcli.model import HistoryDocument

from ._html.history import render_history

DOCUMENT = HistoryDocument("history", ".html", render_history)
