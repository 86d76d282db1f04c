"""``perfcli import`` makes a run of what other programs wrote."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from perfcli.commands import _arguments as args
from perfcli.console import documents
from perfcli.errors import PerfcliError


def import_(
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="PATH", help="A trace, a folder of traces, torch's own folders."),
    ],
    target: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The GPU that they are from. [default: as they say]"),
    ] = None,
    rank: Annotated[
        int | None,
        typer.Option(metavar="N", min=0, help="Of several processes, this one. [default: first]"),
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Import again, even if a stored run is up to date.")
    ] = False,
    python: args.Python = None,
    jobs: args.Jobs = None,
    timeout: args.Timeout = None,
    top: Annotated[int, typer.Option(metavar="N", min=0, help="Kernels to list; 0: all.")] = 10,
    json: args.Json = None,
    csv: documents.Csv = None,
    parquet: documents.Parquet = None,
    quiet: args.Quiet = False,
) -> int:
    """Make a run of a profiler's trace or of torch's own files.

    Reads traces of torch.profiler (.json, .json.gz) and of Nsight Systems (exported to SQLite),
    and stores a run that compare, explain, inspect-kernel and report take. With --quiet, prints
    only the run's id. What a file is, it is told by its content; no pickle is ever loaded.
    """
    from perfcli.console import output
    from perfcli.console.notes import Notes
    from perfcli.frames.kernels import KERNELS, list_kernels
    from perfcli.importing.bringing import ImportOptions
    from perfcli.machine import targets
    from perfcli.predict.step import estimate_run
    from perfcli.workflow.context import Context
    from perfcli.workflow.obtain import import_paths

    wanted = documents.check(documents.Wanted(json=json, csv=csv, parquet=parquet))
    context = Context(Notes(quiet), fresh, written=wanted.places)
    options = ImportOptions(
        targets.get(target) if target else None, rank, python, jobs or os.cpu_count() or 1, timeout
    )
    (found,) = import_paths([paths], options, context)
    shown = estimate_run(found.run)
    try:
        output.write_document("run", {"run": shown}, json)
        documents.write_table(KERNELS, list_kernels(shown), wanted)
    finally:
        view = output.screen().run(
            shown, found.shown_path, found.reference, quiet, top, sortable=False
        )
        output.show(view, wanted.stdout)
    return 0 if found.path else PerfcliError.exit_code
