"""``perfcli bisect-config`` finds the options to blame for a regression, or worth turning on."""

from __future__ import annotations

from typing import Annotated

import typer

from perfcli.commands import _arguments as args
from perfcli.console import documents

Assignments = list[str] | None


def bisect_config(
    scenario: Annotated[str, typer.Argument(metavar="SCENARIO", help="What to compile.")],
    metric: Annotated[
        str,
        typer.Option(
            "--metric",
            "-m",
            metavar="METRIC",
            help="What to look at: spills, loads, kernels, registers, bytes, swept, lower-bound, "
            "estimated-time, peak-memory, compile-time, device-time, time.",
        ),
    ],
    good: Annotated[
        Assignments,
        typer.Option(
            metavar="OPT=VAL|FILE.toml", help="Set the good side. [default: torch's defaults]"
        ),
    ] = None,
    bad: Annotated[
        Assignments,
        typer.Option(
            metavar="OPT=VAL|FILE.toml", help="Set the bad side. [default: search the catalogue]"
        ),
    ] = None,
    good_python: Annotated[
        str | None,
        typer.Option(metavar="PYTHON", help="Use this interpreter's torch as the good one."),
    ] = None,
    bad_python: Annotated[
        str | None,
        typer.Option(metavar="PYTHON", help="Use this interpreter's torch as the bad one."),
    ] = None,
    direction: Annotated[
        str | None,
        typer.Option(
            metavar="worsen|improve",
            help="Without a bad side: find the options of perfcli knobs --performance that make "
            "the metric worse, or better. [default: worsen]",
        ),
    ] = None,
    param: args.Params = None,
    input: args.Inputs = None,
    preset: args.Preset = None,
    target: args.Target = None,
    device: args.Device = None,
    dynamic: args.Dynamic = False,
    max_runs: args.MaxVariants = None,
    budget: args.SearchBudget = None,
    measure_budget: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            min=0.1,
            help="Measure each variant for at most this long. [default: 20]",
        ),
    ] = None,
    threads: args.Threads = None,
    seed: args.Seed = None,
    allow_env: args.AllowEnv = None,
    no_flip: Annotated[
        bool,
        typer.Option("--no-flip", help="Skip the search for the value at which a number flips."),
    ] = False,
    resume: args.Resume = None,
    report: Annotated[
        bool, typer.Option("--report", help="Show the whole comparison of both ends, not one line.")
    ] = False,
    jobs: args.Jobs = None,
    calibration: args.Calibration = None,
    timeout: args.Timeout = None,
    executor: args.Executor = "local",
    address: args.Address = None,
    memory: args.Memory = None,
    json: args.Json = None,
    csv: documents.Csv = None,
    parquet: documents.Parquet = None,
    quiet: args.Quiet = False,
    fake: args.Fake = False,
) -> int:
    """Find the smallest set of options to blame.

    Searches what differs between a good and a bad side, or between two torch installations. With
    neither, it searches the options worth trying for a set that makes the metric worse, or better.
    Variants that generate the same code count once.

    Exit code: 0 answered, 2 error, 3 no answer or only a part of it, 4 --resume of another search.
    """
    from perfcli.bisect import run
    from perfcli.bisect.ends import Shown
    from perfcli.bisect.sides import BisectOptions
    from perfcli.console.notes import Notes
    from perfcli.workflow.context import Context
    from perfcli.workflow.request import Question
    from perfcli.workflow.setting import MeasuringOptions

    wanted = documents.check(documents.Wanted(json=json, csv=csv, parquet=parquet))
    options = BisectOptions(
        metric,
        tuple(good or ()),
        tuple(bad or ()),
        good_python,
        bad_python,
        direction=direction,
        max_runs=max_runs,
        budget=budget,
        flip=not no_flip,
        resume=resume,
    )
    question = Question(
        *(scenario, tuple(param or ()), preset, target, device, dynamic), inputs=tuple(input or ())
    )
    timing = MeasuringOptions(measure_budget, threads, seed, allow_env=tuple(allow_env or ()))
    args.use_calibration(calibration)
    context = Context(
        Notes(quiet),
        timeout=timeout,
        fake=fake,
        jobs=jobs,
        cluster=args.choose_cluster(executor, address),
        needs=args.read_needs(memory or ()),
    )
    shown = Shown(wanted, quiet, report)
    return run.bisect(question, options, timing, context, shown)
