"""Notes which variables of the environment a user's code asks for by name: a run is no longer up to
date when one of them changes.

What compiled code asks for is asked while Dynamo traces it. Seen with Python 3.10 to 3.14: every
way to ask for one, ``os.getenv``, ``environ.get``, ``in``, ends in ``os._Environ.__getitem__``.
"""

from __future__ import annotations

import functools
import os
import sys
import sysconfig
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from perfcli.machine.environment import hash_value, relevant_variables

_OURS = ("perfcli", "torch", "triton")
_PASSING_ON = {os.getenv.__code__.co_filename, Mapping.get.__code__.co_filename, __file__}
"""Files whose code asks for somebody else."""
_DIFFERENT_HERE = ("CUDA_VISIBLE_DEVICES", "PYTHONHASHSEED", "PYTHONPATH", "TMPDIR")
"""What a worker has of its own, with all that begins like perfcli."""


class AskedVariables:
    """Notes them from the time it is made, in a process that does nothing else."""

    def __init__(self) -> None:
        import torch

        self._found: dict[str, str | None] = {}
        """The SHA-256 of each value as it was found; None for what the code itself set."""
        self._listed: deque[str] = deque()
        """Names that came of going through all, and whose values were not asked for since."""
        kind: Any = type(os.environ)
        is_compiling = torch.compiler.is_compiling
        kind.__getitem__ = self._follow_reads(kind.__getitem__, is_compiling)
        kind.__iter__ = self._follow_listing(kind.__iter__, is_compiling)
        for method in ("__setitem__", "__delitem__"):
            setattr(kind, method, self._follow_changes(getattr(kind, method), is_compiling))

    def _follow_reads(self, read: Any, is_compiling: Callable[[], bool]) -> Any:
        import torch._dynamo

        @torch._dynamo.assume_constant_result  # type: ignore[untyped-decorator]
        def note(name: str) -> bool:
            # Dynamo calls this, or while it compiles, Python: of whatever torch asks for.
            if sys._getframe(1).f_code.co_filename == __file__:
                self._hear(os.environ, name)
            else:
                self._note(name)
            return True

        def follow(environ: Any, name: str) -> Any:
            if is_compiling():
                note(name)
            else:
                self._hear(environ, name)
            return read(environ, name)

        return follow

    def _follow_changes(self, change: Any, is_compiling: Callable[[], bool]) -> Any:
        def follow(environ: Any, name: str, *value: str) -> None:
            if not is_compiling():
                self._found.setdefault(name, None)
            change(environ, name, *value)

        return follow

    def _follow_listing(self, list_all: Any, is_compiling: Callable[[], bool]) -> Any:
        def follow(environ: Any) -> Iterator[str]:
            names = list_all(environ)
            return names if is_compiling() else self._list(names)

        return follow

    def list_variables(self) -> dict[str, str]:
        """Return name and SHA-256 of the value of each, empty where it was not set."""
        return {name: sha for name, sha in sorted(self._found.items()) if sha is not None}

    def _list(self, names: Iterator[str]) -> Iterator[str]:
        self._listed.clear()
        for name in names:
            self._listed.append(name)
            yield name

    def _hear(self, environ: Any, name: Any) -> None:
        if self._listed and self._listed.popleft() == name:
            return  # a copy of all of them
        self._listed.clear()
        if environ is os.environ and isinstance(name, str) and _asks_user():
            self._note(name)

    def _note(self, name: str) -> None:
        if name not in self._found and not _is_known_otherwise(name):
            self._found[name] = hash_value(_look_up(name))


def _look_up(name: str) -> str | None:
    """Return a variable's value without asking for it."""
    data: Any = os.environ._data  # type: ignore[attr-defined]
    value = data.get(os.environ.encodekey(name))
    return None if value is None else os.fsdecode(value)


def _is_known_otherwise(name: str) -> bool:
    """Return whether a variable is part of a run's fingerprint, or perfcli's own."""
    own = name in _DIFFERENT_HERE or name.startswith("PERFCLI_") or name.endswith("_CACHE_DIR")
    return own or bool(relevant_variables({name: ""}))


def _asks_user() -> bool:
    """Return whether the code that asks is neither Python's, torch's nor perfcli's."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename in _PASSING_ON:
        frame = frame.f_back  # type: ignore[assignment]
    if frame is None:
        return False
    loaded = tuple(name for name in _OURS if name in sys.modules)
    return _is_users(frame.f_code.co_filename, loaded)


@functools.cache  # torch asks ten thousand times while it compiles a small model
def _is_users(file: str, loaded: tuple[str, ...]) -> bool:
    library = f"{sysconfig.get_path('stdlib')}{os.sep}"
    is_pythons = file.startswith((library, "<frozen")) and "-packages" not in file
    folders = [f"{Path(str(sys.modules[name].__file__)).parent}{os.sep}" for name in loaded]
    return not is_pythons and not file.startswith(tuple(folders))
