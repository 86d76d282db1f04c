"""``perfcli history`` keeps what runs and comparisons said, and finds when it got worse."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from perfcli.commands import _arguments as args
from perfcli.console import documents


def history(
    action: Annotated[
        str, typer.Argument(metavar="add|show|plot|check|site|merge", help="What to do.")
    ],
    what: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RUN|FILE|SCENARIO|DIR",
            help="add: runs, JSON of compare or gate; site: a folder; merge: a history.",
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
        typer.Option(
            metavar="REV", help="add: the revision that was compiled. [default: by its files]"
        ),
    ] = None,
    label: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Keep series of one commit apart: nightly, fast, …"),
    ] = None,
    target: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only for this target, or cpu or cuda.")
    ] = None,
    branch: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only what was added on this branch.")
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="These metrics instead of those that judge a step."),
    ] = None,
    kernel: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Kernel groups with this in their names.")
    ] = None,
    since: Annotated[
        str | None, typer.Option(metavar="REV", help="Only from this commit, branch or tag on.")
    ] = None,
    last: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Only the last N points. [default: check: 60]"),
    ] = None,
    limit: Annotated[
        float,
        typer.Option(
            metavar="PERCENT", min=0, help="check: how much worse than its best a step may be."
        ),
    ] = 2.0,
    html: Annotated[
        Path | None,
        typer.Option("--html", metavar="FILE", help="plot: also write a page that works offline."),
    ] = None,
    json: args.Json = None,
    csv: documents.Csv = None,
    parquet: documents.Parquet = None,
    quiet: args.Quiet = False,
) -> int:
    """Keep results over months, and find when it got worse.

    add takes stored runs, and JSON of compare or gate. show lists series and where they changed,
    and with a scenario also why; plot draws them. check says whether a step is worse than at its
    best, even if by many small changes. site writes pages about everything; merge adds the entries
    of another history.

    Exit code of check: 0 no worse, 1 worse, 3 not enough is known.
    """
    from perfcli.history import run
    from perfcli.history.choosing import HistoryFilter

    choice = HistoryFilter(
        target=target or "",
        label=label,
        branch=branch or "",
        metrics=tuple(metric or ()),
        kernel=kernel or "",
        since=since or "",
        last=last,
    )
    asked = run.Asked(
        what=tuple(what or ()),
        place=home,
        commit=commit or "",
        choice=choice,
        limit=limit,
        wanted=documents.Wanted(html=html, json=json, csv=csv, parquet=parquet),
        quiet=quiet,
    )
    return run.run(action, asked)
