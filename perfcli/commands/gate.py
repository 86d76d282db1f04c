"""The gate: what the kernels are held against a baseline for, in CI."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from perfcli.commands import _arguments as args
from perfcli.console import documents
from perfcli.model import Judgement


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
    base_rev: Annotated[
        str | None,
        typer.Option(metavar="REV", help="Compare with this git revision, compiled here."),
    ] = None,
    base_python: Annotated[
        str | None,
        typer.Option(metavar="PYTHON", help="Compare with what this interpreter's torch makes."),
    ] = None,
    allow_env: args.AllowEnv = None,
    no_time: Annotated[
        bool, typer.Option("--no-time", help="Compare the code alone, measure nothing.")
    ] = False,
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
    """Fail where kernels got worse than limits allow.

    [tool.perfcli] in pyproject.toml, or perfcli.toml, says what is checked. The base is the
    committed baseline, or with --base-rev or --base-python what is compiled here; then both are
    measured as well, where a check has a device. Exit code: 0 pass, 1 a limit is broken, 2 error,
    3 can't tell (on-unsure = "fail"), 4 no baseline, or another torch's.
    """
    from perfcli.console.notes import Notes
    from perfcli.gate import compiled, run, view
    from perfcli.gate import judgement as _gate_judgement
    from perfcli.gate.bases import Wish, base_of
    from perfcli.gate.order import Order
    from perfcli.workflow.obtain import How

    run.check_aspects(allow or ())
    wanted = documents.Wanted(markdown, html, junit, sarif, github, json)
    wish = Wish(baseline, base_rev, base_python, tuple(allow_env or ()), no_time)
    wish.check()
    found = compiled.configured(config, baseline)
    documents.check(wanted, [found.path, found.baseline])
    meant = compiled.chosen(found, checks or ())
    notes = Notes(quiet)
    how = How(fresh, timeout, fake)
    order = Order(found, how, tuple(allow or ()), jobs, notes, wish.allow_env, no_time)
    with base_of(wish, order) as compared:
        done = list(run.checked(meant, compared, order))
    command = wish.command(checks or (), found.typed)
    judgement = _gate_judgement.judgement(done, order, command, documents.project_root())
    try:
        documents.write(judgement, wanted, notes, lambda: _write_json(judgement, json))
    finally:
        documents.show(view.report(judgement, quiet), wanted)
    _gate_judgement.say_where_to_look(done, notes)
    return judgement.exit_code


def _write_json(judgement: Judgement, path: Path | None) -> None:
    from perfcli.console import output

    if path is not None:
        output.write_text(documents.rendered("gate_json", judgement), path)
