"""``perfcli inspect-kernel`` shows one kernel of a run in detail."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from perfcli.commands import _arguments as args
from perfcli.console import documents
from perfcli.errors import PerfcliError

if TYPE_CHECKING:
    from perfcli.console.notes import Notes
    from perfcli.model import BlobId, Candidate, KernelFacts
    from perfcli.workflow.obtain import Obtained

_FORM = "Print only this form of its code."


def inspect_kernel(
    run: Annotated[
        str, typer.Argument(metavar="SCENARIO|RUN", help="What to compile, or a stored run.")
    ],
    kernel: Annotated[
        str | None,
        typer.Argument(metavar="KERNEL", help="A number, a name, part of a name, or a pattern."),
    ] = None,
    source: Annotated[bool, typer.Option("--source", help=_FORM)] = False,
    ttgir: Annotated[bool, typer.Option("--ttgir", help=_FORM)] = False,
    ptx: Annotated[bool, typer.Option("--ptx", help=_FORM)] = False,
    sass: Annotated[bool, typer.Option("--sass", help=_FORM)] = False,
    candidate: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            help="Show this launch configuration. [default: the expected winner]",
        ),
    ] = None,
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
    jobs: args.Jobs = None,
    timeout: args.Timeout = None,
    fresh: args.Fresh = False,
    json: args.Json = None,
    csv: documents.Csv = None,
    parquet: documents.Parquet = None,
    quiet: args.Quiet = False,
    fake: args.Fake = False,
) -> int:
    """Show one kernel: loads, stores, spills and source.

    Shows what the kernel loads, stores and spills, which lines of the model it comes from, its
    launch configurations, and its source beside the memory instructions of each line. Without
    KERNEL, lists the kernels and their numbers. The estimated time ends with what it is made of:
    DRAM, L2 and L1 are bandwidths, "issue" the schedulers' instruction slots, "latency" waiting
    (docs/inspect-kernel.md has all).
    """
    from dataclasses import replace

    from perfcli import diagnosis, units
    from perfcli.console import output
    from perfcli.console.notes import Notes
    from perfcli.frames.kernels import KERNELS, LINES, list_kernels, list_lines
    from perfcli.predict.step import estimate_run
    from perfcli.workflow import fixes
    from perfcli.workflow.context import Context
    from perfcli.workflow.obtain import load_or_compile
    from perfcli.workflow.request import Question, Side

    typed = {"source": source, "ttgir": ttgir, "ptx": ptx, "sass": sass}
    forms = [name for name, on in typed.items() if on]
    if len(forms) > 1:
        raise PerfcliError(f"one text at a time: --{forms[0]} or --{forms[1]}")
    if forms and (csv or parquet):
        raise PerfcliError(f"--{forms[0]} prints a text: --csv and --parquet need it left out")
    if try_fixes and (kernel is None or forms):
        raise PerfcliError(
            "--try-fixes goes with the report of one KERNEL: perfcli explain tries all of a run's"
        )
    wanted = documents.check(documents.Wanted(json=json, csv=csv, parquet=parquet))
    question = Question(
        *(run, tuple(param or ()), preset, target, device, dynamic), inputs=tuple(input or ())
    )
    side = Side(tuple(option or ()), python)
    context = Context(Notes(quiet), fresh, timeout, fake, jobs, trust_run, wanted.places)
    found = load_or_compile(question, side, context)
    found = replace(found, run=estimate_run(found.run))
    if kernel is None:
        try:
            output.write_document("kernels", {"kernels": found.run.kernels}, json)
            documents.write_table(KERNELS, list_kernels(found.run), wanted)
        finally:
            output.show(output.screen().listing(found.run), wanted.stdout)
        return 0
    number = _choose(found.run.kernels, kernel)
    facts = found.run.kernels[number]
    if candidate is not None and candidate >= len(facts.candidates):
        has = units.plural(len(facts.candidates), "candidate")
        raise PerfcliError(f"{facts.name} has {has}, numbered from 0")
    if forms:
        try:
            output.write_document("kernel", {"kernel": facts}, json)
        finally:
            output.print_text(found.text(_blob(facts, forms[0], candidate)), wanted.stdout)
        return 0
    text = _source(found, facts, context.notes)
    view = output.screen().kernel(number, facts, text, candidate, found.run.selections)
    output.show(view, wanted.stdout)
    everything = diagnosis.explain(found.run)  # what a rule of ours gets wrong comes after the view
    if try_fixes:
        patient = fixes.Patient(found, everything)
        everything = fixes.try_fixes(patient, context, lambda f: number in f.kernels)
    findings = [finding for finding in everything if number in finding.kernels]
    plain = {"kernel": facts, "findings": output.plain_findings(findings)}
    try:
        output.write_document("kernel", plain, json)
        documents.write_table(LINES, list_lines(facts, text or "", candidate), wanted)
    finally:
        if findings or try_fixes:
            output.show(
                output.screen().kernel_findings(found.run, findings, try_fixes), wanted.stdout
            )
    if not quiet and not try_fixes:
        command = ["inspect-kernel", found.reference, str(number)]
        output.show_command(fixes.propose(command, found, findings), wanted.stdout)
    return 0


def _choose(kernels: Sequence[KernelFacts], wanted: str) -> int:
    """Return the number of the kernel that a number, name, part of a name or pattern means. Raises
    PerfcliError if there is none, or more than one."""
    if wanted.isdecimal():
        if int(wanted) < len(kernels):
            return int(wanted)
        raise PerfcliError(f"no kernel {wanted}: the run has {len(kernels)}, numbered from 0")
    names = [kernel.name for kernel in kernels]
    found = [number for number, name in enumerate(names) if name == wanted]
    found = found or [n for n, name in enumerate(names) if wanted.lower() in name.lower()]
    found = found or [n for n, name in enumerate(names) if fnmatch.fnmatchcase(name, wanted)]
    if len(found) == 1:
        return found[0]
    if not found:
        from perfcli.names import suggestion

        raise PerfcliError(f"no kernel {wanted!r}: {suggestion(wanted, set(names))}")
    listed = [f"{n:>5}  {kernels[n].graph:<12} {names[n]}" for n in found]
    raise PerfcliError(
        f"{len(found)} kernels match {wanted!r}: give a number", detail="\n".join(listed)
    )


def _blob(facts: KernelFacts, form: str, candidate: int | None) -> BlobId:
    if not facts.source:
        raise PerfcliError(f"{facts.name} has no {form}: it was imported from a trace alone")
    if form == "source":
        return facts.source
    chosen: Candidate | None = facts.shown if candidate is None else facts.candidates[candidate]
    blob: BlobId | None = getattr(chosen, form) if chosen else None
    if blob is None:
        why = f": {chosen.error}" if chosen and chosen.error else ""
        raise PerfcliError(f"{facts.name} has no {form}{why}")
    return blob


def _source(found: Obtained, facts: KernelFacts, notes: Notes) -> str | None:
    if not facts.source:  # imported from a trace alone, as its notes say
        return None
    try:
        return found.text(facts.source)
    except PerfcliError as error:
        notes.warn(f"the source is not shown: {error}")
        return None
