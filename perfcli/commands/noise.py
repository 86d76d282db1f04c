"""``perfcli noise`` measures identical variants to learn what this machine can't tell apart."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from perfcli.commands import _arguments as args
from perfcli.console import documents
from perfcli.errors import Interrupted, PerfcliError

if TYPE_CHECKING:
    from perfcli.machine.noise_floors import StoredFloor
    from perfcli.noise.pairs import PairSeries

PAIRS = 3


def noise(
    scenario: Annotated[
        str | None, typer.Argument(metavar="SCENARIO", help="What to measure.")
    ] = None,
    param: args.Params = None,
    input: args.Inputs = None,
    preset: args.Preset = None,
    device: args.Device = None,
    option: args.Options = None,
    python: args.Python = None,
    budget: args.Budget = None,
    pairs: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Measure N fresh pairs of processes. [default: 3]"),
    ] = None,
    threads: args.Threads = None,
    seed: args.Seed = None,
    time: args.Time = None,
    slow_head: Annotated[
        float | None,
        typer.Option(
            metavar="PERCENT",
            min=0.01,
            max=1000,
            help="Check perfcli: slow the head down by this much; store nothing.",
        ),
    ] = None,
    show: Annotated[bool, typer.Option("--show", help="List the stored noise floors.")] = False,
    forget: Annotated[
        bool, typer.Option("--forget", help="Remove the stored floors of SCENARIO, or all.")
    ] = False,
    timeout: args.Timeout = None,
    json: args.Json = None,
    csv: documents.Csv = None,
    parquet: documents.Parquet = None,
    quiet: args.Quiet = False,
    fake: args.Fake = False,
) -> int:
    """Measure identical variants and store the noise floor.

    Pairs of processes run the same code, so any difference between them is noise. From then on,
    compare on this kind of machine calls a step slower or faster only if it differs by more.

    Exit code: 0, 2 error, 3 every pair is UNSURE; with --slow-head as compare: 1 slower, 3 can't
    tell.
    """
    from perfcli.console.notes import Notes
    from perfcli.noise import view
    from perfcli.noise.pairs import PairSeries
    from perfcli.workflow.context import Context
    from perfcli.workflow.request import Question, Side, check_compiled, make_jobs
    from perfcli.workflow.setting import MeasuringOptions, settle, why_not

    wanted = documents.check(documents.Wanted(json=json, csv=csv, parquet=parquet))
    if show and forget:
        raise PerfcliError("--show lists and --forget removes: give one of them")
    if show or forget:
        typed = {
            "--param": param,
            "--input": input,
            "--preset": preset,
            "--device": device,
            "--option": option,
            "--python": python,
            "--budget": budget,
            "--pairs": pairs,
            "--threads": threads,
            "--seed": seed,
            "--time": time,
            "--slow-head": slow_head,
            "--timeout": timeout,
        }
        unused = [name for name, value in typed.items() if value is not None and value != []]
        if show:
            return view.show(scenario, unused, wanted)
        return view.forget(scenario, unused, wanted)
    if scenario is None:
        raise PerfcliError(
            "what is to be measured? Give a scenario (perfcli scenarios lists them), or --show"
        )
    question = Question(
        *(scenario, tuple(param or ()), preset, None, _device(device)), inputs=tuple(input or ())
    )
    context = Context(Notes(quiet), timeout=timeout, fake=fake)
    check_compiled(scenario, context)
    asked = MeasuringOptions(budget, threads, seed, clocks=args.choose_clocks(time))
    setting = settle(question, asked, context)
    if setting is None:
        raise PerfcliError("nothing can be measured here")
    question = replace(question, threads=setting.threads)
    side = Side(tuple(option or ()), python)
    (job,) = make_jobs(question, [side], context.choose_probe(setting.device))
    if reason := why_not([job], setting):
        raise PerfcliError(f"nothing can be measured: {reason}")
    planted = (slow_head or 0.0) / 100
    done = PairSeries(job, setting, pairs or PAIRS, planted, context, preset)
    return _measure(done, wanted, quiet)


def _device(typed: str | None) -> str:
    """Return the device to measure on. Raises PerfcliError if it is a GPU and there is none: only
    compiling works without."""
    from perfcli.machine import targets

    if typed == "cuda" and not targets.has_gpu():
        raise PerfcliError("no NVIDIA GPU found here to measure on: --device cpu measures the CPU")
    return typed or ("cuda" if targets.has_gpu() else "cpu")


def _measure(done: PairSeries, wanted: documents.Wanted, quiet: bool) -> int:
    """Measure all pairs and report; return the exit code. Raises Interrupted, and what the workers
    raise, after the report on what was measured."""
    from perfcli.console import output
    from perfcli.noise import view
    from perfcli.noise.pairs import exit_code, prove_floor

    try:
        done.run()
    except (KeyboardInterrupt, PerfcliError) as error:
        _report(done, None, "", wanted, quiet)
        if isinstance(error, PerfcliError):
            raise
        raise Interrupted(_unfinished(done)) from error
    if not done.complete:
        _report(done, None, "", wanted, quiet)
        raise Interrupted(_unfinished(done))
    kept = None if done.planted else prove_floor(done)
    _report(done, kept, _keep(done, kept), wanted, quiet)
    if kept and (doubt := view.name_noise(done, kept)):
        done.context.notes.warn(doubt)
    if done.planted:
        return exit_code(done.found)
    return output.EXIT_CODES["unknown"] if done.unsure else 0


def _unfinished(done: PairSeries) -> str:
    whole = sum(measured.stopped != "interrupted" for measured in done.found)
    return f"interrupted after {whole} of {done.pairs} pairs; no floor is stored"


def _keep(done: PairSeries, kept: StoredFloor | None) -> str:
    """Store the floor and return its path, or an empty string if nothing is to be stored."""
    from perfcli.machine import noise_floors

    if kept is None or done.machine is None:
        return ""
    return str(noise_floors.save(done.machine, kept))


def _report(
    done: PairSeries, kept: StoredFloor | None, path: str, wanted: documents.Wanted, quiet: bool
) -> None:
    from rich.text import Text

    from perfcli.console import output
    from perfcli.noise import view

    try:
        output.write_document("noise", view.describe_noise(done, kept, path), wanted.json)
        documents.write_table(view.PAIRS, view.list_pairs(done.found), wanted)
    finally:
        if done.found:
            lines = view.list_report(done, kept, path)
            output.show(Text("\n".join(lines[-1:] if quiet else lines)), wanted.stdout)
