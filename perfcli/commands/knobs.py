"""``perfcli knobs``: search the options of torch, what changed between two releases, and which are
worth trying."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from perfcli.commands import _output, _performance_knobs, _table
from perfcli.commands._arguments import Json
from perfcli.errors import PerfcliError

if TYPE_CHECKING:
    from perfcli.catalogue import Entry


def knobs(
    pattern: Annotated[
        str,
        typer.Argument(
            help="Part of a name, a variable or (where none has it) of the documentation; "
            "* and ? are wildcards."
        ),
    ] = "",
    python: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="The interpreter whose torch is asked. [default: this]"),
    ] = None,
    diff: Annotated[
        tuple[str, str] | None,
        typer.Option(metavar="FROM TO", help="What changed between two torch releases."),
    ] = None,
    performance: Annotated[
        bool,
        typer.Option(
            "--performance", help="The options worth trying for speed and memory, with values."
        ),
    ] = False,
    json: Json = None,
) -> int:
    """Search torch's options, or compare two releases.

    Type, default, environment variable, and since which release. These are the options that -a,
    -b and --toggle take. dynamo. and functorch. lead to those of torch._dynamo and
    torch._functorch; all others are torch._inductor's.
    """
    if performance and diff is not None:
        raise PerfcliError("--performance lists options, --diff compares releases: give one")
    if performance:
        _performance_knobs.show(pattern, *_options(python), json)
    elif diff is None:
        _search(pattern, python, json)
    else:
        _diff(pattern, *diff, json)
    return 0


def _options(python: str | None) -> tuple[str, list[Entry]]:
    """The torch that is asked, and its options; without torch those of the newest known release."""
    from perfcli import knob_listing

    try:
        return knob_listing.installed(python)
    except PerfcliError:
        if python is not None:
            raise
        torch, entries = knob_listing.newest()
        sys.stderr.write(f"no torch here: these are Inductor's options in torch {torch}\n")
        return torch, entries


def _search(pattern: str, python: str | None, json: Json) -> None:
    from perfcli import knob_listing

    torch, entries = _options(python)
    found = knob_listing.search(entries, pattern)
    rows = [knob_listing.document(entry) for entry in found]
    _output.write_document("knobs", {"torch": torch, "options": rows}, json)
    if str(json) == "-":
        return
    if len(found) == 1:
        sys.stdout.write(knob_listing.details(torch, found[0]))
        return
    headers = ("option", "type", "default", "since", "variable")
    _table.show(headers, knob_listing.option_rows(found), stack_last=True)
    sys.stderr.write(knob_listing.notes(found))


def _diff(pattern: str, before: str, after: str, json: Json) -> None:
    from perfcli import knob_listing
    from perfcli.knobs import known_release

    before, after = known_release(before), known_release(after)
    found = knob_listing.changes(before, after, pattern)
    fields = {"from": before, "to": after, "changes": found}
    _output.write_document("knob-changes", fields, json)
    if str(json) == "-":
        return
    if not found:
        sys.stdout.write(f"torch {before} and {after}: no difference in the options asked for\n")
        return
    headers = ("option", "change", f"torch {before}", f"torch {after}")
    _table.show(headers, knob_listing.change_rows(found))
