"""Writes what a step of GitHub Actions shows: its summary, and annotations."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from perfcli.console import output
from perfcli.errors import PerfcliError

SUMMARY = "GITHUB_STEP_SUMMARY"
# GitHub refuses the whole summary of a step beyond this.
MOST_SUMMARY_BYTES = 1024 * 1024


def check() -> None:
    """Raise PerfcliError if there is a step summary that can't be written."""
    if summary := os.environ.get(SUMMARY):
        output.check_writable(Path(summary))


def write_summary(texts: Iterator[str]) -> str:
    """Append the first text that fits to the step's summary; the longest comes first.

    GitHub drops the whole summary of a step that is too long. Returns a warning, or an empty
    string if all is well. Raises PerfcliError if the summary can't be written.
    """
    given = os.environ.get(SUMMARY)
    if not given:
        return f"--github: {SUMMARY} is not set, so there is no step summary to write"
    path = Path(given)
    try:
        left = MOST_SUMMARY_BYTES - (path.stat().st_size if path.exists() else 0)
        for text in texts:
            encoded = text.encode()
            if len(encoded) <= left:
                with path.open("ab") as file:
                    file.write(encoded)
                return ""
    except OSError as error:
        raise PerfcliError(f"can't write {path}: {error.strerror or error}") from error
    return "--github: the step summary is full, nothing was added to it"


@contextmanager
def quote_commands(stream: TextIO) -> Iterator[None]:
    """Keep GitHub from reading what is printed inside as workflow commands: a kernel's name may
    look like one."""
    word = secrets.token_hex(16)
    stream.write(f"::stop-commands::{word}\n")
    try:
        yield
    finally:
        stream.write(f"::{word}::\n")
