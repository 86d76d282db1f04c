"""``perfcli knobs`` searches the options of torch, compares releases, and lists what to try."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from perfcli import units
from perfcli.commands._arguments import Json
from perfcli.console import documents, output, table
from perfcli.errors import PerfcliError

if TYPE_CHECKING:
    from perfcli.options.catalogue import InductorOption
    from perfcli.options.performance import InstalledKnob, PerformanceKnob

HEADERS = ("option", "default", "try", "changes", "on", "since", "what it does")
DEVICES = {"gpu": "GPU", "cpu": "CPU", "both": "both"}


def _show(
    pattern: str, torch: str, entries: Iterable[InductorOption], wanted: documents.Wanted
) -> None:
    """Print the options worth trying in this torch, or the details of the only one that matches.
    Raises PerfcliError where no option of the list matches."""
    from perfcli.options import performance

    known = {entry.name: entry for entry in entries}
    found = search(performance.for_torch(known), pattern)
    lacking = performance.list_missing(known)
    fields = {
        "torch": torch,
        "options": [_document(choice) for choice in found],
        "not_in_this_torch": [knob.name for knob in lacking],
    }
    output.write_document("performance-knobs", fields, wanted.json)
    documents.write_table(performance.TABLE, found, wanted)
    if wanted.stdout:
        return
    if len(found) == 1:
        sys.stdout.write(_details(torch, found[0]))
        return
    table.show(HEADERS, _rows(found), stack_last=True)
    sys.stderr.write(_footer(torch, found, lacking))


def search(choices: Iterable[InstalledKnob], pattern: str) -> list[InstalledKnob]:
    """Return the options whose name matches, or else those whose description does. Raises
    PerfcliError where nothing matches."""
    from perfcli.errors import PerfcliError
    from perfcli.options import listing

    choices = list(choices)
    if not pattern:
        return choices
    by_name = [c for c in choices if listing.matches(c.knob.name, pattern)]
    found = by_name or [c for c in choices if listing.matches(c.knob.does, pattern)]
    if not found:
        raise PerfcliError(
            f"none of the options worth trying matches {pattern!r}: without --performance all "
            "options are searched"
        )
    return found


def _rows(choices: Iterable[InstalledKnob]) -> list[tuple[str, ...]]:
    """Return a row per option, in the list's order; ``*`` marks what needs a device."""
    from perfcli.options.catalogue import default_text

    return [
        (
            choice.knob.name,
            default_text(choice.entry),
            _values(choice.values),
            choice.knob.acts + (" *" if choice.knob.needs_device else ""),
            DEVICES[choice.knob.devices],
            choice.knob.since,
            choice.knob.does,
        )
        for choice in choices
    ]


def _values(found: Iterable[Any]) -> str:
    """Return the values as they are typed after ``OPT=``."""
    return ", ".join(map(units.setting, found))


def _details(torch: str, choice: InstalledKnob) -> str:
    """Return everything there is to say about one option."""
    from perfcli.options.catalogue import default_text

    knob = choice.knob
    lines = {
        "type": choice.entry.type,
        "default": default_text(choice.entry),
        "try": _values(choice.values),
        "range": " to ".join(map(units.setting, knob.range or ())),
        "with": " ".join(units.settings(knob.only_with)),
        "changes": knob.acts,
        "alters": knob.alters,
        "on": DEVICES[knob.devices] + (", only with a device" if knob.needs_device else ""),
        "variable": ", ".join(choice.entry.env),
        "since": knob.since,
        "until": knob.until or "",
        "note": choice.entry.note,
        "sources": "\n           ".join(knob.sources),
    }
    text = f"{knob.name} (torch {torch})\n  {knob.does}\n"
    return text + "".join(f"  {name:9}{value}\n" for name, value in lines.items() if value)


def _document(choice: InstalledKnob) -> dict[str, Any]:
    """Return one option for JSON; ``values`` leaves out this torch's default."""
    from dataclasses import asdict

    from perfcli.options import listing

    entry = listing.document(choice.entry)
    known = {name: entry[name] for name in ("type", "default", "default_known", "variables")}
    return {**asdict(choice.knob), "values": choice.values, **known, "note": entry["note"]}


def _footer(torch: str, found: Sequence[InstalledKnob], lacking: Sequence[PerformanceKnob]) -> str:
    """Return the line below the table: how many options, and which this torch lacks."""
    text = f"{len(found)} options"
    if any(choice.knob.needs_device for choice in found):
        text += "; * only with a device"
    if lacking:
        text += f"; torch {torch} lacks {', '.join(knob.name for knob in lacking)}"
    return text + "\n"


def knobs(
    pattern: Annotated[
        str,
        typer.Argument(
            help="Part of a name, of a variable or, if neither has it, of the documentation; "
            "* and ? are wildcards."
        ),
    ] = "",
    python: Annotated[
        str | None,
        typer.Option(
            metavar="PATH", help="List the options of this interpreter's torch. [default: this one]"
        ),
    ] = None,
    diff: Annotated[
        tuple[str, str] | None,
        typer.Option(metavar="FROM TO", help="Show what changed between two torch releases."),
    ] = None,
    performance: Annotated[
        bool,
        typer.Option(
            "--performance", help="List the options worth trying for speed and memory, with values."
        ),
    ] = False,
    patches: Annotated[
        bool,
        typer.Option("--patches", help="List what perfcli can patch into torch, set like options."),
    ] = False,
    json: Json = None,
    csv: documents.Csv = None,
    parquet: documents.Parquet = None,
) -> int:
    """Search torch's options, or compare two releases.

    Shows type, default, environment variable, and the releases that have the option. -a, -b, -o
    and --toggle take these names. Options of torch._dynamo begin with dynamo., those of
    torch._functorch with functorch.; all others are torch._inductor's.
    """
    if performance and diff is not None:
        raise PerfcliError("--performance lists options, --diff compares releases: give one")
    if patches and (performance or diff is not None):
        raise PerfcliError("--patches lists what perfcli can patch: give it without the other two")
    wanted = documents.check(documents.Wanted(json=json, csv=csv, parquet=parquet))
    if performance:
        _show(pattern, *_options(python), wanted)
    elif patches:
        _show_patches(pattern, python, wanted)
    elif diff is None:
        _search(pattern, python, wanted)
    else:
        _diff(pattern, *diff, wanted)
    return 0


def _options(python: str | None) -> tuple[str, list[InductorOption]]:
    """Return torch's version and options; without torch, those of the newest known release."""
    from perfcli.options import listing

    try:
        return listing.load_installed(python)
    except PerfcliError:
        if python is not None:
            raise
        torch, entries = listing.load_newest()
        sys.stderr.write(f"no torch here: these are Inductor's options in torch {torch}\n")
        return torch, entries


def _search(pattern: str, python: str | None, wanted: documents.Wanted) -> None:
    from perfcli.options import listing

    torch, entries = _options(python)
    found = listing.search(entries, pattern)
    rows = [listing.document(entry) for entry in found]
    output.write_document("knobs", {"torch": torch, "options": rows}, wanted.json)
    documents.write_table(listing.KNOBS, found, wanted)
    if wanted.stdout:
        return
    if len(found) == 1:
        sys.stdout.write(listing.details(torch, found[0]))
        return
    headers = ("option", "type", "default", "since", "variable")
    table.show(headers, listing.option_rows(found), stack_last=True)
    sys.stderr.write(listing.notes(found))


def _show_patches(pattern: str, python: str | None, wanted: documents.Wanted) -> None:
    from perfcli.options import listing

    torch, entries = _options(python)
    names = {entry.name for entry in entries}
    found = listing.find_patches(pattern)
    rows = [listing.describe_patch(patch, torch, names) for patch in found]
    output.write_document("patches", {"torch": torch, "patches": rows}, wanted.json)
    documents.write_table(listing.PATCH_TABLE, rows, wanted)
    if wanted.stdout:
        return
    if len(found) == 1:
        sys.stdout.write(listing.patch_details(found[0], torch, names))
        return
    headers = ("patch", "type", "fits torch", f"torch {torch}", "what it does")
    table.show(headers, listing.patch_rows(found, torch, names), stack_last=True)


def _diff(pattern: str, before: str, after: str, wanted: documents.Wanted) -> None:
    from perfcli.options import listing
    from perfcli.options.releases import known_release

    before, after = known_release(before), known_release(after)
    found = listing.changes(before, after, pattern)
    fields = {"from": before, "to": after, "changes": found}
    output.write_document("knob-changes", fields, wanted.json)
    documents.write_table(listing.KNOB_CHANGES, found, wanted)
    if wanted.stdout:
        return
    if not found:
        sys.stdout.write(f"torch {before} and {after}: no difference in the options asked for\n")
        return
    headers = ("option", "change", f"torch {before}", f"torch {after}")
    table.show(headers, listing.change_rows(found))
