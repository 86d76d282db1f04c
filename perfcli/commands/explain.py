"""``perfcli explain`` lists the findings of one run."""

from __future__ import annotations

from typing import Annotated

import typer

from perfcli.commands import _arguments as args
from perfcli.console import documents
from perfcli.errors import PerfcliError


def explain(
    run: Annotated[
        str, typer.Argument(metavar="SCENARIO|RUN", help="What to compile, or a stored run.")
    ],
    try_fixes: args.TryFixes = False,
    trust_run: args.TrustRun = False,
    option: args.Options = None,
    python: args.Python = None,
    param: args.Params = None,
    input: args.Inputs = None,
    preset: args.Preset = None,
    target: args.Target = None,
    device: args.Device = None,
    dynamic: args.Dynamic = False,
    vary: args.Vary = None,
    world: args.World = 1,
    jobs: args.Jobs = None,
    calibration: args.Calibration = None,
    timeout: args.Timeout = None,
    fresh: args.Fresh = False,
    json: args.Json = None,
    csv: documents.Csv = None,
    parquet: documents.Parquet = None,
    quiet: args.Quiet = False,
    fake: args.Fake = False,
) -> int:
    """Say what is wrong with the kernels of one run.

    Shows the findings with their evidence, why each one costs time or memory, and what to try;
    perfcli rules CODE says more about a finding.

    Exit code: 0 whatever is found, 2 error, or a run without kernels.
    """
    from dataclasses import replace

    from perfcli import diagnosis
    from perfcli.console import output
    from perfcli.console.notes import Notes
    from perfcli.frames.kernels import FINDINGS
    from perfcli.workflow import fixes
    from perfcli.workflow.context import Context
    from perfcli.workflow.obtain import load_or_compile
    from perfcli.workflow.request import Question, Side

    wanted = documents.check(documents.Wanted(json=json, csv=csv, parquet=parquet))
    question = Question(
        *(run, tuple(param or ()), preset, target, device, dynamic),
        vary=vary,
        world=world,
        inputs=tuple(input or ()),
    )
    args.use_calibration(calibration)
    context = Context(Notes(quiet), fresh, timeout, fake, jobs, trust_run, wanted.places)
    found = load_or_compile(question, Side(tuple(option or ()), python), context)
    run_shown, findings = diagnosis.examine(found.run)
    found = replace(found, run=run_shown)
    if try_fixes:
        findings = fixes.try_fixes(fixes.Patient(found, findings), context)
    proposals = diagnosis.choose_proposals(findings)
    plain = {
        "run": found.run.id,
        "findings": output.plain_findings(findings),
        "worth_doing": [output.plain_proposal(each) for each in proposals],
    }
    try:
        output.write_document("explanation", plain, json)
        documents.write_table(FINDINGS, findings, wanted)
    finally:
        view = output.screen().explanation(
            found.run, findings, found.reference, quiet, try_fixes, proposals
        )
        output.show(view, wanted.stdout)
    if not quiet and not try_fixes:
        output.show_command(
            fixes.propose(["explain", found.reference], found, findings), wanted.stdout
        )
    if not found.run.kernels:
        # The report's first line has said why there is none.
        raise PerfcliError("there is no generated kernel to explain")
    return 0
