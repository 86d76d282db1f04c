"""``perfcli gate`` fails a CI job whose kernels got worse than their limits allow."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from perfcli.commands import _arguments as args
from perfcli.console import documents
from perfcli.model import Judgement


def gate(
    checks: Annotated[
        list[str] | None,
        typer.Argument(metavar="CHECK", help="Run only these checks, with or without @TARGET."),
    ] = None,
    config: args.Config = None,
    baseline: args.Baseline = None,
    allow: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ASPECT", help="Compare even if this differs: torch, triton, target, …"
        ),
    ] = None,
    base_rev: Annotated[
        str | None,
        typer.Option(metavar="REV", help="Compile this git revision here and compare with it."),
    ] = None,
    base_python: Annotated[
        str | None,
        typer.Option(
            metavar="PYTHON", help="Compile with this interpreter's torch and compare with it."
        ),
    ] = None,
    allow_env: args.AllowEnv = None,
    time: args.Time = None,
    no_time: args.NoTime = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Fail what is unsure, with exit code 3.")
    ] = False,
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
    """Fail if kernels got worse than limits allow.

    The checks are configured in perfcli.toml, or in [tool.perfcli] of pyproject.toml. They are
    compared with the committed baseline or, with --base-rev or --base-python, with a base that is
    compiled here; then checks that name a device are measured as well.

    Exit code: 0 pass, 1 a limit is broken, 2 error, 3 can't tell (on-unsure = "fail"), 4 no
    baseline, or one of another torch.
    """
    from perfcli.console.notes import Notes
    from perfcli.gate import compiled, run, view
    from perfcli.gate.bases import Wish, base_of
    from perfcli.gate.judgement import judge_all, say_where_to_look
    from perfcli.gate.request import GateRequest
    from perfcli.workflow.context import Context

    run.check_aspects(allow or ())
    wanted = documents.Wanted(markdown, html, junit, sarif, github, json, csv, parquet)
    clocks = args.choose_clocks(time)
    wish = Wish(baseline, base_rev, base_python, tuple(allow_env or ()), no_time, strict, clocks)
    wish.check()
    found = compiled.configured(config, baseline)
    found = replace(found, on_unsure="fail") if strict else found
    found = replace(found, clocks=clocks) if clocks else found
    documents.check(wanted, [found.path, found.baseline])
    meant = compiled.chosen(found, checks or ())
    if not (wish.pair or found.baseline.exists()):
        compiled.check_questions(found, meant)  # else each check says it, and the others go on
    notes = Notes(quiet)
    args.use_calibration(calibration)
    context = Context(notes, fresh, timeout, fake, jobs)
    order = GateRequest(found, context, tuple(allow or ()), wish.allow_env, no_time)
    with base_of(wish, order) as compare:
        done = list(run.run_checks(meant, compare, order))
    command = wish.command(checks or (), found.typed)
    judgement = judge_all(done, order, command, documents.find_root())
    try:
        table = partial(documents.write_table, view.LIMITS, view.list_limits(judgement), wanted)
        documents.write(judgement, wanted, notes, lambda: _write_json(judgement, json), table)
    finally:
        documents.show(view.report(judgement, quiet), wanted)
    say_where_to_look(done, notes)
    return judgement.exit_code


def _write_json(judgement: Judgement, path: Path | None) -> None:
    from perfcli.console import output

    if path is not None:
        output.write_text(documents.render_document("gate_json", judgement), path)
