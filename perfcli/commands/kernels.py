"""``perfcli kernels`` lists, compiles, checks and times the hand-written kernels."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from perfcli.commands import _arguments as args
from perfcli.console import documents

Targets = Annotated[
    list[str] | None,
    typer.Option(
        "--target", metavar="NAME", help="Compile for this GPU; it need not be here. Repeatable."
    ),
]
Params = Annotated[
    list[str] | None,
    typer.Option(
        "-p", "--param", metavar="NAME=VALUE", help="Set rows, columns, dtype, operation, …"
    ),
]


def kernels(
    action: Annotated[
        str | None,
        typer.Argument(
            metavar="check|bench|probe", help="Check, time or sweep kernels; else show them."
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="A family, or a file that declares one.")
    ] = None,
    target: Targets = None,
    param: Params = None,
    variant: Annotated[
        str | None, typer.Option(metavar="NAME", help="Use this variant instead of the chosen one.")
    ] = None,
    all_variants: Annotated[
        bool, typer.Option("--all-variants", help="Show every variant, not only the chosen one.")
    ] = False,
    case: Annotated[
        list[str] | None,
        typer.Option(metavar="WORDS", help="check: run only cases with all of these words."),
    ] = None,
    every_case: Annotated[
        bool, typer.Option("--all", help="check: Run all cases, not a small set of each kind.")
    ] = False,
    against: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="bench: time eager, inductor, liger, …, or none. Repeatable."
        ),
    ] = None,
    rounds: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, help="Launch each kernel N times. [default: 40, probe: 10]"
        ),
    ] = None,
    budget: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            min=0.1,
            help="Time each problem for this long. [default: 10, probe: 0.5]",
        ),
    ] = None,
    svg: Annotated[
        Path | None, typer.Option("--svg", metavar="FILE", help="bench, probe: also draw a chart.")
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(metavar="N", min=0, help="Seed for inputs and the order of rounds."),
    ] = None,
    device: args.Device = None,
    python: args.Python = None,
    jobs: args.Jobs = None,
    timeout: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            min=1,
            help="Stop a worker that is silent for this long. [default: 600]",
        ),
    ] = None,
    json: args.Json = None,
    csv: documents.Csv = None,
    parquet: documents.Parquet = None,
    quiet: args.Quiet = False,
    fake: args.Fake = False,
) -> int:
    """Show, check or time the hand-written kernels.

    Without a name, lists all families; with one, shows what it computes, its variants, and what its
    launches compile to, without a GPU. check compares every case with a float64 reference, on the
    GPU or in Triton's interpreter. bench times a family against a copy, torch and others, on the
    GPU. probe compiles one kernel for many launch configurations, times them on a GPU, and says
    how many reads it takes until it spills.
    """
    from perfcli.workbench.request import KernelsOptions
    from perfcli.workbench.run import bench, check, show

    wanted = documents.check(documents.Wanted(json=json, csv=csv, parquet=parquet))
    asked = KernelsOptions(
        targets=tuple(target or ()),
        params=tuple(param or ()),
        variant=variant,
        all_variants=all_variants,
        cases=tuple(case or ()),
        every_case=every_case,
        against=tuple(against or ()),
        rounds=rounds,
        budget=budget,
        svg=svg,
        seed=seed,
        device=device,
        python=python,
        jobs=jobs,
        timeout=timeout,
        written=wanted,
        quiet=quiet,
        fake=fake,
    )
    if action == "check":
        return check(name, asked)
    if action == "bench":
        return bench(name, asked)
    if action == "probe":
        from perfcli.workbench import probe

        return probe.run(name, asked)
    return show(action, name, asked)
