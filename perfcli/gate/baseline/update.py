"""``perfcli baseline update``: the checks compiled, what changes said, the file written."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path

from perfcli import units
from perfcli.console import documents, output, table
from perfcli.console.notes import Notes
from perfcli.diagnosis import examine
from perfcli.diff.compare import ASPECTS, compare
from perfcli.errors import PerfcliError
from perfcli.frames.table import Column, Table
from perfcli.gate import compiled, request
from perfcli.gate.baseline import committed, facts
from perfcli.gate.baseline.file import BaselineCheck as Kept
from perfcli.gate.baseline.fit import fit_entry
from perfcli.gate.baseline.reading import BaselineEntry, Made
from perfcli.gate.checks import Check
from perfcli.gate.config import Config
from perfcli.gate.request import NotesOf, today
from perfcli.gate.view import kernels
from perfcli.model import Comparison, Run
from perfcli.workflow.context import Context


@dataclass(frozen=True, slots=True)
class Update:
    config: Config
    reason: str
    context: Context
    today: str = field(default_factory=request.iso)


def run(update: Update, checks: Sequence[Check], some: bool) -> int:
    """Returns the exit code. Every check has to compile before the file is touched. ``some``:
    checks were named; else those that the configuration has no more are dropped. Raises
    PerfcliError, with all others written, for checks of which no kernel is generated."""
    path, context = update.config.baseline, update.context
    output.check_writable(path)
    old = _read_old(update.config, some, context.notes)
    new = dict(old) if some else {}
    revision = _revision(update.config.folder)
    lines: list[str] = []
    empty: list[str] = []
    for check in checks:
        own = replace(context, notes=NotesOf(check.name, context.notes))
        try:
            head = compiled.compile_head(update.config, check, own).run
        except compiled.NoKernels as error:
            empty.append(f"{check.name}: {error}")
            new |= {check.name: old[check.name]} if check.name in old else {}
            continue
        named = replace(head, scenario=check.scenario)
        plain = facts._plain(named, examine(head)[1])
        before = old.get(check.name)
        if before is not None and facts._unchanged(before.plain, plain):
            new[check.name] = before
            lines.append(f"{check.name}: unchanged since {before.made.created}")
            continue
        new[check.name] = Kept(Made(update.today, update.reason, revision), plain)
        lines += _changed(check.name, before, head)
    lines += [f"{name}: dropped, it is not configured any more" for name in old if name not in new]
    text = "".join(f"{units.printable(line)}\n" for line in lines)
    if new != old:
        committed._write(path, new)
        text += f"{path}: {units.plural(len(new), 'check')}, to be reviewed and committed\n"
    elif not empty:
        text += f"{path} is up to date\n"
    sys.stdout.write(text)
    if empty:
        raise PerfcliError("; ".join(empty))
    return 0


def _read_old(config: Config, some: bool, notes: Notes) -> dict[str, Kept]:
    """Return what is in the file; one that can't be read is made anew where all checks are."""
    if not config.baseline.exists():
        return {}
    try:
        return committed.read(config.baseline, config.typed)
    except PerfcliError as error:
        if some:
            raise
        notes.warn(f"{error}; made anew")
        return {}


def _revision(folder: Path) -> str:
    """Return the repository's revision, or an empty string where there is none."""
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), "rev-parse", "--short=12", "HEAD"],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


# --- what changes ----------------------------------------------------------------------------


def _changed(name: str, before: Kept | None, head: Run) -> Iterator[str]:
    if before is None:
        yield f"{name}: new, {units.plural(len(head.kernels), 'kernel')}"
        return
    entry = before.entry()
    comparison = compare(fit_entry(entry, head)[0], head, ASPECTS)
    yield f"{name}: {comparison.outcome} than on {before.made.created}: {comparison.reason}"
    yield from (f"  {line}" for line in comparison.differences)
    yield from (f"  {line}" for line in _totals(comparison))
    yield from (f"  {line}" for line in kernels(comparison))


def _totals(comparison: Comparison) -> Iterator[str]:
    for change in comparison.totals:
        if change.base != change.head:
            write = units.writer(change.metric)
            share = units.relative(change.base, change.head)
            text = f"{units.title(change.metric)} {write(change.base)} → {write(change.head)}"
            yield f"{text} ({share})" if share else text


_HEADERS = ("check", "of", "age", "kernels", "torch", "triton", "revision", "reason")


def show(config: Config, checks: Sequence[Check], wanted: documents.Wanted) -> None:
    """Show a row for each check that is configured, and for what the file has besides."""
    file = committed.read(config.baseline, config.typed)
    names = [check.name for check in checks]
    if len(checks) == len(config.checks):
        names += [name for name in file if name not in names]
    configured = {check.name for check in config.checks}
    rows = [_row(name, file.get(name), name in configured) for name in names]
    entries = [(name, kept.entry() if (kept := file.get(name)) else None) for name in names]
    documents.write_table(BASELINE, entries, wanted)
    if wanted.stdout:
        return
    table.show(_HEADERS, [[units.printable(cell) for cell in row] for row in rows])


def _row(name: str, kept: Kept | None, configured: bool) -> list[str]:
    if kept is None:
        return [name, units.NOT_KNOWN, *[""] * 5, "not in the baseline"]
    entry = kept.entry()
    days = (today() - date.fromisoformat(entry.made.created)).days
    environment = entry.run.environment
    return [
        name,
        entry.made.created,
        units.plural(days, "day"),
        units.count(len(entry.run.kernels)),
        environment.torch,
        environment.triton or units.NOT_KNOWN,
        entry.made.revision or units.NOT_KNOWN,
        entry.made.reason if configured else f"{entry.made.reason} (not configured any more)",
    ]


BASELINE: Table[tuple[str, BaselineEntry | None]] = Table(
    "baseline",
    "a check, of which the baseline may have nothing",
    "`baseline show`",
    (
        Column("check", "text", "its name", lambda row: row[0]),
        Column("created", "text", "the date", lambda row: row[1] and row[1].made.created),
        Column(
            *("kernels", "count", "kernels that it has"),
            lambda row: row[1] and len(row[1].run.kernels),
        ),
        Column("torch", "text", "torch", lambda row: row[1] and row[1].run.environment.torch),
        Column("triton", "text", "triton", lambda row: row[1] and row[1].run.environment.triton),
        Column("revision", "text", "the commit", lambda row: row[1] and row[1].made.revision),
        Column("reason", "text", "why it was renewed", lambda row: row[1] and row[1].made.reason),
    ),
)
