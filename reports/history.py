"""Writes the pages of a history: series to zoom into, drawn by the page's script, and the overview
of everything.

The same series give the same bytes: there is no time in them but those of points.
"""

from __future__ import annotations

import json
from dataclasses import asdict

from perfcli.model import Document, HistoryPage, SeriesPage

from ._html.page import _environment, _file, _policy, _safe


def _render(page: HistoryPage) -> str:
    """Return a page that stands alone."""
    style = _file("report.css") + _file("history.css")
    drawn = isinstance(page, SeriesPage)
    script = _file("history.js") if drawn else ""
    text = (
        _environment("")
        .get_template("history-series.html" if drawn else "history-overview.html")
        .render(
            page=page,
            policy=_policy(style, script),
            style=_safe(style),
            script=_safe(script),
            data=_safe(_write_data(page)) if isinstance(page, SeriesPage) else "",
        )
    )
    return text.rstrip("\n") + "\n"


def _write_data(page: SeriesPage) -> str:
    """Return what the script draws, as JSON."""
    plots = [
        {
            "points": each.points,
            "unit": each.unit,
            "label": each.label,
            "changes": [asdict(change) for change in each.changes],
        }
        for each in page.series
    ]
    text = json.dumps({"entries": page.entries, "plots": plots}, ensure_ascii=False)
    # Inside of a script element only "<" could end it or begin a comment.
    return text.replace("<", "\\u003c")


DOCUMENT = Document("history", ".html", _render)
