"""Replaces pieces of torch for one patch, and remembers what they were."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import Any

from perfcli.errors import CompileFailed
from perfcli.options.patches import Patch


class Patching:
    """Holds what one patch has replaced. A patch looks for everything that it needs before it
    replaces anything."""

    def __init__(self, patch: Patch) -> None:
        self.patch = patch
        self.acted = 0
        """How often what was put in place did something else than torch."""
        self.left = 0
        """How often it met what it is for and left it as torch has it, not understanding it."""
        self._undo: list[Callable[[], None]] = []

    def find(self, owner: Any, name: str, *parameters: str) -> Any:
        """Return the attribute ``name`` of a module or class of torch, and check that it takes
        these parameters, if any are given, and needs no others. Raises CompileFailed where this
        torch has none; the message names it."""
        place = f"{getattr(owner, '__qualname__', None) or owner.__name__}.{name}"
        if not hasattr(owner, name):
            raise self._missing(place)
        found = getattr(owner, name)
        if parameters and not _takes(found, parameters):
            raise self._missing(f"{place}({', '.join(parameters)})")
        return found

    def find_entry(self, mapping: Mapping[Any, Any], key: Any, what: str) -> Any:
        """Return what a table of torch has for a key. Raises CompileFailed where it has nothing;
        the message says ``what`` is missing."""
        if key not in mapping:
            raise self._missing(what)
        return mapping[key]

    def replace(self, owner: Any, name: str, new: Any) -> None:
        """Set an attribute of a module or class."""
        original = vars(owner)[name]  # not getattr: that unwraps static methods
        self._undo.append(lambda: setattr(owner, name, original))
        setattr(owner, name, new)

    def put(self, mapping: MutableMapping[Any, Any], key: Any, new: Any) -> None:
        """Set an entry that a mapping has."""
        original = mapping[key]
        self._undo.append(lambda: mapping.__setitem__(key, original))
        mapping[key] = new

    def count(self) -> None:
        """Remember that it acted once more."""
        self.acted += 1

    def leave(self) -> None:
        """Remember that it left something alone once more."""
        self.left += 1

    def undo(self) -> None:
        """Put everything back, the last first."""
        while self._undo:
            self._undo.pop()()

    def _missing(self, what: str) -> CompileFailed:
        import torch

        return CompileFailed(
            f"torch {torch.__version__} has no {what}, which {self.patch.name} is built on "
            f"(perfcli's patch is for {self.patch.reach})"
        )


def _takes(function: Any, parameters: Sequence[str]) -> bool:
    known = inspect.signature(function).parameters
    others = list(known.values())[len(parameters) :]
    same = list(known)[: len(parameters)] == list(parameters)
    return same and all(other.default is not other.empty for other in others)
