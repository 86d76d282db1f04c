"""Finds the measurement of two runs that the folder holds by header lines, and reads it.

One that ran to its end is preferred to one that was interrupted or failed, then the newest counts.
What can't be read is passed over, and told.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

from perfcli.errors import PerfcliError
from perfcli.interleave import record
from perfcli.interleave.pair import BUDGET_SPENT
from perfcli.model import Measurement, Round, SideName
from perfcli.stats.stopping import PRECISE

WHOLE = (PRECISE, BUDGET_SPENT)
"""Why a measurement ended that nothing cut short."""
EXCHANGED = "measured with base and head exchanged"

_OTHER: dict[str, SideName] = {"base": "head", "head": "base"}


@dataclass(frozen=True, slots=True)
class Found:
    """Holds what was found. ``left_out``: files of this pair that would have been taken, and why
    they were not. ``unreadable``: names of files that may be of any pair."""

    measurement: Measurement | None = None
    left_out: tuple[str, ...] = ()
    unreadable: tuple[str, ...] = ()


def find(base: str, head: str, folder: Path = record.FOLDER) -> Found:
    """Return the measurement to show of two runs, by their ids; one of (head, base) with its sides
    exchanged. Of other pairs only header lines are read."""
    openings, unreadable = _openings(folder)
    ours = [o for o in openings if (o.base, o.head) in ((base, head), (head, base))]
    found: Measurement | None = None
    left_out = []
    for opening in sorted(ours, key=lambda o: (o.created, o.id), reverse=True):
        try:
            read = record.read(opening.path)
        except PerfcliError as error:
            left_out.append(str(error))
            continue
        if not read.rounds:
            left_out.append(f"{opening.path} has no round")
        elif read.stopped in WHOLE:
            found = read
            break
        else:
            found = found or read
    if found and (found.base, found.head) != (base, head):
        found = _exchange(found)
        found = replace(found, notes=(*found.notes, EXCHANGED))
    return Found(found, tuple(left_out), unreadable)


def _openings(folder: Path) -> tuple[list[record.Opening], tuple[str, ...]]:
    """Return the openings of all files, and the names of those that don't say which pair they are
    of."""
    openings, unreadable = [], []
    for path in sorted(folder.glob("[!.]*.jsonl")):
        opening = record.read_opening(path)
        if opening is None:
            unreadable.append(path.name)
        else:
            openings.append(opening)
    return openings, tuple(unreadable)


# --- the other way round ---------------------------------------------------------------------


def _exchange(measurement: Measurement) -> Measurement:
    """Return the same with head as base and base as head: what was twice as fast takes half as
    long."""
    return replace(
        measurement,
        base=measurement.head,
        head=measurement.base,
        prepared=tuple(replace(p, side=_OTHER[p.side]) for p in measurement.prepared),
        rounds=tuple(map(_exchange_round, measurement.rounds)),
        stopped=_exchange_words(measurement.stopped),
        notes=tuple(map(_exchange_words, measurement.notes)),
    )


def _exchange_round(measured: Round) -> Round:
    first = _OTHER[measured.first]
    return replace(measured, first=first, base=measured.head, head=measured.base)


def _exchange_words(text: str) -> str:
    """Exchange the sides in ``the head's worker was killed`` and ``580.82 in the base, 570.10 in
    the head``."""
    return re.sub(r"\bthe (base|head)\b", lambda found: f"the {_OTHER[found[1]]}", text)
