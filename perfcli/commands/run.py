"""``perfcli run`` compiles one variant of one scenario and stores the run."""

from __future__ import annotations

from typing import Annotated

import typer

from perfcli.commands import _arguments as args
from perfcli.console import documents
from perfcli.errors import PerfcliError


def run(
    scenario: Annotated[
        str,
        typer.Argument(
            metavar="SCENARIO",
            help="A shipped name, path/to/file.py[:name][@REV], a script, or -m and a module.",
        ),
    ],
    arguments: args.Words = None,
    script: args.Script = False,
    steps: args.Steps = None,
    option: args.Options = None,
    python: args.Python = None,
    param: args.Params = None,
    input: args.Inputs = None,
    preset: args.Preset = None,
    target: args.Target = None,
    device: args.Device = None,
    dynamic: args.Dynamic = False,
    vary: args.Vary = None,
    world: args.World = 1,
    jobs: args.Jobs = None,
    calibration: args.Calibration = None,
    timeout: args.Timeout = None,
    executor: args.Executor = "local",
    address: args.Address = None,
    memory: args.Memory = None,
    fresh: args.Fresh = False,
    top: Annotated[int, typer.Option(metavar="N", min=0, help="Kernels to list; 0: all.")] = 10,
    sort: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Sort the kernels by this column. [default: time, or bytes without one]",
        ),
    ] = None,
    json: args.Json = None,
    csv: documents.Csv = None,
    parquet: documents.Parquet = None,
    quiet: args.Quiet = False,
    fake: args.Fake = False,
) -> int:
    """Compile a variant and list its costliest kernels.

    Stores the run. With --quiet, prints only the run's id. The column "bound" is what takes most
    of the time: DRAM, L2 and L1 are bandwidths, "issue" the schedulers' instruction slots,
    "latency" waiting (docs/inspect-kernel.md has all).
    """
    from perfcli.console import output
    from perfcli.console.notes import Notes
    from perfcli.frames.kernels import KERNELS, list_kernels
    from perfcli.loading.references import join_words
    from perfcli.predict.step import estimate_run
    from perfcli.workflow.context import Context
    from perfcli.workflow.obtain import compile_runs, warn_of_oversights
    from perfcli.workflow.request import Question, Side

    wanted = documents.check(documents.Wanted(json=json, csv=csv, parquet=parquet))
    screen = output.screen()
    named = (each for each in screen.columns if sort and sort.startswith(each.rstrip(".")))
    column = next(named, "")
    if sort is not None and not column:
        raise PerfcliError(f"can't sort by {sort!r}: one of {', '.join(screen.columns)}")
    question = Question(
        join_words(scenario, arguments or (), script),
        *(tuple(param or ()), preset, target, device, dynamic),
        vary=vary,
        inputs=tuple(input or ()),
        world=world,
        steps=steps,
    )
    side = Side(tuple(option or ()), python)
    args.use_calibration(calibration)
    context = Context(
        *(Notes(quiet), fresh, timeout, fake, jobs),
        written=wanted.places,
        cluster=args.choose_cluster(executor, address),
        needs=args.read_needs(memory or ()),
    )
    (found,) = compile_runs(question, [side], context)
    warn_of_oversights(found.run, context.notes, shows_notes=True)
    shown = estimate_run(found.run)
    try:
        output.write_document("run", {"run": shown}, json)
        documents.write_table(KERNELS, list_kernels(shown), wanted)
    finally:
        places = (found.shown_path, found.reference)
        view = screen.run(shown, *places, brief=quiet, top=top, sort=column)
        output.show(view, wanted.stdout)
    # The warning is out already; a script that goes on with the id must not go on.
    return 0 if found.path else PerfcliError.exit_code
