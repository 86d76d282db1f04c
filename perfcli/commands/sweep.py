"""``perfcli sweep`` compiles many variants and puts them side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from perfcli.commands import _arguments as args
from perfcli.console import documents
from perfcli.errors import PerfcliError

if TYPE_CHECKING:
    from perfcli.model import Sweep
    from perfcli.sweep.plan import Block

FAILED = 3
"""Exit code where some variants failed: what is shown is not all that was asked for."""


def sweep(
    scenarios: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SCENARIO|FILE.toml",
            help="Shipped names, path/to/file.py[:name][@REV], or a file that lists all of it.",
        ),
    ] = None,
    param: Annotated[
        list[str] | None,
        typer.Option("-p", "--param", metavar="NAME=A,B,…", help="Sweep a scenario's parameter."),
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(
            "-o",
            "--option",
            metavar="OPT=A,B,…",
            help="Sweep an Inductor option or a variable; the value unset leaves it as it is.",
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(metavar="A,B,…", help="Compile for these GPUs; none has to be here."),
    ] = None,
    python: Annotated[
        str | None,
        typer.Option("--python", metavar="A,B,…", help="Use the torch of these interpreters."),
    ] = None,
    preset: args.Preset = None,
    device: Annotated[
        str | None,
        typer.Option(
            metavar="cuda|cpu",
            help="Use this machine's device; with --measure also some GPUs: cuda:0,cuda:1. "
            "[default: cuda if there is one]",
        ),
    ] = None,
    dynamic: args.Dynamic = False,
    measure: Annotated[
        bool,
        typer.Option(
            "--measure",
            help="Also measure each variant, in turns with the first one that computes the same: "
            "on all GPUs at once, or with --device cpu.",
        ),
    ] = False,
    budget: args.Budget = None,
    seed: args.Seed = None,
    time: Annotated[
        str | None,
        typer.Option(
            metavar="device|step",
            help="GPU: measure the device's own time, or the step's. [default: device]",
        ),
    ] = None,
    jobs: args.Jobs = None,
    calibration: args.Calibration = None,
    timeout: args.Timeout = None,
    executor: args.Executor = "local",
    address: args.Address = None,
    memory: args.Memory = None,
    fresh: args.Fresh = False,
    top: Annotated[int, typer.Option(metavar="N", min=0, help="Variants to list; 0: all.")] = 40,
    json: args.Json = None,
    csv: documents.Csv = None,
    parquet: documents.Parquet = None,
    html: documents.Html = None,
    quiet: args.Quiet = False,
    fake: args.Fake = False,
) -> int:
    """Compile many variants and put them side by side.

    Every combination of the values is a variant. Times are estimated, and with --measure also
    measured; "ratio" is to the first variant that computes the same, and a star marks those that no
    other one beats in both time and memory. What is finished is stored at once: the same command
    goes on where it was stopped.

    Exit code: 0 all done, 2 error, 3 some variants failed, 130 interrupted.
    """
    from perfcli.console import output
    from perfcli.console.notes import Notes
    from perfcli.model import Sweep
    from perfcli.sweep.devices import choose_devices
    from perfcli.sweep.plan import Block, list_points, read_lists, set_typed
    from perfcli.sweep.run import run_sweep
    from perfcli.sweep.table import make_table
    from perfcli.sweep.view import show_sweep
    from perfcli.workflow.context import Context
    from perfcli.workflow.setting import MeasuringOptions

    wanted = documents.check(documents.Wanted(html=html, json=json, csv=csv, parquet=parquet))
    device, places = args.split_devices(device)
    asked = MeasuringOptions(budget=budget, seed=seed, clocks=args.choose_clocks(time))
    if not measure:
        asked.refuse("only --measure measures")
        if places:
            raise PerfcliError("several devices are for --measure: give --device cuda or cpu")
    typed = Block(
        params=read_lists(param or (), "parameter"),
        options=read_lists(option or (), "option"),
        targets=_split(target),
        pythons=_split(python),
        preset=preset,
        device=device,
        dynamic=dynamic,
    )
    points = list_points(set_typed(*_sort_out(scenarios or [], typed)))
    args.use_calibration(calibration)
    context = Context(
        *(Notes(quiet), fresh, timeout, fake, jobs),
        written=wanted.places,
        cluster=args.choose_cluster(executor, address),
        needs=args.read_needs(memory or ()),
    )
    devices = choose_devices(points, places, asked, context) if measure else None
    swept = Sweep(run_sweep(points, context, devices))
    try:
        output.write_document("sweep", {"variants": swept.variants}, json)
        documents.write_table(make_table(swept), swept.variants, wanted)
        if html is not None:
            output.write_text(_render(swept), html)
    finally:
        output.show(show_sweep(swept, top, quiet), wanted.stdout)
    if len(swept.failed) == len(swept.variants):
        raise PerfcliError("every variant failed")
    return FAILED if swept.failed or swept.unmeasured else 0


def _render(swept: Sweep) -> str:
    from perfcli.loading import registry
    from perfcli.model import Document

    return registry.load_declared("reports", "sweep", Document).render(swept)


def _split(text: str | None) -> tuple[str, ...]:
    from perfcli.sweep.plan import split_list

    return split_list(text) if text else ()


def _sort_out(named: list[str], typed: Block) -> tuple[list[Block], Block]:
    """Return the blocks of the file that is named, if one is, and what was typed beside it."""
    from dataclasses import replace

    from perfcli.sweep.plan import read_plan

    files = [each for each in named if each.endswith(".toml")]
    if len(files) > 1:
        raise PerfcliError(f"one file at a time: {files[0]} or {files[1]}")
    others = tuple(dict.fromkeys(each for each in named if each not in files))
    blocks = read_plan(Path(files[0])) if files else []
    return blocks, replace(typed, scenarios=others)
