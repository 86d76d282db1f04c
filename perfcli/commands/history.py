"""``perfcli history`` keeps what runs and comparisons said, and finds when it got worse."""

from __future__ import annotations

from typing import Annotated

import typer

from perfcli.commands import _arguments as args


def history(
    action: Annotated[
        str, typer.Argument(metavar="add|show|plot|check|site|merge", help="What to do.")
    ],
    what: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RUN|FILE|SCENARIO|DIR",
            help="add: runs, and JSON of compare or gate. merge: a history. site: a folder.",
        ),
    ] = None,
    home: Annotated[
        str | None,
        typer.Option(
            "--history",
            metavar="PLACE",
            help="A folder, an fsspec or SQL URL. [default: $PERFCLI_HISTORY or .perfcli/history]",
        ),
    ] = None,
    commit: Annotated[
        str | None,
        typer.Option(metavar="REV", help="add: the revision that was compiled. [default: HEAD]"),
    ] = None,
    label: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Keep series apart: nightly, max-autotune, …"),
    ] = None,
    json: args.Json = None,
    quiet: args.Quiet = False,
) -> int:
    """Keep results over months, and find when it got worse.

    add takes stored runs, and the JSON files of compare and gate. show lists series with their
    change points, or one in detail; plot draws it. check fails if a step got slower bit by bit.
    site writes pages about everything. merge takes over what another history has.
    """
    from perfcli.history import run

    asked = run.Asked(
        what=tuple(what or ()),
        place=home,
        commit=commit or "",
        label=label or "",
        json=json,
        quiet=quiet,
    )
    return run.run(action, asked)
