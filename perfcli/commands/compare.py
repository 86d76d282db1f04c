"""``perfcli compare`` compares two variants of one scenario, or two of anything."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from perfcli.commands import _arguments as args
from perfcli.console import documents

if TYPE_CHECKING:
    from pathlib import Path

    from perfcli.workflow.context import Context
    from perfcli.workflow.pair import Pair

Assignments = list[str] | None


def compare(
    base: Annotated[
        str,
        typer.Argument(
            metavar="SCENARIO|RUN",
            help="A shipped name, path/to/file.py[:name][@REV], a script, or a stored run.",
        ),
    ],
    head: Annotated[
        str | None,
        typer.Argument(metavar="SCENARIO|RUN", help="The head, if it is another one."),
    ] = None,
    arguments: args.Words = None,
    a: Annotated[
        Assignments, typer.Option("-a", metavar="OPT=VAL", help="Set an option of the base.")
    ] = None,
    b: Annotated[
        Assignments, typer.Option("-b", metavar="OPT=VAL", help="Set an option of the head.")
    ] = None,
    toggle: Annotated[
        Assignments,
        typer.Option(
            metavar="OPT[=VAL]",
            help="Compare an option's default with this value, or with its opposite.",
        ),
    ] = None,
    a_python: Annotated[
        str | None,
        typer.Option(metavar="PYTHON", help="Compile the base with this interpreter's torch."),
    ] = None,
    b_python: Annotated[
        str | None,
        typer.Option(metavar="PYTHON", help="Compile the head with this interpreter's torch."),
    ] = None,
    script: args.Script = False,
    steps: args.Steps = None,
    param: args.Params = None,
    a_param: Annotated[
        Assignments, typer.Option(metavar="NAME=VALUE", help="Set a parameter of the base alone.")
    ] = None,
    b_param: Annotated[
        Assignments, typer.Option(metavar="NAME=VALUE", help="Set a parameter of the head alone.")
    ] = None,
    input: args.Inputs = None,
    a_input: Annotated[
        Assignments, typer.Option(metavar="[NAME=]SHAPE:DTYPE", help="Call the base with this.")
    ] = None,
    b_input: Annotated[
        Assignments, typer.Option(metavar="[NAME=]SHAPE:DTYPE", help="Call the head with this.")
    ] = None,
    preset: args.Preset = None,
    target: args.Target = None,
    device: Annotated[
        str | None,
        typer.Option(
            metavar="cuda|cpu",
            help="Use this machine's device, or two that base and head exchange half-way: "
            "cuda:0,cuda:1. [default: cuda if there is one]",
        ),
    ] = None,
    dynamic: args.Dynamic = False,
    vary: args.Vary = None,
    world: args.World = 1,
    allow: args.Allow = None,
    budget: args.Budget = None,
    threads: args.Threads = None,
    seed: args.Seed = None,
    a_device: Annotated[
        int | None, typer.Option(metavar="N", help="Measure the base on this GPU.")
    ] = None,
    b_device: Annotated[
        int | None, typer.Option(metavar="N", help="Measure the head on this GPU.")
    ] = None,
    cuda_graph: args.CudaGraph = False,
    flush_l2: args.FlushL2 = False,
    time: args.Time = None,
    allow_env: args.AllowEnv = None,
    no_time: args.NoTime = False,
    with_kernel: Annotated[
        bool,
        typer.Option("--with-kernel", help="Compare Inductor's kernels with hand-written ones."),
    ] = False,
    try_fixes: args.TryFixes = False,
    trust_run: args.TrustRun = False,
    jobs: args.Jobs = None,
    calibration: args.Calibration = None,
    timeout: args.Timeout = None,
    fresh: args.Fresh = False,
    json: args.Json = None,
    csv: documents.Csv = None,
    parquet: documents.Parquet = None,
    markdown: documents.Markdown = None,
    html: documents.Html = None,
    junit: documents.Junit = None,
    sarif: documents.Sarif = None,
    github: documents.Github = False,
    quiet: args.Quiet = False,
    fake: args.Fake = False,
) -> int:
    """Show what got worse between two variants or runs.

    Compiles two variants of one scenario (-a, -b, --toggle), or two of anything: scenarios, files
    at git revisions (model.py:block@main), scripts, stored runs. If the device is in this machine
    (--device cpu, or a GPU), both are also measured, in turns. With --with-kernel, the head is the
    hand-written version of the same computation. A run is a file, or the beginning of its id
    (perfcli runs lists them).

    Exit code: 0 no worse, 1 worse, 2 error, 3 can't tell, 4 not comparable.
    """
    from perfcli.console.notes import Notes
    from perfcli.diff.compare import check_allowed
    from perfcli.loading.references import split_words
    from perfcli.workbench import beside
    from perfcli.workflow.context import Context
    from perfcli.workflow.pair import make_pair
    from perfcli.workflow.request import Question, Side
    from perfcli.workflow.setting import MeasuringOptions

    check_allowed(allow or ())
    wanted = documents.Wanted(markdown, html, junit, sarif, github, json, csv, parquet)
    documents.check(wanted)
    notes = Notes(quiet)
    args.use_calibration(calibration)
    context = Context(notes, fresh, timeout, fake, jobs, trust_run, wanted.places)
    names = tuple(allow_env or ())
    device, exchanged = args.split_places(device)
    asked = MeasuringOptions(
        *(budget, threads, seed, a_device, b_device, cuda_graph, flush_l2, names, no_time),
        clocks=args.choose_clocks(time),
        places=exchanged,
    )
    ours, theirs = split_words(base, head, arguments or (), script)
    question = Question(
        *(ours, tuple(param or ()), preset, target, device, dynamic),
        vary=vary,
        inputs=tuple(input or ()),
        toggles=tuple(toggle or ()),
        world=world,
        steps=steps,
    )
    sides = [
        Side(tuple(a or ()), a_python, "", tuple(a_param or ()), tuple(a_input or ())),
        Side(tuple(b or ()), b_python, theirs, tuple(b_param or ()), tuple(b_input or ())),
    ]
    if with_kernel:
        given: dict[str, object] = {"RUN": head, "-b": b, "--toggle": toggle}
        given |= {"--b-python": b_python, "--allow": allow, "--try-fixes": try_fixes}
        given |= {"--b-param": b_param, "--input": input, "--a-input": a_input}
        given |= {"--device with two devices": exchanged}
        beside.check_alone(given | {"--b-input": b_input})
        pair = beside.compile_pair(question, sides[0], asked, context)
    else:
        pair = make_pair(question, sides, asked, allow or (), context)
    try:
        return _report(pair, context, wanted, json, quiet, try_fixes)
    except KeyboardInterrupt as error:
        raise pair.interrupted() from error


def _report(
    pair: Pair,
    context: Context,
    wanted: documents.Wanted,
    json: Path | None,
    quiet: bool,
    try_fixes: bool,
) -> int:
    """Judge and report; return the exit code. Raises Interrupted, after the report, where Ctrl-C
    ended the measurement before it was enough."""
    from perfcli.console import output
    from perfcli.diagnosis import judge
    from perfcli.diff.compare import list_overrides
    from perfcli.frames.groups import GROUPS, list_groups
    from perfcli.stats.timing import is_broken_off
    from perfcli.workflow import fixes
    from perfcli.workflow.pair import summarize

    comparison, broken = judge(pair.comparison)
    broken_off = pair.measured and is_broken_off(comparison.timing)
    if try_fixes:
        patient = fixes.Patient(pair.head, comparison.findings, pair.base)
        tried = fixes.try_fixes(patient, context, fixes.came_with_head)
        comparison = replace(comparison, findings=tried)
    places = [(side.reference, side.shown_path) for side in (pair.base, pair.head)]
    pair = replace(pair, comparison=comparison, fault=str(broken or ""))
    judgement = summarize([pair])
    hint = ""
    if not quiet and not try_fixes:
        command = ["compare", *(reference for reference, _ in places)]
        command += list_overrides(comparison.base, comparison.head)
        hint = fixes.propose(command, pair.head, comparison.findings, fixes.came_with_head)
    try:
        plain = partial(output.write_comparison, comparison, json)
        table = partial(documents.write_table, GROUPS, list_groups(comparison), wanted)
        documents.write(judgement, wanted, context.notes, plain, table)
    finally:
        screen = output.screen()
        view = screen.comparison(comparison, places, quiet, try_fixes)
        documents.show(view, wanted)
    output.show_command(hint, wanted.stdout)
    if broken:
        raise broken
    if broken_off:
        raise pair.interrupted()
    return output.EXIT_CODES[comparison.outcome]
