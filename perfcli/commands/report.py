"""``perfcli report`` writes documents about stored runs, without compiling anything."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from perfcli.commands import _arguments as args
from perfcli.console import documents
from perfcli.errors import PerfcliError, RuleFailed

if TYPE_CHECKING:
    from rich.console import RenderableType

    from perfcli.model import Finding
    from perfcli.workflow.context import Context
    from perfcli.workflow.pair import Pair
    from perfcli.workflow.setting import MeasuringOptions


def report(
    runs: Annotated[
        list[str], typer.Argument(metavar="RUN", help="Stored runs; the first is the base.")
    ],
    markdown: documents.Markdown = None,
    html: documents.Html = None,
    junit: documents.Junit = None,
    sarif: documents.Sarif = None,
    github: documents.Github = False,
    csv: documents.Csv = None,
    parquet: documents.Parquet = None,
    allow: args.Allow = None,
    time: args.Time = None,
    no_time: Annotated[
        bool, typer.Option("--no-time", help="Leave out what was measured.")
    ] = False,
    quiet: args.Quiet = False,
) -> int:
    """Write documents about stored runs.

    A single run is shown by itself, with its kernels and findings. If there are more, each one is
    compared with the first, as compare does, with their newest measurement. A run is a file, or
    the beginning of its id (perfcli runs lists them). --csv and --parquet have a line for each
    group of kernels, of all runs.

    Exit code: that of compare, for the worst run; 0 for a single run, whatever is found.
    """
    from perfcli.console.notes import Notes
    from perfcli.diff.compare import check_allowed
    from perfcli.frames.groups import GROUPS, list_groups
    from perfcli.workflow.context import Context
    from perfcli.workflow.pair import summarize
    from perfcli.workflow.setting import MeasuringOptions

    wanted = documents.Wanted(markdown, html, junit, sarif, github, csv=csv, parquet=parquet)
    if not wanted.named and not github:
        raise PerfcliError(
            "nothing to write: name a file with --html, --markdown, --junit, --sarif, --csv or "
            "--parquet, or give --github (perfcli compare shows two runs here, perfcli explain one)"
        )
    check_allowed(allow or ())
    documents.check(wanted)
    context = Context(Notes(quiet), written=wanted.places)
    asked = MeasuringOptions(no_time=no_time, clocks=args.choose_clocks(time))
    pairs = _judge_pairs(runs, allow or (), asked, context)
    judgement = summarize(pairs)
    rows = [row for pair in pairs for row in list_groups(pair.comparison)]
    table = partial(documents.write_table, GROUPS, rows, wanted)
    try:
        documents.write(judgement, wanted, context.notes, table)
    finally:
        documents.show(_lines(pairs), wanted)
    faults = [pair.fault for pair in pairs if pair.fault]
    if faults:
        raise RuleFailed(faults[0])
    return judgement.exit_code


def _judge_pairs(
    runs: Sequence[str], allow: Sequence[str], asked: MeasuringOptions, context: Context
) -> list[Pair]:
    if len(runs) == 1:
        return [_alone(runs[0], context)]
    found = [_judge_pair(runs[0], head, allow, asked, context) for head in runs[1:]]
    if len(found) == 1:
        return found
    names = [_name(pair) for pair in found]
    counts = Counter(names)
    return [
        replace(p, name=name if counts[name] == 1 else f"{name} {p.head.run.id}")
        for name, p in zip(names, found, strict=True)
    ]


def _alone(reference: str, context: Context) -> Pair:
    """Return a run paired with itself, with all that the rules say about it."""
    from perfcli import diagnosis
    from perfcli.diff.compare import gather_evidence
    from perfcli.diff.verdict.conclude import acquit
    from perfcli.workflow.obtain import load_stored
    from perfcli.workflow.pair import Pair

    stored = load_stored(reference, context)
    if not stored.run.kernels:
        raise PerfcliError(f"run {stored.run.id} has no kernels: there is nothing to report")
    findings: tuple[Finding, ...] = ()
    run, fault = stored.run, ""
    try:
        run, findings = diagnosis.examine(run)
    except RuleFailed as error:
        fault = str(error)
    comparison = acquit(replace(gather_evidence(run, run), findings=findings))
    return Pair(stored, stored, comparison, fault=fault, alone=True)


def _judge_pair(
    base: str, head: str, allow: Sequence[str], asked: MeasuringOptions, context: Context
) -> Pair:
    from perfcli.diagnosis import judge
    from perfcli.workflow.pair import load_pair

    pair = load_pair(base, head, asked, allow, context)
    comparison, broken = judge(pair.comparison)
    return replace(pair, comparison=comparison, fault=str(broken or ""))


def _name(pair: Pair) -> str:
    """Return what tells one head from the others: scenario, target and variant."""
    run = pair.head.run
    where = run.place
    return f"{run.scenario}@{where} {run.variant.name}".strip()


def _lines(pairs: Sequence[Pair]) -> RenderableType:
    """Return a line for each pair, as compare --quiet and explain --quiet print it."""
    from rich.console import Group

    return Group(*map(_line, pairs))


def _line(pair: Pair) -> RenderableType:
    from perfcli.console import output

    screen, comparison = output.screen(), pair.comparison
    if pair.alone:
        line: RenderableType = screen.explanation(comparison.head, comparison.findings, brief=True)
    else:
        line = screen.comparison(comparison, brief=True)
    return line
