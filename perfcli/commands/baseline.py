"""``perfcli baseline`` records or shows the baseline that the gate compares with."""

from __future__ import annotations

from typing import Annotated

import typer

from perfcli.commands import _arguments as args
from perfcli.console import documents
from perfcli.errors import PerfcliError
from perfcli.names import suggestion

ACTIONS = ("update", "show")


def baseline(
    action: Annotated[str, typer.Argument(metavar="update|show", help="What to do.")],
    checks: Annotated[
        list[str] | None,
        typer.Argument(metavar="CHECK", help="Only these checks, with or without @TARGET."),
    ] = None,
    reason: Annotated[
        str, typer.Option(metavar="TEXT", help="Why it changes; the file keeps it for reviewers.")
    ] = "",
    config: args.Config = None,
    file: args.Baseline = None,
    jobs: args.Jobs = None,
    timeout: args.Timeout = None,
    fresh: args.Fresh = False,
    csv: documents.Csv = None,
    parquet: documents.Parquet = None,
    quiet: args.Quiet = False,
    fake: args.Fake = False,
) -> int:
    """Record or show the gate's baseline.

    update compiles the checks and writes the file; show says where its numbers come from. A check
    whose facts are unchanged keeps its lines, its date and its reason.
    """
    from perfcli.console.notes import Notes
    from perfcli.gate import compiled
    from perfcli.gate.baseline import update
    from perfcli.workflow.context import Context

    if action not in ACTIONS:
        raise PerfcliError(f"perfcli baseline {action}: {suggestion(action, ACTIONS)}")
    wanted = documents.check(documents.Wanted(csv=csv, parquet=parquet))
    if wanted.named and action != "show":
        raise PerfcliError(f"baseline {action} prints no table: leave out --csv and --parquet")
    found = compiled.configured(config, file)
    if action == "show":
        update.show(found, compiled.chosen(found, checks or ()), wanted)
        return 0
    if not reason.strip():
        raise PerfcliError(
            'a baseline is renewed for a reason: give it with --reason "…", it is kept in the file'
        )
    meant = compiled.chosen(found, checks or ())
    context = Context(Notes(quiet), fresh, timeout, fake, jobs)
    return update.run(update.Update(found, reason.strip(), context), meant, bool(checks))
