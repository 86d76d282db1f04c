"""Says in one line what kept a script from being run, and what to do."""

from __future__ import annotations

import traceback
from typing import Any

from perfcli.compile import tracing
from perfcli.compile.capture.captured import Capture
from perfcli.errors import PerfcliError, UserCodeFailed
from perfcli.loading.tracebacks import is_users, users_traceback
from perfcli.model import CompileRequest, ScriptCommand


def explain(
    error: BaseException, request: CompileRequest, capture: Capture, printed: str
) -> list[str]:
    """Return a note where what was compiled until the script ended counts; else raise what its
    failure means to the user.

    Raises PerfcliError.
    """
    script = request.script
    assert script is not None
    if isinstance(error, PerfcliError):
        raise error
    place = _find_place(error)
    if isinstance(error, SystemExit):
        code = error.code
        if capture.graphs:
            said = f" ({code})" if code not in (None, 0) else ""
            return [f"the script ended itself at {place}{said}: what it compiled until then counts"]
        if code in (None, 0):
            return []
        raise UserCodeFailed(f"{_name(script)} ended with {_say_code(code)}, at {place}{printed}")
    told = tracing.attribute_failure(error, capture) if isinstance(error, Exception) else error
    raise UserCodeFailed(
        f"{_name(script)} failed at {place}: {type(error).__name__}: {_first_line(told)}",
        detail=users_traceback(error) + printed,
    ) from error


def _say_code(code: Any) -> str:
    return f"exit code {code}" if isinstance(code, int) else f"exit code 1 ({code})"


def _name(script: ScriptCommand) -> str:
    return f"-m {script.path}" if script.module else script.path


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else ""


def _find_place(error: BaseException) -> str:
    """Return ``file:line`` of the innermost frame of the user's own."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if is_users(f)]
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "its end"


def refuse_nothing_compiled(
    script: ScriptCommand, capture: Capture, calls: Any, printed: str
) -> None:
    """Raise UserCodeFailed, with what could be compiled, where the script compiled nothing."""
    if capture.graphs:
        return
    raise UserCodeFailed(f"{_name(script)} never compiles anything", detail=printed.strip())
