"""Writes results: a report on stdout, JSON into a file, one line when quiet."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfcli import units
from perfcli.errors import PerfcliError
from perfcli.storing.whole import write_whole

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from perfcli.model import Comparison, Finding, Outcome, Proposal, Screen

# In a pipe nobody tells the width; a log that wraps at 80 is worse than a wide one.
PIPE_COLUMNS = 100
STDOUT = Path("-")

EXIT_CODES: dict[Outcome, int] = {"same": 0, "better": 0, "worse": 1, "unknown": 3}


def screen() -> Screen[RenderableType]:
    """Return what a terminal shows: found by name, as every report is."""
    found: Screen[RenderableType] = import_module("perfcli.reports.terminal").SCREEN
    return found


def show(renderable: RenderableType, json_file: Path | None = None) -> None:
    """Print a report on stdout, or on stderr if JSON takes stdout."""
    from rich.console import Console

    file = sys.stderr if json_file == STDOUT else sys.stdout
    width = None if file.isatty() or os.environ.get("COLUMNS") else PIPE_COLUMNS
    # emoji and markup off: kernel names hold colons and brackets
    console = Console(file=file, width=width, highlight=False, markup=False, emoji=False)
    file.write(_capture(console, renderable))


def show_command(command: str, json_file: Path | None = None) -> None:
    """Print a command in one line, to be pasted; print nothing where there is none."""
    from rich.console import Group
    from rich.text import Text

    if command:
        line = Text(units.printable(command), no_wrap=True, overflow="ignore")
        show(Group(line), json_file)


def show_lines(lines: Iterable[str], json_file: Path | None = None) -> None:
    """Print a report of plain lines, as ``show``; what is to be pasted stays in one line."""
    from rich.console import Group
    from rich.text import Text

    def keep(line: str) -> bool:
        return line.lstrip().startswith(("perfcli ", "torch.", "os.", "from "))

    texts = (Text(line, no_wrap=keep(line), overflow="ignore") for line in lines)
    show(Group(*texts), json_file)


def render(view: RenderableType, columns: int = PIPE_COLUMNS) -> str:
    """Return a report as text without colours, no line longer than it has to be, with a newline at
    its end."""
    import io

    from rich.console import Console

    console = Console(
        file=io.StringIO(), width=columns, highlight=False, markup=False, emoji=False,
        color_system=None, legacy_windows=False,
    )  # fmt: skip
    return _capture(console, view)


def _capture(console: Console, view: RenderableType) -> str:
    with console.capture() as capture:
        console.print(view, crop=False)
    # rich fills lines up with spaces: of no use in a log or a diff
    return "".join(f"{line.rstrip()}\n" for line in capture.get().splitlines())


def print_text(text: str, json_file: Path | None = None) -> None:
    """Print a kernel's text without control characters: a pipe may end on a terminal as well."""
    file = sys.stderr if json_file == STDOUT else sys.stdout
    file.write(units.printable(text))
    file.write("" if text.endswith("\n") else "\n")


def write_comparison(comparison: Comparison, path: Path | None) -> None:
    from perfcli.loading import registry
    from perfcli.model import Report

    if path is not None:
        write_text(registry.load_declared("reports", "json", Report).render(comparison), path)


def plain_findings(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    """Return findings as the JSON of a comparison has them."""
    from perfcli.loading import registry
    from perfcli.model import Report

    plain = registry.load_declared("reports", "json", Report).finding
    return [plain(finding) for finding in findings] if plain else []


def plain_proposal(proposal: Proposal) -> dict[str, Any]:
    """Return a change that is worth making as JSON has it."""
    return {
        "seconds": proposal.seconds,
        "share": proposal.share,
        "options": dict(proposal.options),
        "text": proposal.text,
        "findings": [
            {"code": each.code, "kernels": list(each.kernels)} for each in proposal.findings
        ],
        "proven": proposal.proven,
    }


def write_document(kind: str, fields: Mapping[str, Any], path: Path | None) -> None:
    """Write ``{"perfcli": kind, "format": 1, …`` and the fields: all JSON but that of a comparison.

    Values may be any of the model's types; what JSON does not know is written as ``repr``.
    Raises PerfcliError if the file can't be written.
    """
    if path is None:
        return
    import msgspec

    text = msgspec.json.encode({"perfcli": kind, "format": 1, **fields}, enc_hook=repr)
    write_text(msgspec.json.format(text, indent=1).decode() + "\n", path)


def check_writable(path: Path | None) -> None:
    """Raise PerfcliError if a file can't be written, before anybody waits for its content.

    Nothing is written, and no pipe is opened.
    """
    if path is None or path == STDOUT:
        return
    try:
        if stat.S_ISDIR(path.stat().st_mode):
            raise PerfcliError(f"can't write {path}: it is a folder, a file is expected")
        target = path
    except FileNotFoundError:
        target = path.parent
        if not target.is_dir():
            raise PerfcliError(f"can't write {path}: there is no folder {target}") from None
    except OSError as error:
        raise PerfcliError(f"can't write {path}: {error.strerror or error}") from error
    if not os.access(target, os.W_OK):
        raise PerfcliError(f"can't write {path}: no permission to write {target}")


def write_text(text: str, path: Path) -> None:
    """Write a text to a file, whole or not at all, or to stdout. Raises PerfcliError if the file
    can't be written."""
    if path == STDOUT:
        sys.stdout.write(text)
    else:
        write_bytes(text.encode(), path)


def write_bytes(content: bytes, path: Path) -> None:
    """Write a file, whole or not at all. Raises PerfcliError if it can't be written."""
    try:
        mode = path.stat().st_mode if path.exists() else None
        regular = mode is None or stat.S_ISREG(mode)
        if regular and os.access(path.resolve().parent, os.W_OK):
            allowed = 0o666 & ~_umask() if mode is None else stat.S_IMODE(mode)
            write_whole(path.resolve(), content, allowed)
        else:  # a pipe, a device, or a file in a folder where nothing else may be written
            path.write_bytes(content)
    except OSError as error:
        raise PerfcliError(f"can't write {path}: {error.strerror or error}") from error


def _umask() -> int:
    """Return the mask, which only setting it tells."""
    os.umask(mask := os.umask(0o077))
    return mask
