"""``perfcli doctor`` checks what is installed, and says what is missing."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from perfcli.commands._arguments import Json
from perfcli.console import documents, output
from perfcli.errors import PerfcliError
from perfcli.frames.table import Column, Table

if TYPE_CHECKING:
    from perfcli.checks import _Check


def doctor(
    python: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="Check this interpreter's torch. [default: this one]"),
    ] = None,
    json: Json = None,
    csv: documents.Csv = None,
    parquet: documents.Parquet = None,
) -> int:
    """Check what is installed, and say what is missing.

    Looks at torch, triton and its tools, the C++ compiler, folders, GPU, disk and memory.

    Exit code: 0, or 2 if something that is needed is missing.
    """
    from perfcli import checks

    wanted = documents.check(documents.Wanted(json=json, csv=csv, parquet=parquet))
    found = list(checks.examine(python, os.environ))
    failed = [check for check in found if check.status == "failed"]
    output.write_document("doctor", {"ok": not failed, "checks": found}, json)
    documents.write_table(CHECKS, found, wanted)
    color = wanted.stream.isatty() and not os.environ.get("NO_COLOR")
    wanted.stream.write(checks.render(found, color=color))
    return PerfcliError.exit_code if failed else 0


CHECKS: Table[_Check] = Table(
    "checks",
    "a check of what is installed, in the order of the report",
    "`doctor`",
    (
        Column("name", "text", "what was looked at", lambda check: check.name),
        Column("status", "text", "ok, warning or failed", lambda check: check.status),
        Column("found", "text", "what was found", lambda check: check.found),
        Column("advice", "text", "what to do about it", lambda check: check.advice or None),
    ),
)
