"""``perfcli tune`` finds the options that make a model fastest."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from perfcli.commands import _arguments as args
from perfcli.console import documents
from perfcli.options.performance import Alters


def tune(
    scenario: Annotated[str, typer.Argument(metavar="SCENARIO", help="What to make faster.")],
    option: args.Options = None,
    python: args.Python = None,
    param: args.Params = None,
    input: args.Inputs = None,
    preset: args.Preset = None,
    target: args.Target = None,
    device: args.Device = None,
    dynamic: args.Dynamic = False,
    allow: Annotated[
        list[str] | None,
        typer.Option(
            metavar="numerics|assumptions",
            help="Also try options that change results, or that take something for granted.",
        ),
    ] = None,
    best: Annotated[
        int, typer.Option(metavar="N", min=1, help="On a device: measure the best N sets.")
    ] = 3,
    max_runs: args.MaxVariants = None,
    budget: args.SearchBudget = None,
    measure_budget: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS", min=0.1, help="Measure each set for at most this long. [default: 20]"
        ),
    ] = None,
    no_time: Annotated[
        bool, typer.Option("--no-time", help="Estimate only, though a GPU is here.")
    ] = False,
    threads: args.Threads = None,
    seed: args.Seed = None,
    allow_env: args.AllowEnv = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", metavar="FILE.toml", help="Write the options for compare, gate and apply."
        ),
    ] = None,
    jobs: args.Jobs = None,
    calibration: args.Calibration = None,
    timeout: args.Timeout = None,
    executor: args.Executor = "local",
    address: args.Address = None,
    memory: args.Memory = None,
    json: args.Json = None,
    csv: documents.Csv = None,
    parquet: documents.Parquet = None,
    markdown: documents.Markdown = None,
    html: documents.Html = None,
    quiet: args.Quiet = False,
    fake: args.Fake = False,
) -> int:
    """Find the options that make a model fastest.

    Searches torch's options and perfcli's patches by estimated time, without a GPU, and takes the
    smallest set that keeps 95 % of the gain. On a GPU, the best few are measured in turns with the
    default before one is recommended; with --device cpu all are. What is not surely faster is not
    recommended.

    Exit code: 0 answered, 2 error, 3 unsure, or stopped.
    """
    from dataclasses import replace

    from perfcli.console import output as out
    from perfcli.console.notes import Notes
    from perfcli.errors import PerfcliError
    from perfcli.names import suggestion
    from perfcli.tune import run, view
    from perfcli.workflow.context import Context
    from perfcli.workflow.pair import summarize
    from perfcli.workflow.request import Question
    from perfcli.workflow.setting import MeasuringOptions

    known: dict[str, Alters] = {"numerics": "numerics", "assumptions": "assumptions"}
    for name in allow or ():
        if name not in known:
            raise PerfcliError(f"can't allow {name!r}: {suggestion(name, known)}")
    wanted = documents.check(documents.Wanted(markdown, html, json=json, csv=csv, parquet=parquet))
    if output is not None and output.suffix != ".toml":
        raise PerfcliError(f"--output {output}: a name that ends in .toml is expected")
    out.check_writable(output)
    args.use_calibration(calibration)
    notes = Notes(quiet)
    context = Context(
        notes,
        timeout=timeout,
        fake=fake,
        jobs=jobs,
        written=wanted.places,
        cluster=args.choose_cluster(executor, address),
        needs=args.read_needs(memory or ()),
    )
    question = Question(
        *(scenario, tuple(param or ()), preset, target, device, dynamic), inputs=tuple(input or ())
    )
    options = run.TuneOptions(
        *(tuple(option or ()), python, tuple(known[name] for name in allow or ()), best),
        *(max_runs, budget),
    )
    timing = MeasuringOptions(
        measure_budget, threads, seed, allow_env=tuple(allow_env or ()), no_time=no_time
    )
    found, pair = run.tune(question, options, timing, context)
    if output is not None and found.verdict != "faster" and found.stopped and output.exists():
        notes.warn(f"{output} is as it was before: the search was stopped, and chose nothing")
    elif output is not None:
        out.write_text(view.write_file(found), output)
        if found.verdict != "faster":
            notes.say(f"{output} sets {'only what -o sets' if found.options else 'nothing'}")
    plain = partial(out.write_document, "tuned", view.list_fields(found), json)
    table = partial(documents.write_table, view.TRIED, view.list_rows(found), wanted)
    if pair is not None:
        judgement = replace(summarize([pair]), conclusion=view.conclude(found))
        documents.write(judgement, wanted, notes, plain, table)
    else:
        plain()
        table()
        if wanted.files:
            older = [str(path) for path in wanted.files.values() if path.is_file()]
            kept = f"; from an earlier command there is still {', '.join(older)}" if older else ""
            notes.warn(f"nothing is chosen: there is no comparison to write{kept}")
    lines = [view.verdict_line(found)] if quiet else view.report_lines(found, str(output or ""))
    out.show_lines(lines, wanted.stdout)
    return found.exit_code
