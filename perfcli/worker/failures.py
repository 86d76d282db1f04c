"""Tells a worker's failure. This is the worker's side: standard library alone."""

from __future__ import annotations

import os
import signal
import traceback

from perfcli.errors import PerfcliError, WorkerFailed
from perfcli.loading import tracebacks


def explain_failure(error: Exception) -> PerfcliError:
    """Return the failure as the user's where their code raised, wherever we called it; else as
    ours."""
    if tracebacks.is_users_fault(error):
        return tracebacks.users_failure("the model failed while it ran", error)
    whole = os.environ.get("PERFCLI_DEBUG", "") not in ("", "0")
    detail = traceback.format_exc() if whole else tracebacks.ending(error)
    return WorkerFailed(f"the worker failed: {_first_line(error)}", detail=detail)


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def signal_name(number: int) -> str:
    """Return ``SIGKILL``; ``signal 34`` for those that have no name."""
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"
