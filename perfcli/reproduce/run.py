"""Carries out the claims that are asked for, one after the other, and writes what came of them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from perfcli import units
from perfcli.cluster.connection import connect
from perfcli.console import documents, output, table
from perfcli.console.documents import Wanted
from perfcli.errors import Interrupted, PerfcliError, describe_unexpected, show_traceback
from perfcli.names import public, suggestion
from perfcli.reproduce import view
from perfcli.reproduce.claim import Claim, Launches
from perfcli.reproduce.claims import list_claims
from perfcli.reproduce.experiment import Conditions, carry_out
from perfcli.reproduce.launches import carry_out_launches
from perfcli.reproduce.observation import Observation
from perfcli.reproduce.result import CLAIMS, ClaimResult
from perfcli.reproduce.verdict import judge
from perfcli.workflow.context import Context
from perfcli.workflow.request import Question, choose_device
from perfcli.workflow.setting import MeasuringOptions, settle

UNANSWERED = 3


def reproduce(
    names: Sequence[str], how: Conditions, context: Context, wanted: Wanted, quiet: bool
) -> int:
    """Return the exit code: 0 where all claims have a verdict, 3 where some need a GPU, 2 where an
    error kept one from being carried out. Raises PerfcliError for names and files that can't be,
    before anything is compiled, and Interrupted; what was finished by then is shown and wanted."""
    documents.check(wanted)
    chosen = choose_claims(names)
    asked = MeasuringOptions(how.budget, no_time=not how.times)
    choose_device(how.device, how.target)
    context.choose_probe(how.device)(how.python)
    settle(Question("", target=how.target, device=how.device), asked, context)
    if context.cluster is not None:
        connect(context.cluster)
    results: list[ClaimResult] = []
    try:
        for result in _carry_all(chosen, how, context):
            results.append(result)
            if not quiet:
                view.show_result(result, wanted.stdout)
            _write(results, how, wanted)
    except (KeyboardInterrupt, Interrupted) as error:
        _finish(results, how, wanted)
        left = len(chosen) - len(results)
        raise Interrupted(
            f"interrupted; {units.plural(len(results), 'claim')} finished, {left} left: the same "
            "command goes on with what is stored"
        ) from error
    _finish(results, how, wanted)
    if any(result.found.broken for result in results):
        return PerfcliError.exit_code
    return 0 if all(result.is_answered for result in results) else UNANSWERED


def choose_claims(names: Sequence[str]) -> list[Claim]:
    """Return the claims of these names, and those whose names begin with one; all where none is
    given. Raises PerfcliError for a name that is neither."""
    known = list_claims()
    if not names:
        return list(known)
    chosen: dict[str, Claim] = {}
    for name in map(public, names):
        found = [c for c in known if c.name == name] or [
            c for c in known if c.name.startswith(name)
        ]
        if not found:
            near = suggestion(name, (claim.name for claim in known))
            raise PerfcliError(f"no claim {name!r}: {near}; perfcli reproduce --list has all")
        chosen |= {claim.name: claim for claim in found}
    return [claim for claim in known if claim.name in chosen]


def show_claims(names: Sequence[str], wanted: Wanted) -> int:
    """List the claims and carry none out."""
    documents.check(wanted)
    documents.write_table(CLAIMS, [(claim, None) for claim in choose_claims(names)], wanted)
    if wanted.stdout:
        return 0
    table.show(("claim", "says"), view.list_names(choose_claims(names)), stack_last=True)
    return 0


def _carry_all(claims: Sequence[Claim], how: Conditions, context: Context) -> Iterator[ClaimResult]:
    """Yield a result for each claim; what one of them raises is its own."""
    for number, claim in enumerate(claims, 1):
        context.notes.say(f"{claim.name} ({number} of {len(claims)})")
        began = time.monotonic()
        try:
            found = _carry_one(claim, how, context)
        except Interrupted:
            raise
        except PerfcliError as error:
            show_traceback()
            found = Observation(smoke=how.smoke, failure=str(error), broken=True)
        except Exception as error:
            show_traceback()
            found = Observation(smoke=how.smoke, failure=describe_unexpected(error), broken=True)
        yield ClaimResult(claim, found, judge(claim, found), time.monotonic() - began)


def _carry_one(claim: Claim, how: Conditions, context: Context) -> Observation:
    if isinstance(claim.shown_by, Launches):
        return carry_out_launches(claim, claim.shown_by, how, context)
    return carry_out(claim, claim.shown_by, how, context)


def _write(results: Sequence[ClaimResult], how: Conditions, wanted: Wanted) -> None:
    """Write the files after each claim, so that what was finished stays whatever ends the process;
    what goes to stdout is for the end."""
    for_stdout = output.STDOUT
    if wanted.json not in (None, for_stdout):
        view.write_json(results, asdict(how), wanted.json)
    if wanted.markdown not in (None, for_stdout):
        _write_markdown(results, wanted.markdown)


def _write_markdown(results: Sequence[ClaimResult], path: Path | None) -> None:
    if path is not None:
        output.write_text(view.write_markdown(results), path)


def _finish(results: Sequence[ClaimResult], how: Conditions, wanted: Wanted) -> None:
    with suppress(ValueError):
        view.write_json(results, asdict(how), wanted.json)
        _write_markdown(results, wanted.markdown)
        documents.write_table(CLAIMS, [(each.claim, each) for each in results], wanted)
    if results:
        from rich.text import Text

        output.show(Text(view.write_summary(results)), wanted.stdout)
