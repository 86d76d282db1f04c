"""A user's error told as theirs: one line, and their part of the traceback."""

from __future__ import annotations

import sys
import traceback
from pathlib import Path

from perfcli.errors import PerfcliError, UserCodeFailed


def failed(what: str, error: BaseException) -> UserCodeFailed:
    """``what`` and the error's first line; ``detail`` is the user's part of the traceback."""
    lines = str(error).strip().splitlines()
    reason = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
    return UserCodeFailed(f"{what}: {reason}", detail=users_traceback(error))


def users_traceback(error: BaseException) -> str:
    """The traceback, and those of its causes, without frames of perfcli, torch and importlib."""
    told = traceback.TracebackException.from_exception(error)
    _keep_users_part(told, error)
    return "".join(told.format()).rstrip()


def _keep_users_part(told: traceback.TracebackException, error: BaseException) -> None:
    told.stack = traceback.StackSummary.from_list([f for f in told.stack if is_users(f)])
    for chained in ("__cause__", "__context__"):
        earlier, part = getattr(error, chained), getattr(told, chained)
        if part is None:
            continue
        if earlier is None or isinstance(earlier, PerfcliError):
            # What we were doing when it happened is none of the user's business.
            setattr(told, chained, None)
        else:
            _keep_users_part(part, earlier)


def is_users(frame: traceback.FrameSummary) -> bool:
    """Whether a frame is neither perfcli's nor torch's nor the import machinery's."""
    if frame.filename.startswith("<frozen importlib"):
        return False
    return not any(frame.filename.startswith(f"{root}/") for root in _others_code())


def _others_code() -> list[Path]:
    torch = sys.modules.get("torch")
    roots = [Path(__file__).parent]
    if torch is not None and torch.__file__:
        roots.append(Path(torch.__file__).parent)
    return roots
