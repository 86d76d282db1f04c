"""What ``perfcli history`` prints: lines of text, about series, their changes and their ends."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from perfcli import units
from perfcli.console import table
from perfcli.frames.table import Column, Table
from perfcli.history.changes import Standing, Turning
from perfcli.history.entry import Stored, Subject
from perfcli.history.series import Sample, Series
from perfcli.units import shorten

if TYPE_CHECKING:
    from perfcli.history.behind import Behind

OVERVIEW = ("series", "points", "last", "change points")


def describe_row(series: Series, changes: Sequence[Turning]) -> list[str]:
    """Return the cells of one series."""
    latest = f"{len(changes)}, {describe_change(changes[-1])}" if changes else "none"
    last = series.write(series.values[-1])
    return [shorten(series.name, table.PADDED), units.count(len(series.samples)), last, latest]


def sum_up(series: Sequence[tuple[Series, Sequence[Turning]]]) -> str:
    """Return one line about several series."""
    subjects = {each.subject.key for each, _ in series}
    changes = [change for _, changes in series for change in changes]
    counted = units.plural(len(changes), "change point") if changes else "no change point"
    if changes:
        last = max(changes, key=lambda each: each.first.stored.sequence)
        counted += f", the last of {last.series.name}: {describe_change(last)}"
    number = units.plural(len(series), "series", "series")
    return f"{number} of {units.plural(len(subjects), 'scenario')}: {counted}"


def describe_change(change: Turning) -> str:
    """Return ``+3.1 % at a1b2c3d4e5f6, 2026-11-20``."""
    return f"{write_size(change)} at {name_point(change.first.stored)}"


def write_size(change: Turning) -> str:
    if change.ratio is None:
        write = units.writer(change.series.metric)
        return f"{write(change.before)} → {write(change.after)}"
    return units.relative(change.before, change.after) or "0 %"


def name_point(stored: Stored) -> str:
    """Return a point by its commit and its day, or by the time where it has no commit."""
    commit = stored.entry.commit
    title = f" {commit.title}" if commit.title else ""
    return units.printable(", ".join(filter(None, (commit.id[:12] + title, name_time(stored)))))


def name_time(stored: Stored) -> str:
    """Return the day of a point; of one without a commit the second, as nothing else tells it from
    those of the same day."""
    if stored.entry.commit.id:
        return stored.when[:10]
    return f"{stored.when[:19].replace('T', ' ')} UTC" if stored.when[10:] else stored.when


def describe_behind(changes: Sequence[Turning], behind: Behind) -> Iterator[str]:
    """Yield the changes of several series at one place, with what lies behind them."""
    for change in changes:
        series = change.series
        word = "worse" if change.is_worse else "better"
        levels = f"{series.write(change.before)} → {series.write(change.after)}"
        sure = "" if change.p is None else f", p {change.p:.3f}"
        size = f" ({write_size(change)})" if change.ratio is not None else ""
        yield f"{word:<6}  {series.name} {levels}{size}{sure}"
    yield f"  from     {name_point(changes[0].last.stored)}"
    yield f"  to       {name_point(changes[0].first.stored)}"
    for part, lines in behind.list_words():
        yield from _list(part, lines)


_MOST = 8


def _list(word: str, lines: Sequence[str]) -> Iterator[str]:
    for number, line in enumerate(lines[:_MOST]):
        yield f"  {word if not number else '':<8} {units.printable(line)}"
    if len(lines) > _MOST:
        yield f"  {'':<8} and {len(lines) - _MOST} more"


WORDS = {"worse": "WORSE", "same": "SAME", "better": "BETTER", "unsure": "UNSURE"}


def write_verdict(held: Standing) -> str:
    """Return how the end of a series stands, in a word: what is worse within the limit passes, and
    is not called the same."""
    word = WORDS[held.verdict]
    return "PASS" if held.verdict == "same" and _is_apart(held) else word


def _is_apart(held: Standing) -> bool:
    """Return whether the end of a series is known to differ from its best."""
    if held.ratio is None:
        return held.last != held.best
    if held.series.is_exact:
        return not math.isclose(held.ratio, 1, rel_tol=1e-9)
    return not (held.low or 0) <= 1 <= (held.high or 0)


def describe_held(held: Standing, limit: float) -> Iterator[str]:
    """Yield how the end of a series stands, with what led there if it is worse. ``limit``: in
    percent."""
    series = held.series
    first = f"{write_verdict(held):<6}  {series.name}"
    if held.verdict == "unsure":
        yield f"{first}: {held.why}"
        return
    if series.is_exact and not _is_apart(held):
        yield f"{first}: the same as at its best"
        return
    within = f", within the limit of {limit:g} %" if write_verdict(held) == "PASS" else ""
    yield f"{first}: {write_ratio(held)} to its best{within}"
    if held.verdict != "worse":
        return
    begins, ends = (series.samples[index].stored for index in (held.begins, held.ends))
    count = held.ends - held.begins
    if held.is_drift:
        most = write_size(held.changes[0]) if held.changes else "too small to be seen alone"
        points = units.plural(count, "point")
        yield f"        drift over {points}, which no single commit shows; the largest: {most}"
    yield f"        from {name_point(begins)}"
    yield f"        to   {name_point(ends)}"


def sum_up_held(held: Sequence[Standing]) -> str:
    """Return one line about the ends of several series: the worst of them, and how many are no
    worse."""
    by_verdict = {name: [h for h in held if h.verdict == name] for name in ("worse", "unsure")}
    gravest = by_verdict["worse"] or by_verdict["unsure"]
    number = units.plural(len(held), "series", "series")
    if not gravest:
        return f"PASS   {number} no worse than at their best"
    worst = max(gravest, key=lambda each: each.ratio or math.inf)
    subject, of = worst.series.subject, units.plural(len(held), "series", "series")
    why = worst.why if worst.verdict == "unsure" else f"{write_ratio(worst)} to its best"
    text = f"{WORDS[worst.verdict]:<6} {len(gravest)} of {of}: {subject} {worst.series.name}: {why}"
    return units.printable(text)


def write_ratio(held: Standing) -> str:
    """Return how the end stands to the best, as a change."""
    if held.ratio is None:
        write = units.writer(held.series.metric)
        return f"{write(held.best)} → {write(held.last)}"
    if held.series.is_exact:
        return units.relative(1.0, held.ratio) or "0 %"
    return units.interval(held.ratio, held.low, held.high)


def title_subject(subject: Subject, entries: Sequence[Stored]) -> str:
    days = sorted(each.when[:10] for each in entries)
    since = f"{days[0]} to {days[-1]}"
    count = units.plural(len(entries), "entry", "entries")
    return units.printable(f"{subject} ({count}, {since})")


# --- frames ---------------------------------------------------------------------------------------

Row = tuple[Series, int, Sample, frozenset[int]]
"""A series, the number of one of its points, the point, and the numbers of those that begin a new
level."""


def list_rows(series: Sequence[tuple[Series, Sequence[Turning]]]) -> list[Row]:
    return [
        (each, number, sample, frozenset(change.index for change in changes))
        for each, changes in series
        for number, sample in enumerate(each.samples)
    ]


POINTS: Table[Row] = Table(
    "history",
    "a point of a series, in the order of commits",
    "`history show`, `history plot` and `history check`",
    (
        Column("subject", "text", "what was compiled, in one line", lambda r: str(r[0].subject)),
        Column("scenario", "text", "the scenario", lambda r: r[0].subject.scenario),
        Column("where", "text", "the target, or the device", lambda r: r[0].subject.where),
        Column("label", "text", "what keeps series apart", lambda r: r[0].subject.label),
        Column("kind", "text", "static, estimated or measured", lambda r: r[0].kind),
        Column("kernel", "text", "the kernel group; empty for a step", lambda r: r[0].kernel),
        Column("metric", "text", "what the value is of", lambda r: r[0].metric),
        Column("basis", "text", "the control, the constants, or the graphs", lambda r: r[0].basis),
        Column("point", "count", "its number in the series, from 0", lambda r: r[1]),
        Column("value", "number", "seconds, bytes, a count or a ratio", lambda r: r[2].value),
        Column("low", "number", "the lower end of its interval", lambda r: r[2].point.low),
        Column("high", "number", "the upper end of its interval", lambda r: r[2].point.high),
        Column("change", "flag", "whether a new level begins here", lambda r: r[1] in r[3]),
        Column("commit", "text", "the commit", lambda r: r[2].stored.entry.commit.id or None),
        Column("title", "text", "its subject line", lambda r: r[2].stored.entry.commit.title),
        Column("branch", "text", "its branch", lambda r: r[2].stored.entry.commit.branch),
        Column("created", "time", "when it was compiled or measured", lambda r: r[2].stored.when),
        Column("run", "text", "SHA-256 of its run's file", lambda r: r[2].stored.entry.run),
    ),
)
