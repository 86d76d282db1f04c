"""Tells what a process that was forked says: a reply, or how it ended without one."""

from __future__ import annotations

import json
import os
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from perfcli.errors import PerfcliError, WorkerFailed
from perfcli.worker import failures, protocol

Message = Mapping[str, Any]


def try_work(work: Callable[[], Message]) -> Message:
    """Return the reply of a work, or an error where it fails."""
    try:
        return work()
    except PerfcliError as error:
        return protocol.error_message(error)
    except Exception as error:
        traceback.print_exc()
        return protocol.error_message(failures.explain_failure(error))


def read_left(path: Path, status: int) -> Message:
    """Return what a process that ended wrote, or how it ended without."""
    try:
        reply: Message = json.loads(path.read_bytes())
    except (OSError, ValueError):
        killed = os.WIFSIGNALED(status)
        how = (
            f"was killed by {failures.signal_name(os.WTERMSIG(status))}"
            if killed
            else f"ended with exit code {os.waitstatus_to_exitcode(status)} and no reply"
        )
        return protocol.error_message(WorkerFailed(f"the worker {how} while compiling"))
    path.unlink(missing_ok=True)
    return reply
