"""``perfcli reproduce`` carries out the published claims that perfcli was built for."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from perfcli.commands import _arguments as args
from perfcli.console import documents
from perfcli.errors import PerfcliError


def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME", help="Claims, or beginnings of their names. [default: all]"),
    ] = None,
    listed: Annotated[
        bool, typer.Option("--list", help="List the claims; compile nothing.")
    ] = False,
    target: args.Target = None,
    device: args.Device = None,
    python: args.Python = None,
    smoke: Annotated[
        bool, typer.Option("--smoke", help="Take small sizes, and judge by code alone.")
    ] = False,
    budget: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS", min=0.1, help="Measure each pair for at most this long. [default: 5]"
        ),
    ] = None,
    no_time: Annotated[
        bool, typer.Option("--no-time", help="Compile only; measure nothing.")
    ] = False,
    no_search: Annotated[
        bool,
        typer.Option(
            "--no-search", help="Neither search for the option to blame nor try more cures."
        ),
    ] = False,
    jobs: args.Jobs = None,
    calibration: args.Calibration = None,
    timeout: args.Timeout = None,
    executor: args.Executor = "local",
    address: args.Address = None,
    memory: args.Memory = None,
    fresh: args.Fresh = False,
    json: args.Json = None,
    csv: documents.Csv = None,
    parquet: documents.Parquet = None,
    markdown: Annotated[
        Path | None,
        typer.Option(
            "--markdown", "-o", metavar="FILE", help="Also write a table in Markdown; - is stdout."
        ),
    ] = None,
    quiet: args.Quiet = False,
    fake: args.Fake = False,
) -> int:
    """Check published claims about Inductor's kernels.

    Each claim is compiled in two ways, and measured where there is a GPU. A verdict says whether
    its author's numbers are seen here: in the code, by estimate, or measured. What is stored is
    used again, so that a command that was interrupted goes on where it stopped.

    Exit code: 0 every claim has a verdict, 2 error, 3 some need a GPU.
    """
    from perfcli.console.notes import Notes
    from perfcli.reproduce.experiment import Conditions
    from perfcli.reproduce.run import reproduce as carry_out
    from perfcli.reproduce.run import show_claims
    from perfcli.workflow.context import Context

    wanted = documents.Wanted(markdown=markdown, json=json, csv=csv, parquet=parquet)
    if listed:
        return show_claims(tuple(names or ()), wanted)
    if device not in (None, "cuda"):
        raise PerfcliError(
            f"--device {device}: the claims are about a GPU's kernels; give --device cuda, or "
            "--target to compile for a GPU that is not here"
        )
    args.use_calibration(calibration)
    how = Conditions(target, device, python, smoke, budget, not no_search, not no_time)
    context = Context(
        *(Notes(quiet), fresh, timeout, fake, jobs),
        cluster=args.choose_cluster(executor, address),
        needs=args.read_needs(memory or ()),
    )
    return carry_out(tuple(names or ()), how, context, wanted, quiet)
