"""``perfcli knobs --performance``: the options worth trying, as this torch has them."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfcli import units
from perfcli.commands import _output, _table

if TYPE_CHECKING:
    from perfcli.catalogue import Entry
    from perfcli.performance_knobs import Choice, PerformanceKnob

HEADERS = ("option", "default", "try", "changes", "on", "since", "what it does")
DEVICES = {"gpu": "GPU", "cpu": "CPU", "both": "both"}


def show(pattern: str, torch: str, entries: Iterable[Entry], json: Path | None) -> None:
    """Print the list, or all about one option, and what of the list a torch lacks whose version
    and options are given.

    Raises:
        PerfcliError: no option of the list matches.
    """
    from perfcli import performance_knobs

    known = {entry.name: entry for entry in entries}
    found = search(performance_knobs.for_torch(known), pattern)
    lacking = performance_knobs.missing(known)
    fields = {
        "torch": torch,
        "options": [document(choice) for choice in found],
        "not_in_this_torch": [knob.name for knob in lacking],
    }
    _output.write_document("performance-knobs", fields, json)
    if json == _output.STDOUT:
        return
    if len(found) == 1:
        sys.stdout.write(details(torch, found[0]))
        return
    _table.show(HEADERS, rows(found), stack_last=True)
    sys.stderr.write(footer(torch, found, lacking))


def search(choices: Iterable[Choice], pattern: str) -> list[Choice]:
    """Those whose name matches, else those whose sentence does.

    Raises:
        PerfcliError: none does.
    """
    from perfcli import knob_listing
    from perfcli.errors import PerfcliError

    choices = list(choices)
    if not pattern:
        return choices
    by_name = [c for c in choices if knob_listing.matches(c.knob.name, pattern)]
    found = by_name or [c for c in choices if knob_listing.matches(c.knob.does, pattern)]
    if not found:
        raise PerfcliError(
            f"none of the options worth trying matches {pattern!r}: without --performance all "
            "options are searched"
        )
    return found


def rows(choices: Iterable[Choice]) -> list[tuple[str, ...]]:
    """One line per option, in the list's order; ``*``: only with a device."""
    from perfcli.catalogue import default_text

    return [
        (
            choice.knob.name,
            default_text(choice.entry),
            values(choice.values),
            choice.knob.acts + (" *" if choice.knob.needs_device else ""),
            DEVICES[choice.knob.devices],
            choice.knob.since,
            choice.knob.does,
        )
        for choice in choices
    ]


def values(found: Iterable[Any]) -> str:
    """As they are typed behind ``OPT=``."""
    return ", ".join(map(units.setting, found))


def details(torch: str, choice: Choice) -> str:
    """Everything about one option."""
    from perfcli.catalogue import default_text

    knob = choice.knob
    lines = {
        "type": choice.entry.type,
        "default": default_text(choice.entry),
        "try": values(choice.values),
        "range": " to ".join(map(units.setting, knob.range or ())),
        "with": " ".join(f"{n}={units.setting(v)}" for n, v in knob.only_with.items()),
        "changes": knob.acts,
        "on": DEVICES[knob.devices] + (", only with a device" if knob.needs_device else ""),
        "variable": ", ".join(choice.entry.env),
        "since": knob.since,
        "until": knob.until or "",
        "note": choice.entry.note,
        "sources": "\n           ".join(knob.sources),
    }
    text = f"{knob.name} (torch {torch})\n  {knob.does}\n"
    return text + "".join(f"  {name:9}{value}\n" for name, value in lines.items() if value)


def document(choice: Choice) -> dict[str, Any]:
    """One option for a JSON file; values of this torch's default are left out of ``values``."""
    from dataclasses import asdict

    from perfcli import knob_listing

    entry = knob_listing.document(choice.entry)
    known = {name: entry[name] for name in ("type", "default", "default_known", "variables")}
    return {**asdict(choice.knob), "values": choice.values, **known, "note": entry["note"]}


def footer(torch: str, found: Sequence[Choice], lacking: Sequence[PerformanceKnob]) -> str:
    """What the table does not say."""
    text = f"{len(found)} options"
    if any(choice.knob.needs_device for choice in found):
        text += "; * only with a device"
    if lacking:
        text += f"; torch {torch} lacks {', '.join(knob.name for knob in lacking)}"
    return text + "\n"
