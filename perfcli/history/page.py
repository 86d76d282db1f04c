"""Pages about series: templates filled, drawings as data that the page's script draws. A page
stands alone: nothing is loaded, and nothing may run but its own script."""

from __future__ import annotations

import base64
import functools
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from perfcli import units
from perfcli.history import view
from perfcli.history.behind import Behind
from perfcli.history.changes import Held, Turning
from perfcli.history.series import Series

FOLDER = Path(__file__).parent / "templates"
MOST_POINTS = 10_000
"""Points of a page, so that it stays below a megabyte: the newest."""
_TITLED = 1000
"""The newest entries of a page that are shown with their commits' titles."""
_TITLE_LETTERS = 60
_MOST_CHANGES = 40
"""Places with changes that a page lists, the newest."""
_LOOKS = {"worse": "bad", "better": "good", "same": "good", "unsure": "doubt"}

Explain = Callable[[Turning], tuple[Behind | None, str]]
"""Returns what lies behind a change, and a link to the comparison of both sides."""


@dataclass(frozen=True, slots=True)
class Drawing:
    """Holds a series with its changes, and how its end stands where that is judged."""

    series: Series
    changes: Sequence[Turning]
    held: Held | None = None


def render_plots(groups: Sequence[Sequence[tuple[Series, Sequence[Turning]]]]) -> str:
    """Return one page with a drawing of each series."""
    drawings = [Drawing(series, changes) for group in groups for series, changes in group]
    subjects = {str(each.series.subject) for each in drawings}
    title = subjects.pop() if len(subjects) == 1 else "history"
    return render_series(title, drawings, several=bool(subjects))


def render_series(
    title: str,
    drawings: Sequence[Drawing],
    explain: Explain = lambda _: (None, ""),
    *,
    several: bool = False,
    **more: Any,
) -> str:
    """Return a page of drawings. ``several``: they are of several subjects; ``more``: what else the
    template shows."""
    entries: dict[str, int] = {}
    listed: list[list[str]] = []
    plots, data = [], []
    cut = False
    drawings = sorted(drawings, key=lambda each: each.held is None)
    for number, drawing in enumerate(drawings):
        drawing, was_cut = _cut(drawing, MOST_POINTS // max(1, min(len(drawings), 4)) * 2)
        cut = cut or was_cut
        data.append(_describe_data(drawing, entries, listed))
        plots.append(_describe_plot(number, drawing, several))
    for each in listed[:-_TITLED]:
        each[2] = ""
    note = "Older points are left out of this page; the history has them." if cut else ""
    changes, left = _describe_changes(drawings, explain)
    judged = sum(each["judged"] for each in plots)
    values = {
        "trail": [],
        "judged": judged,
        "changes": changes,
        "left_out": left,
        "links": [],
        "links_title": "",
        "constant": [],
        "note": note,
    }
    text = json.dumps({"entries": listed, "plots": data}, ensure_ascii=False)
    return render("series.html", text, title=title, plots=plots, **{**values, **more})


def _cut(drawing: Drawing, most: int) -> tuple[Drawing, bool]:
    """Return the newest points of a drawing, and whether there are more."""
    series, changes = drawing.series, drawing.changes
    gone = len(series.samples) - most
    if gone <= 0:
        return drawing, False
    shorter = replace(series, samples=series.samples[gone:])
    kept = [
        replace(each, series=shorter, index=each.index - gone)
        for each in changes
        if each.index > gone
    ]
    return Drawing(shorter, kept, drawing.held), True


def _describe_data(
    drawing: Drawing, entries: dict[str, int], listed: list[list[str]]
) -> dict[str, Any]:
    """Return what the script draws."""
    points = []
    for sample in drawing.series.samples:
        stored = sample.stored
        if stored.id not in entries:
            entries[stored.id] = len(listed)
            commit = stored.entry.commit
            title = units.printable(commit.title[:_TITLE_LETTERS])
            listed.append([commit.id[:10], stored.when[:10], title])
        point = [entries[stored.id], _short(sample.value)]
        if sample.point.low is not None and sample.point.high is not None:
            point += [_short(sample.point.low), _short(sample.point.high)]
        points.append(point)
    return {
        "points": points,
        "unit": _unit(drawing.series),
        "label": units.printable(drawing.series.name),
        "changes": [
            {"index": c.index, "before": c.before, "after": c.after, "worse": c.is_worse}
            for c in drawing.changes
        ],
    }


def _short(value: float) -> float:
    """Return as many digits as a drawing shows."""
    return float(f"{value:.6g}")


def _unit(series: Series) -> str:
    if series.kind == "measured":
        return "ratio"
    last = series.metric.rpartition("_")[2]
    return last if last in ("seconds", "bytes") else _UNITS.get(series.metric, "count")


_UNITS = {"bytes_moved": "bytes", "bytes_swept": "bytes"}


def _describe_plot(number: int, drawing: Drawing, several: bool) -> dict[str, Any]:
    series, held = drawing.series, drawing.held
    basis = ""
    if series.basis:
        words = {"measured": "against", "estimated": "with the constants"}
        basis = f"{words[series.kind]} {series.basis}"
    return {
        "id": f"series-{number}",
        "title": f"{series.subject}: {series.name}" if several else series.name,
        "kind": series.kind,
        "basis": basis,
        "judged": held is not None,
        "word": view.WORDS[held.verdict] if held else "",
        "look": _LOOKS[held.verdict] if held else "",
    }


def _describe_changes(
    drawings: Sequence[Drawing], explain: Explain
) -> tuple[list[dict[str, Any]], str]:
    """Return the places at which anything changed, the newest first, and how many are not listed.
    Series that changed at one place share what lies behind."""
    places: dict[tuple[str, str], list[tuple[int, Turning]]] = {}
    for number, drawing in enumerate(drawings):
        for change in drawing.changes:
            ends = change.last.stored.id, change.first.stored.id
            places.setdefault(ends, []).append((number, change))
    newest = sorted(places.values(), key=_place, reverse=True)
    left = len(newest) - _MOST_CHANGES
    found = [_describe_place(each, explain) for each in newest[:_MOST_CHANGES]]
    return found, f"{units.plural(left, 'older place')} not listed." if left > 0 else ""


def _place(together: Sequence[tuple[int, Turning]]) -> tuple[int, int]:
    """Return the order of a place: that of its commit, else of its addition."""
    stored = together[0][1].first.stored
    return stored.entry.commit.depth or 0, stored.sequence


def _describe_place(together: Sequence[tuple[int, Turning]], explain: Explain) -> dict[str, Any]:
    first = together[0][1]
    behind, link = explain(first)
    return {
        "id": f"change-{first.first.stored.id[:10]}",
        "place": view.name_point(first.first.stored),
        "behind": [(word, lines[:8]) for word, lines in behind.list_words()] if behind else [],
        "link": link,
        "changes": [
            {
                "worse": each.is_worse,
                "name": each.series.name,
                "size": view.write_size(each),
                "levels": f"{each.series.write(each.before)} → {each.series.write(each.after)}",
                "link": f"#series-{number}",
            }
            for number, each in together
        ],
    }


# --- templates ------------------------------------------------------------------------------------


def render(template: str, data: str, **values: Any) -> str:
    """Return a page. ``data`` is the JSON that its script reads."""
    from markupsafe import Markup

    style, script = (_read(name) for name in ("history.css", "history.js"))
    # Inside of a script element only "<" could end it or begin a comment.
    safe = data.replace("<", "\\u003c")
    text = (
        _environment()
        .get_template(template)
        .render(
            policy=_policy(style, script),
            style=Markup(style),
            script=Markup(script),
            data=Markup(safe),
            **values,
        )
    )
    return f"{text.rstrip()}\n"


@functools.cache
def _read(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


def _policy(style: str, script: str) -> str:
    """Return a policy by which nothing may be loaded, and nothing may run but this script. Styles
    are set by it as well, which needs no permission."""
    rules: Mapping[str, str] = {
        "default-src": "'none'",
        "style-src": _hash(style),
        "script-src": _hash(script),
        "img-src": "data:",  # or browsers ask for a favicon
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    return "; ".join(f"{name} {value}" for name, value in rules.items())


def _hash(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"


@functools.cache
def _environment() -> Any:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    def finalize(value: Any) -> Any:
        plain = isinstance(value, str) and not isinstance(value, Markup)
        return units.printable(value) if plain else value

    return Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )
