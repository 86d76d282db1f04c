"""The findings of one run."""

from __future__ import annotations

from typing import Annotated

import typer

from perfcli.commands import _arguments as args


def explain(
    run: Annotated[
        str, typer.Argument(metavar="SCENARIO|RUN", help="What to compile, or a stored run.")
    ],
    option: args.Options = None,
    python: args.Python = None,
    param: args.Params = None,
    preset: args.Preset = None,
    target: args.Target = None,
    device: args.Device = None,
    dynamic: args.Dynamic = False,
    jobs: args.Jobs = None,
    timeout: args.Timeout = None,
    fresh: args.Fresh = False,
    json: args.Json = None,
    quiet: args.Quiet = False,
    fake: args.Fake = False,
) -> int:
    """Say what is wrong with the kernels of one run, why it costs, and what to try."""
    from perfcli import diagnosis
    from perfcli.commands import _obtain, _output
    from perfcli.commands._progress import Notes
    from perfcli.commands._request import Question, Side

    question = Question(run, tuple(param or ()), preset, target, device, dynamic, jobs)
    notes = Notes(quiet)
    how = _obtain.How(fresh, timeout, fake)
    found = _obtain.stored_or_compiled(question, Side(tuple(option or ()), python), how, notes)
    findings = diagnosis.explain(found.run)
    _output.write_document("explanation", {"findings": findings}, json)
    _output.show(_output.screen().explanation(found.run, findings, found.reference), json)
    return 0
