"""Tells a user's error as theirs: one line, and their part of the traceback."""

from __future__ import annotations

import functools
import os
import re
import sys
import sysconfig
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path

from perfcli.errors import PerfcliError, UserCodeFailed, wants_tracebacks

LAST_FRAMES = 2
"""The number of last frames shown of an error in which no frame is the user's."""
_MADE = ("<frozen ", "<eval_with_key>")
"""How the names of files begin that nobody wrote: Python's own modules, FX's generated code."""
_REGISTRATIONS = re.compile(r"^\w+: (?:fallthrough )?registered at .*\]$\n?", re.MULTILINE)
"""What torch appends to the message of an operator that lacks a kernel: 60 lines, one for each
part of its dispatcher."""
_OF_OTHERS = re.compile(
    r" (?:Including non-PyTorch memory|Process \d+ has|Of the allocated).*", re.S
)
"""What torch's error of memory tells after how much was asked for and how much there is: who has
the rest, and advice about its allocator (seen with torch 2.11)."""


def users_failure(what: str, error: BaseException, printed: str = "") -> UserCodeFailed:
    """Return the failure with ``what`` and the error's first line; ``detail`` is the user's part of
    the traceback, and what was printed."""
    lines = _OF_OTHERS.sub("", str(error).strip()).splitlines()
    reason = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
    return UserCodeFailed(f"{what}: {reason}", detail=users_traceback(error) + printed)


def is_users_fault(error: BaseException) -> bool:
    """Return whether the user's code was running, and nothing of perfcli below it."""
    inwards = traceback.extract_tb(error.__traceback__)
    ours = str(Path(__file__).parents[1])
    last = next((f for f in reversed(inwards) if is_users(f) or _is_below(f, ours)), None)
    return last is not None and is_users(last)


def show(error: BaseException) -> str:
    """Return ``users_traceback``, or where no frame is the user's, the last frames and the
    message."""
    part = _users_part(error)
    if any(told.stack for told in _chain(part)):
        return _write(part)
    return ending(error)


def ending(error: BaseException) -> str:
    """Return the last frames, whosever they are, and the message."""
    return "".join(traceback.format_exception(error, limit=-LAST_FRAMES, chain=False)).rstrip()


def users_traceback(error: BaseException) -> str:
    """Return the traceback, and those of its causes, with the user's frames alone (see
    ``is_users``) and without what Dynamo says to all errors alike."""
    return _write(_users_part(error))


def _write(part: traceback.TracebackException) -> str:
    text = _REGISTRATIONS.sub("", "".join(part.format())).rstrip()
    return text if wants_tracebacks() else "\n".join(_leave_out_advice(text.splitlines()))


def _leave_out_advice(lines: Sequence[str]) -> Iterator[str]:
    """Yield the lines without Dynamo's explanation and hints, which the error's own line has said
    already, as far as the user's code below them (torch 2.8 and later)."""
    inside = False
    for line in lines:
        begins = line.startswith(("  Explanation: ", "  Hint: ", "  Developer debug context:"))
        ends = line.startswith("Set TORCHDYNAMO_VERBOSE=1 ")
        continues = not line.strip() or line.startswith(" ")
        inside = begins or ends or (inside and continues)
        if not inside:
            yield line


def _users_part(error: BaseException) -> traceback.TracebackException:
    told = traceback.TracebackException.from_exception(error)
    _keep_users_part(told, error)
    return told


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


def _chain(told: traceback.TracebackException) -> Iterator[traceback.TracebackException]:
    yield told
    for earlier in (told.__cause__, told.__context__):
        if earlier is not None:
            yield from _chain(earlier)


def is_users(frame: traceback.FrameSummary) -> bool:
    """Return whether a frame is neither perfcli's, torch's (with what comes with it) nor Python's,
    nor of code that was generated."""
    if frame.filename.startswith(_MADE):
        return False
    others = [*_others_code(), str(Path(__file__).parents[1])]
    return not any(_is_below(frame, root) for root in others) and not _is_pythons(frame)


def _is_pythons(frame: traceback.FrameSummary) -> bool:
    """Return whether a frame is Python's. Packages that are installed below the standard library's
    folder are not."""
    packages = ("/site-packages/", "/dist-packages/")
    installed = any(part in frame.filename for part in packages)
    return _is_below(frame, _standard_library()) and not installed


def _is_below(frame: traceback.FrameSummary, root: str) -> bool:
    return frame.filename.startswith(f"{root}/")


@functools.cache
def _standard_library() -> str:
    return sysconfig.get_path("stdlib")


def _others_code() -> list[str]:
    modules = [sys.modules.get(name) for name in ("torch", "triton", "sympy")]
    roots = [str(Path(m.__file__).parent) for m in modules if m is not None and m.__file__]
    generated = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    return [*roots, generated] if generated else roots
