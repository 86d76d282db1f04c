"""Two variants of one scenario, or two stored runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from perfcli.commands import _arguments as args
from perfcli.errors import PerfcliError, RuleFailed

Assignments = list[str] | None


def compare(
    base: Annotated[
        str, typer.Argument(metavar="SCENARIO|RUN", help="What to compile, or a stored run.")
    ],
    head: Annotated[
        str | None, typer.Argument(metavar="RUN", help="The stored run to compare with.")
    ] = None,
    a: Annotated[
        Assignments, typer.Option("-a", metavar="OPT=VAL", help="An option of the base.")
    ] = None,
    b: Annotated[
        Assignments, typer.Option("-b", metavar="OPT=VAL", help="An option of the head.")
    ] = None,
    toggle: Annotated[
        Assignments,
        typer.Option(
            metavar="OPT[=VAL]",
            help="Base: an option's default; head: the value, or the other of yes and no.",
        ),
    ] = None,
    a_python: Annotated[
        str | None, typer.Option(metavar="PYTHON", help="The interpreter with the base's torch.")
    ] = None,
    b_python: Annotated[
        str | None, typer.Option(metavar="PYTHON", help="The interpreter with the head's torch.")
    ] = None,
    param: args.Params = None,
    preset: args.Preset = None,
    target: args.Target = None,
    device: args.Device = None,
    dynamic: args.Dynamic = False,
    allow: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ASPECT",
            help="Compare though this differs: scenario, params, mode, device, target, dynamic.",
        ),
    ] = None,
    try_fixes: args.TryFixes = False,
    jobs: args.Jobs = None,
    timeout: args.Timeout = None,
    fresh: args.Fresh = False,
    json: args.Json = None,
    quiet: args.Quiet = False,
    fake: args.Fake = False,
) -> int:
    """Say what got worse between two variants or stored runs.

    Two variants of a scenario are compiled (-a, -b, --toggle), stored runs are read.
    A run is a file or the beginning of its id (perfcli runs lists them). Exit code: 0 no worse,
    1 worse, 2 error, 3 can't tell, 4 not comparable.
    """
    from perfcli.commands import _obtain, _output, _trials
    from perfcli.commands._progress import Notes
    from perfcli.commands._request import Question, Side
    from perfcli.diagnosis import diagnose
    from perfcli.diff.compare import check_allowed
    from perfcli.diff.compare import compare as compare_runs

    check_allowed(allow or ())
    notes = Notes(quiet)
    how = _obtain.How(fresh, timeout, fake, tuple(toggle or ()))
    if head is not None:
        compiling = (a, b, toggle, a_python, b_python, param, preset, target, device)
        if any(compiling) or dynamic or fresh:
            raise PerfcliError(
                "two stored runs are compared as they are: leave out the options for compiling"
            )
        sides = [_obtain.stored(base), _obtain.stored(head)]
    else:
        question = Question(base, tuple(param or ()), preset, target, device, dynamic, jobs)
        pair = [Side(tuple(a or ()), a_python), Side(tuple(b or ()), b_python)]
        sides = _obtain.compiled(question, pair, how, notes)
        _obtain.warn_forward_only(sides[1].run, notes)
    comparison = compare_runs(sides[0].run, sides[1].run, allow or ())
    broken: RuleFailed | None = None
    try:
        comparison = diagnose(comparison)
    except RuleFailed as error:
        broken = error  # said after the report, which stands without its findings
    if try_fixes:
        patient = _trials.Patient(sides[1], comparison.findings, sides[0])
        tried = _trials.try_fixes(patient, how, jobs, notes, _trials.came_with_head)
        comparison = replace(comparison, findings=tried)
    _output.write_comparison(comparison, json)
    places = [(side.reference, side.shown_path) for side in sides]
    screen = _output.screen()
    _output.show(screen.comparison(comparison, places, quiet, try_fixes), json)
    if not quiet and not try_fixes:
        references = [reference for reference, _ in places]
        findings = comparison.findings
        _trials.show_hint(["compare", *references], findings, json, _trials.came_with_head)
    if broken:
        raise broken
    return _output.EXIT_CODES[comparison.outcome]
