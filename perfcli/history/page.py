"""Says what a page about series shows; ``reports/history.py`` writes it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from perfcli import units
from perfcli.history import view
from perfcli.history.behind import Behind
from perfcli.history.changes import Standing, Turning
from perfcli.history.series import Series
from perfcli.loading import registry
from perfcli.model import (
    ChangedPlace,
    ChangedSeries,
    Document,
    DrawnChange,
    DrawnSeries,
    HistoryPage,
    SeriesPage,
)

MOST_POINTS = 10_000
"""Points of a page, so that it stays below a megabyte: the newest."""
_TITLED = 1000
"""The newest entries of a page that are shown with their commits' titles."""
_TITLE_LETTERS = 60
_MOST_CHANGES = 40
"""Places with changes that a page lists, the newest."""
LOOKS = {"worse": "bad", "better": "good", "same": "good", "unsure": "doubt"}

Explain = Callable[[Turning], tuple[Behind | None, str]]
"""Returns what lies behind a change, and a link to the comparison of both sides."""


@dataclass(frozen=True, slots=True)
class Drawing:
    """Holds a series with its changes, and how its end stands where that is judged."""

    series: Series
    changes: Sequence[Turning]
    held: Standing | None = None


def render(page: HistoryPage) -> str:
    """Return the HTML of a page."""
    return registry.load_declared("reports", "history", Document).render(page)


def render_plots(groups: Sequence[Sequence[tuple[Series, Sequence[Turning]]]]) -> str:
    """Return one page with a drawing of each series."""
    drawings = [Drawing(series, changes) for group in groups for series, changes in group]
    subjects = {str(each.series.subject) for each in drawings}
    title = subjects.pop() if len(subjects) == 1 else "history"
    return render(make_page(title, drawings, several=bool(subjects)))


def make_page(
    title: str,
    drawings: Sequence[Drawing],
    explain: Explain = lambda _: (None, ""),
    *,
    several: bool = False,
) -> SeriesPage:
    """Return a page of drawings. ``several``: they are of several subjects."""
    entries: dict[str, int] = {}
    listed: list[list[str]] = []
    drawn = []
    cut = False
    drawings = sorted(drawings, key=lambda each: each.held is None)
    for drawing in drawings:
        drawing, was_cut = _cut(drawing, MOST_POINTS // max(1, min(len(drawings), 4)) * 2)
        cut = cut or was_cut
        drawn.append(_describe_series(drawing, entries, listed, several))
    for each in listed[:-_TITLED]:
        each[2] = ""
    note = "Older points are left out of this page; the history has them." if cut else ""
    places, left_out = _describe_changes(drawings, explain, several)
    return SeriesPage(title, listed, drawn, places, note, left_out)


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


def _describe_series(
    drawing: Drawing, entries: dict[str, int], listed: list[list[str]], several: bool
) -> DrawnSeries:
    """Return a series as it is drawn. ``entries`` and ``listed`` take its entries."""
    series, held = drawing.series, drawing.held
    points = []
    for sample in series.samples:
        stored = sample.stored
        if stored.id not in entries:
            entries[stored.id] = len(listed)
            commit = stored.entry.commit
            title = units.printable(commit.title[:_TITLE_LETTERS])
            listed.append([commit.id[:10], view.name_time(stored), title])
        point = [entries[stored.id], _short(sample.value)]
        if sample.point.low is not None and sample.point.high is not None:
            point += [_short(sample.point.low), _short(sample.point.high)]
        points.append(point)
    basis = ""
    if series.basis:
        words = {"measured": "against", "estimated": "with the constants", "static": "of"}
        basis = f"{words[series.kind]} {series.basis}"
    return DrawnSeries(
        title=_title(series, several),
        label=units.printable(series.name),
        kind=series.kind,
        basis=basis,
        unit=_unit(series),
        points=points,
        changes=[DrawnChange(c.index, c.before, c.after, c.is_worse) for c in drawing.changes],
        word=view.write_verdict(held) if held else "",
        look=LOOKS[held.verdict] if held else "",
    )


def _title(series: Series, several: bool) -> str:
    return f"{series.subject}: {series.name}" if several else series.name


def _short(value: float) -> float:
    """Return as many digits as a drawing shows."""
    return float(f"{value:.6g}")


def _unit(series: Series) -> str:
    if series.kind == "measured":
        return "ratio"
    last = series.metric.rpartition("_")[2]
    return last if last in ("seconds", "bytes") else _UNITS.get(series.metric, "count")


_UNITS = {"bytes_moved": "bytes", "bytes_swept": "bytes"}


def _describe_changes(
    drawings: Sequence[Drawing], explain: Explain, several: bool
) -> tuple[list[ChangedPlace], str]:
    """Return the places at which anything changed, the newest first, and how many are not listed.
    Series that changed at one place share what lies behind."""
    places: dict[tuple[str, str], list[tuple[int, Turning]]] = {}
    for number, drawing in enumerate(drawings):
        for change in drawing.changes:
            places.setdefault(change.place, []).append((number, change))
    newest = sorted(places.values(), key=_place, reverse=True)
    left = len(newest) - _MOST_CHANGES
    found = [_describe_place(each, explain, several) for each in newest[:_MOST_CHANGES]]
    return found, f"{units.plural(left, 'older place')} not listed." if left > 0 else ""


def _place(together: Sequence[tuple[int, Turning]]) -> tuple[int, int]:
    """Return the order of a place: that of its commit, else of its addition."""
    stored = together[0][1].first.stored
    return stored.entry.commit.depth or 0, stored.sequence


def _describe_place(
    together: Sequence[tuple[int, Turning]], explain: Explain, several: bool
) -> ChangedPlace:
    first = together[0][1]
    behind, link = explain(first)
    return ChangedPlace(
        id=f"change-{first.first.stored.id[:10]}",
        name=view.name_point(first.first.stored),
        series=[
            ChangedSeries(
                number,
                _title(each.series, several),
                view.write_size(each),
                f"{each.series.write(each.before)} → {each.series.write(each.after)}",
                each.is_worse,
            )
            for number, each in together
        ],
        behind=[(word, lines[:8]) for word, lines in behind.list_words()] if behind else [],
        link=link,
    )
