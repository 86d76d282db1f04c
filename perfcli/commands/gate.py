"""The gate: what the kernels are held against a baseline for, in CI."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from perfcli.commands import _arguments as args
from perfcli.commands import _documents as documents


def gate(
    checks: Annotated[
        list[str] | None,
        typer.Argument(metavar="CHECK", help="Only these, with or without @TARGET."),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="The configuration. [default: pyproject.toml or perfcli.toml]"
        ),
    ] = None,
    baseline: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The baseline. [default: what the configuration says]"),
    ] = None,
    allow: Annotated[
        list[str] | None,
        typer.Option(metavar="ASPECT", help="Compare though this differs: torch, triton, target …"),
    ] = None,
    jobs: args.Jobs = None,
    timeout: args.Timeout = None,
    fresh: args.Fresh = False,
    json: args.Json = None,
    markdown: documents.Markdown = None,
    html: documents.Html = None,
    junit: documents.Junit = None,
    sarif: documents.Sarif = None,
    github: documents.Github = False,
    quiet: args.Quiet = False,
    fake: args.Fake = False,
) -> int:
    """Hold the kernels of all checks against the baseline, and fail where a limit breaks.

    [tool.perfcli] in pyproject.toml, or perfcli.toml, says what is checked. Exit code: 0 pass,
    1 a limit is broken, 2 error, 3 can't tell (on-unsure = "fail"), 4 no baseline or another
    torch's.
    """
    from perfcli.commands import _gate_checks, _gate_run, _gate_view, _output
    from perfcli.commands._obtain import How
    from perfcli.commands._progress import Notes

    _gate_run.check_aspects(allow or ())
    wanted = documents.Wanted(markdown, html, junit, sarif, github, json)
    documents.check(wanted)
    found = _gate_checks.configured(config, baseline)
    meant = _gate_checks.chosen(found, checks or ())
    notes = Notes(quiet)
    order = _gate_run.Order(found, How(fresh, timeout, fake), tuple(allow or ()), jobs, notes)
    done = list(_gate_run.checked(meant, _gate_run.with_baseline(order), order))
    command = " ".join(["perfcli", "gate", *(checks or ())])
    judgement = _gate_run.judgement(done, order, command, documents.project_root())
    try:
        if json is not None:
            _output.write_text(documents.rendered("gate_json", judgement), json)
        documents.write(judgement, wanted, notes)
    finally:
        documents.show(_gate_view.report(judgement, quiet), wanted)
    _gate_run.say_where_to_look(done, notes)
    return judgement.exit_code
