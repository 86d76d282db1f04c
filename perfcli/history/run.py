"""``perfcli history``: the actions, one after the other."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfcli import units
from perfcli.console import documents, output, table
from perfcli.console.notes import Notes
from perfcli.errors import PerfcliError
from perfcli.history import view
from perfcli.history.changes import Standing, Turning, find_changes, hold
from perfcli.history.choosing import HistoryFilter, choose_series, choose_subjects
from perfcli.history.entry import Stored, Subject
from perfcli.history.history import History, read_clock
from perfcli.history.homes import open_home
from perfcli.history.series import Series, find_clocks_going_back

if TYPE_CHECKING:
    from perfcli.history.behind import Behind

LIMIT_PERCENT = 2.0
"""How much worse than its best a step may be before check fails."""
RECENT = 60
"""Points that check looks at."""


@dataclass(frozen=True, slots=True)
class Asked:
    """Holds what was typed."""

    what: tuple[str, ...] = ()
    place: str | None = None
    commit: str = ""
    choice: HistoryFilter = field(default_factory=HistoryFilter)
    limit: float = LIMIT_PERCENT
    wanted: documents.Wanted = field(default_factory=documents.Wanted)
    quiet: bool = False


@dataclass(frozen=True, slots=True)
class Found:
    """Holds a subject with its entries, and its series with their changes."""

    subject: Subject
    entries: Sequence[Stored]
    series: Sequence[tuple[Series, Sequence[Turning]]]


def run(action: str, asked: Asked) -> int:
    """Do what was asked for and return the exit code. Raises PerfcliError."""
    if action not in _ACTIONS:
        raise PerfcliError(f"history {action}: one of {', '.join(_ACTIONS)} is expected")
    documents.check(asked.wanted)
    if asked.wanted.html is not None and action != "plot":
        raise PerfcliError(f"--html is for history plot: leave it out of history {action}")
    if asked.commit and action != "add":
        raise PerfcliError(f"--commit is for history add: leave it out of history {action}")
    return _ACTIONS[action](asked, Notes(asked.quiet))


def _open(asked: Asked, notes: Notes) -> History:
    """Return the history that is there."""
    found = History(open_home(asked.place), notes.warn)
    if not found.exists:
        raise PerfcliError(
            f"there is no history in {found.home.where}: perfcli history add RUN begins one"
        )
    _warn_of_clocks(found, notes)
    return found


def _warn_of_clocks(history: History, notes: Notes) -> None:
    for line in find_clocks_going_back(history.entries(), read_clock()):
        notes.warn(line)


# --- add, merge -----------------------------------------------------------------------------------


def _add(asked: Asked, notes: Notes) -> int:
    from perfcli.history.collecting import collect

    if not asked.what:
        raise PerfcliError("history add: name stored runs, or JSON of compare or gate")
    label = asked.choice.label or ""
    collected = [each for what in asked.what for each in collect(what, asked.commit, label)]
    if not collected:
        raise PerfcliError("there is nothing to add: no check of the gate was compared")
    history = History(open_home(asked.place), notes.warn)
    _warn_of_clocks(history, notes)
    for each in collected:
        history.check_variant(each.entry)
    for each in collected:
        new = history.add(each.entry, each.files)
        commit = each.entry.commit
        at = f" at {commit.id[:12]}" if commit.id else ""
        notes.say(f"{'added' if new else 'known already'}: {each.entry.subject}{at}")
        if commit.edited:
            notes.warn(f"files were edited: what was compiled is not what is committed{at}")
        if commit.id and commit.depth is None:
            notes.warn("a shallow clone does not tell the order of commits: git fetch --unshallow")
    return 0


def _merge(asked: Asked, notes: Notes) -> int:
    if len(asked.what) != 1:
        raise PerfcliError("history merge: name one history to take over")
    other = _open(Asked(place=asked.what[0]), notes)
    new = History(open_home(asked.place), notes.warn).merge(other)
    notes.say(f"took over {units.plural(new, 'entry', 'entries')} of {other.home.where}")
    return 0


# --- show, plot, check ----------------------------------------------------------------------------


def _find(history: History, choice: HistoryFilter) -> Iterator[Found]:
    for subject, entries, chosen in choose_series(choose_subjects(history, choice), choice):
        yield Found(subject, entries, [(each, find_changes(each)) for each in chosen])


def _show(asked: Asked, notes: Notes) -> int:
    history = _open(asked, notes)
    detailed = bool(asked.what or asked.choice.metrics or asked.choice.kernel)
    choice = _choose(asked, None if detailed else RECENT)
    found = list(_find(history, choice))
    details = list(_look_behind_all(history, found)) if detailed else []
    _write(asked, found, {"changes": [_plain_change(*each) for each in details]})
    if asked.quiet:
        _print(asked, view.sum_up([one for each in found for one in each.series]))
        return 0
    for number, each in enumerate(found):
        _print(asked, "" if number else None, view.title_subject(each.subject, each.entries))
        rows = [view.describe_row(series, changes) for series, changes in each.series]
        _table(asked, view.OVERVIEW, rows)
        mine = [(c, b) for c, b in details if c.series.subject == each.subject]
        for together, behind in _group_by_place(mine):
            _print(asked, "", *view.describe_behind(together, behind))
    if not detailed and not asked.choice.last:
        notes.say(
            f"of each, the last {RECENT} points; perfcli history show SCENARIO: all of them, and "
            "what lies behind each change"
        )
    return 0


def _look_behind_all(history: History, found: Sequence[Found]) -> Iterator[tuple[Turning, Behind]]:
    """Yield the changes of all series, each with what lies behind it."""
    from perfcli.history.behind import look_behind  # a listing does without it, and is faster

    known: dict[tuple[str, str], Behind] = {}
    for each in found:
        for _, changes in each.series:
            for change in changes:
                if change.place not in known:
                    ends = change.last.stored, change.first.stored
                    known[change.place] = look_behind(history, *ends, Path.cwd())
                yield change, known[change.place]


def _group_by_place(
    changes: Sequence[tuple[Turning, Behind]],
) -> Iterator[tuple[list[Turning], Behind]]:
    """Yield the changes of several series from one entry to the next together, with what lies
    behind them. The same may lie behind changes at two places."""
    places: dict[tuple[str, str], tuple[list[Turning], Behind]] = {}
    for change, behind in changes:
        places.setdefault(change.place, ([], behind))[0].append(change)
    yield from places.values()


def _plot(asked: Asked, notes: Notes) -> int:
    from perfcli.history.plot import draw

    history = _open(asked, notes)
    found = list(_find(history, _choose(asked)))
    _write(asked, found, {})
    if asked.wanted.html is not None:
        from perfcli.history.page import render_plots

        output.write_text(render_plots([each.series for each in found]), asked.wanted.html)
    if asked.quiet:
        _print(asked, view.sum_up([one for each in found for one in each.series]))
        return 0
    plain = not asked.wanted.stream.isatty()
    columns = _count_columns()
    for number, each in enumerate(found):
        _print(asked, "" if number else None, view.title_subject(each.subject, each.entries))
        for series, changes in each.series:
            _print(asked, "", series.name, *draw(series, changes, columns, plain=plain))
    return 0


def _check(asked: Asked, notes: Notes) -> int:
    history = _open(asked, notes)
    choice = _choose(asked, RECENT)
    found = list(_find(history, choice))
    held = {
        each.subject.key: [hold(series, asked.limit / 100) for series, _ in each.series]
        for each in found
    }
    every = [each for several in held.values() for each in several]
    code = _judge(every)
    _write(asked, found, {"exit_code": code, "held": [_plain_held(each) for each in every]})
    if asked.quiet:
        _print(asked, view.sum_up_held(every))
        return code
    for each in found:
        _print(asked, view.title_subject(each.subject, each.entries))
        for one in held[each.subject.key]:
            _print(asked, *view.describe_held(one, asked.limit))
    return code


def _judge(held: Sequence[Standing]) -> int:
    """Return 1 where anything is worse, 3 where anything is unsure, 0 where nothing is."""
    verdicts = {each.verdict for each in held}
    return 1 if "worse" in verdicts else 3 if "unsure" in verdicts else 0


# --- site -----------------------------------------------------------------------------------------


def _site(asked: Asked, notes: Notes) -> int:
    from perfcli.history.site import write_site

    if len(asked.what) != 1:
        raise PerfcliError("history site: name the folder to write the pages into")
    history = _open(asked, notes)
    written = write_site(history, asked.choice, Path(asked.what[0]), asked.limit / 100)
    notes.say(f"wrote {units.plural(written, 'page')}: {Path(asked.what[0]) / 'index.html'}")
    return 0


# --- output ---------------------------------------------------------------------------------------


def _choose(asked: Asked, last: int | None = None) -> HistoryFilter:
    return replace(asked.choice, scenarios=asked.what, last=asked.choice.last or last)


def _write(asked: Asked, found: Sequence[Found], more: Mapping[str, Any]) -> None:
    rows = view.list_rows([series for each in found for series in each.series])
    documents.write_table(view.POINTS, rows, asked.wanted)
    if asked.wanted.json is None:
        return
    series = [_plain_series(*one) for each in found for one in each.series]
    output.write_document("history", {"series": series, **more}, asked.wanted.json)


def _plain_series(series: Series, changes: Sequence[Turning]) -> dict[str, Any]:
    return {
        "subject": series.subject,
        "kind": series.kind,
        "kernel": series.kernel,
        "metric": series.metric,
        "basis": series.basis,
        "points": [
            {
                "commit": each.stored.entry.commit.id,
                "created": each.stored.when,
                "value": each.value,
                "low": each.point.low,
                "high": each.point.high,
            }
            for each in series.samples
        ],
        "changes": [
            {"index": c.index, "before": c.before, "after": c.after, "p": c.p} for c in changes
        ],
    }


def _plain_change(change: Turning, behind: Behind) -> dict[str, Any]:
    return {
        "metric": change.series.metric,
        "kernel": change.series.kernel,
        "index": change.index,
        "worse": change.is_worse,
        "before": change.before,
        "after": change.after,
        "p": change.p,
        "commits": behind.commits,
        "circumstances": behind.circumstances,
        "kernels": behind.kernels,
    }


def _plain_held(held: Standing) -> dict[str, Any]:
    return {
        "subject": held.series.subject,
        "kind": held.series.kind,
        "metric": held.series.metric,
        "verdict": held.verdict,
        "ratio": held.ratio,
        "low": held.low,
        "high": held.high,
        "drift": held.verdict == "worse" and held.is_drift,
        "why": held.why,
    }


def _table(asked: Asked, headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    if asked.wanted.stdout is None:
        table.show(headers, rows)
    else:
        asked.wanted.stream.write(table.plain(headers, rows))


def _print(asked: Asked, *lines: str | None) -> None:
    for line in lines:
        if line is not None:
            asked.wanted.stream.write(f"{line}\n")


def _count_columns() -> int:
    return min(shutil.get_terminal_size((output.PIPE_COLUMNS, 24)).columns, 120)


_ACTIONS: Mapping[str, Callable[[Asked, Notes], int]] = {
    "add": _add,
    "show": _show,
    "plot": _plot,
    "check": _check,
    "site": _site,
    "merge": _merge,
}
