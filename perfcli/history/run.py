"""``perfcli history``: the actions, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from perfcli import units
from perfcli.console import table
from perfcli.console.notes import Notes
from perfcli.errors import PerfcliError
from perfcli.history.history import History, find_subjects
from perfcli.history.opening import open_home
from perfcli.history.series import find_clocks_going_back, make_series


@dataclass(frozen=True, slots=True)
class Asked:
    """Holds what was typed."""

    what: tuple[str, ...] = ()
    place: str | None = None
    commit: str = ""
    label: str = ""
    json: Path | None = None
    quiet: bool = False


def run(action: str, asked: Asked) -> int:
    """Do what was asked for and return the exit code. Raises PerfcliError."""
    if action not in _ACTIONS:
        raise PerfcliError(f"history {action}: {', '.join(_ACTIONS)} is expected")
    return _ACTIONS[action](asked, Notes(asked.quiet))


def _open(asked: Asked, notes: Notes, *, must_exist: bool = True) -> History:
    found = History(open_home(asked.place), notes.warn)
    if must_exist and not found.exists:
        raise PerfcliError(
            f"there is no history in {found.home.where}: perfcli history add RUN begins one"
        )
    return found


def _add(asked: Asked, notes: Notes) -> int:
    from perfcli.history.collecting import collect

    if not asked.what:
        raise PerfcliError("history add: name stored runs, or JSON of compare or gate")
    collected = [each for what in asked.what for each in collect(what, asked.commit, asked.label)]
    kept = _open(asked, notes, must_exist=False)
    for each in collected:
        new = kept.add(each.entry, each.files)
        commit = each.entry.commit
        at = f" at {commit.id[:12]}" if commit.id else ""
        notes.say(f"{'added' if new else 'known already'}: {each.entry.subject}{at}")
        if commit.edited:
            notes.warn(f"what was compiled is not what is committed{at}")
    return 0


def _show(asked: Asked, notes: Notes) -> int:
    kept = _open(asked, notes)
    for line in find_clocks_going_back(kept.entries()):
        notes.warn(line)
    rows = []
    for subject, entries in find_subjects(kept.entries()).values():
        for series in make_series(entries):
            if not series.kernel:
                value = series.write(series.values[-1])
                rows.append([str(subject), series.name, series.kind, str(len(entries)), value])
    table.show(["subject", "series", "kind", "points", "last"], rows)
    return 0


def _merge(asked: Asked, notes: Notes) -> int:
    if len(asked.what) != 1:
        raise PerfcliError("history merge: name one history to take over")
    other = _open(Asked(place=asked.what[0]), notes)
    new = _open(asked, notes, must_exist=False).merge(other)
    notes.say(f"took over {units.plural(new, 'entry', 'entries')} of {other.home.where}")
    return 0


_ACTIONS: Mapping[str, Callable[[Asked, Notes], int]] = {
    "add": _add,
    "show": _show,
    "merge": _merge,
}
