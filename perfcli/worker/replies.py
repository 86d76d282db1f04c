"""Tells what a process that was forked says: a reply, or how it ended without one."""

from __future__ import annotations

import json
import os
import signal
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from perfcli.errors import PerfcliError, WorkerFailed, wants_tracebacks
from perfcli.loading import tracebacks
from perfcli.worker import protocol


def explain_failure(error: Exception) -> PerfcliError:
    """Return the failure as the user's where their code raised, wherever we called it; else as
    ours."""
    if tracebacks.is_users_fault(error):
        return tracebacks.users_failure("the model failed while it ran", error)
    detail = traceback.format_exc() if wants_tracebacks() else tracebacks.ending(error)
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


Message = Mapping[str, Any]


def try_work(work: Callable[[], Message]) -> Message:
    """Return the reply of a work, or an error where it fails."""
    try:
        return work()
    except PerfcliError as error:
        return protocol.error_message(error)
    except Exception as error:
        traceback.print_exc()
        return protocol.error_message(explain_failure(error))


def read_left(path: Path, status: int) -> Message:
    """Return what a process that ended wrote, or how it ended without."""
    try:
        reply: Message = json.loads(path.read_bytes())
    except (OSError, ValueError):
        killed = os.WIFSIGNALED(status)
        how = (
            f"was killed by {signal_name(os.WTERMSIG(status))}"
            if killed
            else f"ended with exit code {os.waitstatus_to_exitcode(status)} and no reply"
        )
        return protocol.error_message(WorkerFailed(f"the worker {how} while compiling"))
    path.unlink(missing_ok=True)
    return reply
