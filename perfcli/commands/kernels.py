"""Hand-written kernels: what there is, what they are made of, if they are right, how fast."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from perfcli.commands import _arguments as args

Targets = Annotated[
    list[str] | None,
    typer.Option(
        "--target", metavar="NAME", help="Compile for this GPU; no GPU is needed. Repeatable."
    ),
]
Params = Annotated[
    list[str] | None,
    typer.Option(
        "-p", "--param", metavar="NAME=VALUE", help="rows, columns, dtype, operation, a setting."
    ),
]


def kernels(
    action: Annotated[
        str | None,
        typer.Argument(metavar="[check|bench|probe]", help="Run cases, time, sweep; else: show."),
    ] = None,
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="One family, or a file with one.")
    ] = None,
    target: Targets = None,
    param: Params = None,
    variant: Annotated[
        str | None, typer.Option(metavar="NAME", help="This variant, not the one that is chosen.")
    ] = None,
    all_variants: Annotated[
        bool, typer.Option("--all-variants", help="Every variant beside the chosen one.")
    ] = False,
    case: Annotated[
        list[str] | None,
        typer.Option(metavar="WORDS", help="check: cases that have all of these words."),
    ] = None,
    against: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="bench: eager, inductor, liger, …; none. Repeatable."),
    ] = None,
    rounds: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Launches of each. [default: 40, probe: 10]"),
    ] = None,
    budget: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", min=0.1, help="For a problem. [default: 10, probe: 0.5]"),
    ] = None,
    svg: Annotated[
        Path | None, typer.Option("--svg", metavar="FILE", help="bench, probe: write a chart too.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="Of inputs, and the order of rounds.")
    ] = None,
    device: args.Device = None,
    python: args.Python = None,
    jobs: args.Jobs = None,
    timeout: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", min=1, help="A silent worker is stopped. [default: 600]"),
    ] = None,
    json: args.Json = None,
    quiet: args.Quiet = False,
    fake: args.Fake = False,
) -> int:
    """Show, check or time the hand-written kernels.

    Without a name: all families. With one: what it computes, its variants, and what its launches
    are made of, without a GPU. check holds every case against a float64 reference, on the GPU or
    through Triton's interpreter; bench times it against a copy, torch and others, on the GPU.
    probe compiles one kernel for many launches, times them on a GPU, and says from how many reads
    on it spills.
    """
    from perfcli.workbench import run as _kernels_run
    from perfcli.workbench.request import KernelsOptions

    asked = KernelsOptions(
        targets=tuple(target or ()),
        params=tuple(param or ()),
        variant=variant,
        all_variants=all_variants,
        cases=tuple(case or ()),
        against=tuple(against or ()),
        rounds=rounds,
        budget=budget,
        svg=svg,
        seed=seed,
        device=device,
        python=python,
        jobs=jobs,
        timeout=timeout,
        json=json,
        quiet=quiet,
        fake=fake,
    )
    if action == "check":
        return _kernels_run.check(name, asked)
    if action == "bench":
        return _kernels_run.bench(name, asked)
    if action == "probe":
        from perfcli.workbench import probe

        return probe.run(name, asked)
    return _kernels_run.show(action, name, asked)
