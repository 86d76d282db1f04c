"""Lets variants branch off a common base where one of the options in which they differ is first
read: what came before can't depend on that option, so a process forked there is as good as one that
compiled the variant from the start.

A variant does not part but is *missed*, to be compiled from the start, where that can't be held:
its options are not torch's own (a patch acts without being read) or take effect in a module that
isn't watched, one of them was set in the meantime without being read (for a while, by
``config.patch``), threads run, or autograd is at work.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias

from perfcli.compile import reads, tracing
from perfcli.errors import PerfcliError
from perfcli.model import CompileRequest, OptionValue

Place: TypeAlias = "tuple[str, str]"
"""A configuration module and the name of an option in it."""


class _Forks(Protocol):
    def fork(self, number: int) -> bool:
        """Return whether this is the new process, which goes on as the request with this number."""
        ...

    def go_on(self, wanted: bool) -> None:
        """Hear that everything that branches off here has done so. Does not return where nothing
        more is ``wanted``."""
        ...


class Alone:
    """Serves a process that compiles one variant and never forks."""

    def fork(self, number: int) -> bool:
        raise AssertionError("there is nothing to fork")

    def go_on(self, wanted: bool) -> None:
        """Go on: there is nothing to wait for."""


class _Missed(PerfcliError):
    """Says that this process does not know what the variant's code is: it has to be compiled from
    the start."""


@dataclass(frozen=True, slots=True)
class _Branch:
    request: CompileRequest
    options: Mapping[str, OptionValue]
    """The options in which it differs from the base."""
    places: frozenset[Place]
    """The places where these options are read, including those that they are other names of."""


class Branches:
    """Watches options and forks a process for each variant at the first of its options that is
    read. ``number`` and ``request`` are those that this process compiles: in the trunk the base's
    (None: nobody asked for it), then a variant's in the process forked for it."""

    def __init__(
        self, base: CompileRequest, requests: Mapping[int, CompileRequest], forks: _Forks
    ) -> None:
        self.request = base
        self.number: int | None = None
        self.is_trunk = True
        self._forks = forks
        self._left: dict[int, _Branch] = {}
        for number, request in requests.items():
            options = _difference(base, request)
            if options == {}:
                self.number = number
            elif options is not None and (places := _places(options)) is not None:
                self._left[number] = _Branch(request, options, places)
        self._held: dict[Place, object] = {}

    def begin(self) -> None:
        """Start watching, once the base's options are set and before anything is read."""
        self._remember(frozenset(p for branch in self._left.values() for p in branch.places))

    def before(self, module: str, name: str | None) -> None:
        """Fork where a variant's option is about to be read; see ``reads.Before``."""
        if not self._left or (name is not None and (module, name) not in self._held):
            return
        parting = [n for n, branch in self._left.items() if _touches(branch, module, name)]
        if not parting:
            return
        for number in parting:
            branch = self._left.pop(number)
            if self._can_part(branch) and self._forks.fork(number):
                self._become(number, branch)
                return
        self._forks.go_on(self.number is not None or bool(self._left))

    def end(self) -> None:
        """Raise Missed where the variant's options are not what they were set to: they were set
        only for a while, inside something that put them back."""
        if not self.is_trunk and not self._is_held(self._held):
            raise _Missed("an option was put back")

    def unread(self, names: tuple[str, ...]) -> list[int]:
        """Return the requests of which no option was read: all of them are among ``names``."""
        return [n for n, branch in self._left.items() if set(branch.options) <= set(names)]

    def _can_part(self, branch: _Branch) -> bool:
        import torch

        return (
            _threads() == 1
            and torch._C._current_graph_task_id() == -1
            and self._is_held({place: self._held[place] for place in branch.places})
        )

    def _become(self, number: int, branch: _Branch) -> None:
        self.number, self.request, self.is_trunk = number, branch.request, False
        self._left.clear()
        tracing.set_options(branch.options)
        self._remember(branch.places)

    def _remember(self, places: frozenset[Place]) -> None:
        self._held = {place: _override(place) for place in places}

    def _is_held(self, held: Mapping[Place, object]) -> bool:
        return all(_override(place) is value for place, value in held.items())


def _threads() -> int:
    return len(os.listdir("/proc/self/task"))


def _difference(base: CompileRequest, request: CompileRequest) -> dict[str, OptionValue] | None:
    """Return what ``request`` sets differently from the base, or None where they also differ in
    anything else."""
    ours, theirs = base.variant, request.variant
    otherwise = replace(theirs, name=ours.name, options=ours.options)
    if replace(request, variant=otherwise) != base or not set(ours.options) <= set(theirs.options):
        return None
    return {
        name: value
        for name, value in theirs.options.items()
        if name not in ours.options or _text(value) != _text(ours.options[name])
    }


def _text(value: OptionValue) -> str:
    """Return the value as text that tells 1, 1.0 and true apart."""
    return json.dumps(value)


def _touches(branch: _Branch, module: str, name: str | None) -> bool:
    if name is not None:
        return (module, name) in branch.places
    return any(place[0] == module for place in branch.places)


def _places(names: Mapping[str, OptionValue]) -> frozenset[Place] | None:
    """Return the places of these options, or None where one is not known, or two of them set the
    same place."""
    found: list[Place] = []
    for name in names:
        modules = reads.modules()
        prefix = next((p for p in modules if p and name.startswith(p)), "")
        own = _with_target(modules[prefix], name.removeprefix(prefix))
        if own is None:
            return None
        found += own
    return frozenset(found) if len(set(found)) == len(found) else None


def _with_target(config: Any, key: str) -> list[Place] | None:
    entry = config._config.get(key)
    if entry is None:
        return None
    target = reads.target(entry)
    if not target:
        return [(config.__name__, key)]
    module, _, name = target.rpartition(".")
    watched = {each.__name__: each for each in reads.modules().values()}
    if module not in watched:
        return None
    beyond = _with_target(watched[module], name)
    return None if beyond is None else [(config.__name__, key), *beyond]


def _override(place: Place) -> object:
    """Return what the option was set to, as the module keeps it (per context in torch 2.12 and
    later)."""
    (config,) = (each for each in reads.modules().values() if each.__name__ == place[0])
    kept = config._config[place[1]].user_override
    return kept.get() if type(kept).__name__ == "ContextVar" else kept
