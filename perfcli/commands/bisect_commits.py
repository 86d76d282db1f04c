"""``perfcli bisect-commits`` finds the commit that made a model slower."""

from __future__ import annotations

from typing import Annotated

import typer

from perfcli.commands import _arguments as args
from perfcli.console import documents


def bisect_commits(
    good: Annotated[
        str, typer.Argument(metavar="GOOD", help="A revision that is good, or an interpreter.")
    ],
    bad: Annotated[
        str, typer.Argument(metavar="BAD", help="A revision that is bad, or the next interpreter.")
    ],
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="SCENARIO",
            help="What to compile; more interpreters may come before it, in their order.",
        ),
    ],
    metric: Annotated[
        str | None,
        typer.Option(
            "--metric",
            "-m",
            metavar="METRIC",
            help="What to look at, as in bisect-config. [default: estimated-time, then "
            "device-time where a GPU is; time on the CPU]",
        ),
    ] = None,
    first_parent: Annotated[
        bool,
        typer.Option("--first-parent", help="Take a merge for one commit."),
    ] = False,
    option: args.Options = None,
    python: args.Python = None,
    param: args.Params = None,
    input: args.Inputs = None,
    preset: args.Preset = None,
    target: args.Target = None,
    device: args.Device = None,
    dynamic: args.Dynamic = False,
    max_runs: Annotated[
        int | None, typer.Option(metavar="N", min=2, help="Compile at most N versions.")
    ] = None,
    budget: args.SearchBudget = None,
    measure_budget: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            min=0.1,
            help="Measure a version for at most this long each time. [default: 20]",
        ),
    ] = None,
    threads: args.Threads = None,
    seed: args.Seed = None,
    allow_env: args.AllowEnv = None,
    resume: args.Resume = None,
    jobs: args.Jobs = None,
    calibration: args.Calibration = None,
    timeout: args.Timeout = None,
    json: args.Json = None,
    csv: documents.Csv = None,
    parquet: documents.Parquet = None,
    quiet: args.Quiet = False,
    fake: args.Fake = False,
) -> int:
    """Find the commit that made it slower.

    Searches the commits between two revisions of your repository, or a list of interpreters with
    other torch releases. Commits that generate the same code count once; what is measured is
    measured against GOOD, in turns, as often as it takes. The commit is then compared with the one
    before it.

    Exit code: 0 found, 2 error, 3 not found or only a range, 4 --resume of another search.
    """
    from perfcli.bisect.versions.run import CommitOptions
    from perfcli.bisect.versions.run import bisect_commits as search
    from perfcli.console.notes import Notes
    from perfcli.workflow.context import Context
    from perfcli.workflow.request import Question
    from perfcli.workflow.setting import MeasuringOptions

    wanted = documents.check(documents.Wanted(json=json, csv=csv, parquet=parquet))
    versions, scenario = (good, bad, *words[:-1]), words[-1]
    options = CommitOptions(
        *(versions, tuple(option or ()), python, metric, first_parent),
        *(max_runs, budget, resume),
    )
    question = Question(
        *(scenario, tuple(param or ()), preset, target, device, dynamic), inputs=tuple(input or ())
    )
    timing = MeasuringOptions(measure_budget, threads, seed, allow_env=tuple(allow_env or ()))
    args.use_calibration(calibration)
    notes = Notes(quiet)
    context = Context(notes, timeout=timeout, fake=fake, jobs=jobs, written=wanted.places)
    return search(question, options, timing, context, wanted, quiet)
