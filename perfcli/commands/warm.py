"""``perfcli warm`` keeps torch imported between the commands of one folder."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from perfcli.commands import _arguments as args
from perfcli.console import documents
from perfcli.errors import PerfcliError
from perfcli.frames.table import Column, Table
from perfcli.model import Device

if TYPE_CHECKING:
    from perfcli.console.notes import Notes
    from perfcli.worker.keepers import KeptWorker
    from perfcli.worker.starting import Use


def warm(
    what: Annotated[str, typer.Argument(metavar="start|status|stop", help="What to do.")] = "start",
    python: args.Python = None,
    device: args.Device = None,
    idle: Annotated[
        float, typer.Option(metavar="MINUTES", min=0.1, help="End after this time without use.")
    ] = 15.0,
    timeout: args.Timeout = None,
    csv: documents.Csv = None,
    parquet: documents.Parquet = None,
    quiet: args.Quiet = False,
) -> int:
    """Keep torch imported for the next commands of this folder.

    Starts a process that has torch imported; each variant that a command of this folder compiles
    is then compiled in a fork of it. A second one does the same for measuring, if the device is
    here. Your own files are imported anew each time. Both end when they were not used for a while,
    when the folder is deleted, and with perfcli warm stop. Variants with environment variables of
    their own get fresh processes as ever. PERFCLI_WARM=0 makes a command ignore both.
    """
    from perfcli import units
    from perfcli.console import table
    from perfcli.console.notes import Notes
    from perfcli.worker import keepers

    notes = Notes(quiet)
    wanted = documents.check(documents.Wanted(csv=csv, parquet=parquet))
    if wanted.named and what != "status":
        raise PerfcliError(f"warm {what} prints no table: leave out --csv and --parquet")
    if device not in (None, "cuda", "cpu"):
        raise PerfcliError(f"--device is cuda or cpu, not {device!r}")
    if what == "start":
        _start(notes, python, "cpu" if device == "cpu" else "cuda", idle, timeout)
        return 0
    kept = list(keepers.list_keepers())
    if what == "status":
        documents.write_table(PROCESSES, kept, wanted)
        if wanted.stdout:
            return 0
        if not kept:
            notes.say("no process is kept warm: perfcli warm starts one")
            return 0
        table.show(
            ("PROCESS", "MEMORY", "UNUSED", "DEVICE", "USE", "INTERPRETER", "FOLDER"),
            [
                (
                    str(each.pid),
                    units.size(each.memory_bytes),
                    "in use" if each.running else f"{each.idle_seconds / 60:.0f} min",
                    *(each.device, each.use, each.python, each.folder),
                )
                for each in kept
            ],
        )
        return 0
    if what != "stop":
        raise PerfcliError(f"perfcli warm takes start, status or stop, not {what!r}")
    here = [each for each in kept if os.path.realpath(each.folder) == os.path.realpath(os.getcwd())]
    for each in here:
        keepers.stop_keeper(each.place)
        until = ", once what it forked has ended" if each.running else ""
        notes.say(
            f"stopped: process {each.pid} ({each.device}, to {each.use}, {each.python}){until}"
        )
    if not here:
        notes.say("no process is kept warm for this folder")
    return 0


def _start(
    notes: Notes, python: str | None, device: Device, idle: float, timeout: float | None
) -> None:
    """Start what compiles and, where the device is here, what measures."""
    from perfcli.machine import environment, targets
    from perfcli.model import Variant
    from perfcli.worker import keepers
    from perfcli.workflow.request import build_request

    found = environment.probe(python, needs_triton=device != "cpu")
    variant = Variant("", python=found.path if python else None)
    request = build_request("", variant, device=device)
    measures = device == "cpu" or (found.cuda is not None and targets.has_gpu())
    uses: tuple[Use, ...] = ("compile", "measure") if measures else ("compile",)
    threads = 1 if device == "cpu" else None  # what is measured with unless --threads is given
    for use in uses:
        pid = keepers.start_keeper(request, idle * 60, timeout, use, threads)
        notes.say(
            f"warm: process {pid} keeps torch {found.torch} imported for {os.getcwd()} ({device}, "
            f"to {use}), until nobody uses it for {idle:g} min; perfcli warm stop ends it"
        )


PROCESSES: Table[KeptWorker] = Table(
    "processes",
    "a process that is kept warm",
    "`warm status`",
    (
        Column("process", "count", "its id", lambda row: row.pid),
        Column("memory", "count", "memory that it holds", lambda row: row.memory_bytes, "B"),
        Column("unused", "number", "time since it was last asked", lambda r: r.idle_seconds, "s"),
        Column("running", "count", "workers that it forked", lambda row: row.running),
        Column("device", "text", "cuda or cpu", lambda row: row.device),
        Column("use", "text", "what its workers do: compile or measure", lambda row: row.use),
        Column("python", "text", "its interpreter", lambda row: row.python),
        Column("folder", "text", "the folder that it serves", lambda row: row.folder),
    ),
)
