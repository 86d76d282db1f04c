"""``perfcli doctor`` checks what is installed, and says what is missing."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from perfcli.commands._arguments import Json
from perfcli.console import output
from perfcli.errors import PerfcliError


def doctor(
    python: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="Check this interpreter's torch. [default: this one]"),
    ] = None,
    json: Json = None,
) -> int:
    """Check what is installed, and say what is missing.

    Looks at torch, triton and its tools, the C++ compiler, folders, GPU, disk and memory.

    Exit code: 0, or 2 if something that is needed is missing.
    """
    from perfcli import checks

    found = list(checks.examine(python, os.environ))
    failed = [check for check in found if check.status == "failed"]
    output.write_document("doctor", {"ok": not failed, "checks": found}, json)
    if str(json) != "-":
        color = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        sys.stdout.write(checks.render(found, color=color))
    return PerfcliError.exit_code if failed else 0
