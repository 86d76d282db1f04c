"""Where a worker was when it was stopped, from the stack that faulthandler wrote into its log."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import takewhile

_THREAD = re.compile(r"Current thread 0x\w+ .*\(most recent call first\):")
_FRAME = re.compile(r'  File "(?P<file>.+)", line (?P<line>\d+) in (?P<function>.+)')
_IMPORTING = "<frozen importlib"


def innermost(log: Sequence[str]) -> str:
    """``it was in …/model.py:7, step``: the innermost frame that is not Python's import machinery;
    empty where the log has no stack."""
    begins = [number for number, line in enumerate(log) if _THREAD.match(line)]
    if not begins:
        return ""
    frames = takewhile(lambda found: found, map(_FRAME.match, log[begins[-1] + 1 :]))
    for frame in frames:
        if frame and not frame["file"].startswith(_IMPORTING):
            return f"it was in {frame['file']}:{frame['line']}, {frame['function']}"
    return ""
