"""Errors in the words of Python: the commands name what they take as options."""

from __future__ import annotations

import contextlib
import difflib
import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from perfcli.errors import PerfcliError

_ALLOW = re.compile(r"--allow (\w+)(?: --allow (\w+))*")
_VALUES = re.compile(r"--(target|device) (h100|cpu|cuda)\b")
_NAMES = re.compile(r"--(target|device|dynamic|preset|timeout|jobs)\b")


@contextlib.contextmanager
def in_python() -> Iterator[None]:
    """Let what is raised inside say ``allow=("target",)`` instead of ``--allow target``."""
    try:
        yield
    except PerfcliError as error:
        error.args = (_said_in_python(str(error)), *error.args[1:])
        raise


def _said_in_python(text: str) -> str:
    text = _ALLOW.sub(lambda found: f"allow={tuple(found[0].split()[1::2])!r}", text)
    text = _VALUES.sub(r'\1="\2"', text)
    return _NAMES.sub(r"\1", text)


def check_names(
    called: str, function: Callable[..., Any], options: type, given: Mapping[str, object]
) -> None:
    """Raise TypeError for an argument that a function does not have, with the nearest. ``options``
    is the TypedDict of those that it takes by name alone."""
    __tracebackhide__ = True  # of pytest: the caller's line is what is wrong
    known = [
        n for n, p in inspect.signature(function).parameters.items() if p.kind != p.VAR_KEYWORD
    ]
    known += options.__annotations__
    name = next((each for each in given if each not in known), None)
    if name is None:
        return
    near = difflib.get_close_matches(name, known, 1, 0.6)
    hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known)}"
    raise TypeError(f"{called}() has no argument {name!r}: {hint}")
