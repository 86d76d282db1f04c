"""Defines the errors that users see: few types, each with its exit code, caught once in
``cli.main``.

A message says what was expected, what came, and what to do, in one line.
"""

from __future__ import annotations

import os
import traceback


class PerfcliError(Exception):
    """Reports a usage or tool error. ``detail`` is printed below the one line: a user's own
    traceback, the tail of a worker's log."""

    exit_code = 2

    def __init__(self, message: str, detail: str = "") -> None:
        super().__init__(message)
        self.detail = detail


class NotComparable(PerfcliError):
    """Two runs, or a run and a baseline, must not be compared; or a baseline is missing."""

    exit_code = 4


class WorkerFailed(PerfcliError):
    """A worker process died, hung, or sent what is not a reply."""


class OutOfMemory(WorkerFailed):
    """A measuring worker's model did not fit into the device's or the machine's memory."""


class WrongResult(PerfcliError):
    """A variant's outputs are not those of its eager reference: nothing is timed."""

    exit_code = 1


class UserCodeFailed(PerfcliError):
    """The user's model or scenario file raised; ``detail`` is the user's part of the traceback."""


class CompileFailed(PerfcliError):
    """Inductor or Triton could not compile a graph or kernel."""


class UnreadableSource(PerfcliError):
    """A kernel's source does not parse, or does not hold the kernel."""


class RuleFailed(PerfcliError):
    """A rule raised an error where it should have looked: a fault of perfcli. All else stands."""


class Interrupted(PerfcliError):
    """The user pressed Ctrl-C; the message says what was finished and kept."""

    exit_code = 130


def describe_unexpected(error: Exception) -> str:
    """Return the one line of an error that is none of these: a fault of perfcli."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f"{os.path.basename(frames[-1].filename)}:{frames[-1].lineno}" if frames else "?"
    return (
        f"internal error: {type(error).__name__}: {error} ({place}); "
        "PERFCLI_DEBUG=1 shows where it comes from"
    )


def wants_tracebacks() -> bool:
    """Return whether PERFCLI_DEBUG asks for where errors come from."""
    return os.environ.get("PERFCLI_DEBUG", "") not in ("", "0")


def show_traceback() -> None:
    """Print the traceback of the error that is being handled, where PERFCLI_DEBUG asks for it."""
    if wants_tracebacks():
        traceback.print_exc()
