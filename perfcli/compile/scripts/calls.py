"""Records each use of ``torch.compile`` in the user's code: where it stands, what it asks for,
which graphs came of it, and when what it returned is called.

Nothing is changed about how torch compiles. Seen with torch 2.11 to 2.13: ``nn.Module.compile``
and decorators call ``torch.compile``; ``OptimizeContext`` is made once for each use, and its
``callback`` goes through ``_callback_from_stance`` at every call of what was compiled;
``_TorchCompileInductorWrapper`` is the backend that compiles its graphs.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from perfcli.compile.capture.captured import Capture, CapturedGraph
from perfcli.compile.stand_in.device import replace_for_block
from perfcli.loading.tracebacks import is_users
from perfcli.model import CompiledCall, OptionValue

_PLAIN = (bool, int, float, str, type(None))
_SHOWN = 80
"""Characters of a value that is no plain one."""


@dataclass(slots=True)
class _Use:
    """One call of ``torch.compile``."""

    call: CompiledCall
    compiled: Any
    """The user's own function or module."""


@dataclass(slots=True)
class CompileCalls:
    """Holds the uses of ``torch.compile`` so far, in order."""

    entered: Callable[[int], None] = lambda _: None
    """Hears the number of a use whose result is about to be called."""
    uses: list[_Use] = field(default_factory=list)
    called: set[int] = field(default_factory=set)
    """The uses whose result was called."""
    numbers: dict[int, int] = field(default_factory=dict)
    """Which use each graph came of, by Inductor's number of the graph."""
    compiling: int | None = None
    """The use whose graph is being compiled."""

    def record(self, compiled: Any, settings: Mapping[str, Any]) -> int:
        call = CompiledCall(_name(compiled), find_users_line(), **_read_settings(settings))
        self.uses.append(_Use(call, compiled))
        return len(self.uses) - 1

    def add_graph(self, graph: CapturedGraph) -> None:
        """Assign a new graph to the use being compiled; a late backward graph belongs to the use of
        its forward graph."""
        if self.compiling is not None and graph.number is not None:
            self.numbers.setdefault(graph.number, self.compiling)

    def list_calls(self, capture: Capture | None = None) -> tuple[CompiledCall, ...]:
        """Return every use with its graphs; those that are equal in all else are one."""
        graphs: dict[int, list[str]] = {}
        for graph in capture.graphs if capture else ():
            if graph.number in self.numbers:
                graphs.setdefault(self.numbers[graph.number], []).append(graph.facts.name)
        merged: dict[str, CompiledCall] = {}
        for number, use in enumerate(self.uses):
            found = merged.get(repr(use.call), use.call)
            again = found.count + (repr(use.call) in merged)
            names = (*found.graphs, *graphs.get(number, ()))
            merged[repr(use.call)] = replace(found, graphs=names, count=again)
        return tuple(merged.values())


def _name(compiled: Any) -> str:
    """Return ``GPT``, ``GPT.forward`` or ``step``."""
    import torch

    if isinstance(compiled, torch.nn.Module):
        return type(compiled).__name__
    owner = getattr(compiled, "__self__", None)
    name = getattr(compiled, "__name__", type(compiled).__name__)
    if isinstance(owner, torch.nn.Module) and name == "_call_impl":  # nn.Module.compile
        return type(owner).__name__
    return str(getattr(compiled, "__qualname__", name)).replace("<locals>.", "")


def _read_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    options = settings.get("options") or {}
    backend = settings.get("backend", "inductor")
    return {
        "mode": settings.get("mode"),
        "options": {str(name): _plain(value) for name, value in options.items()},
        "dynamic": settings.get("dynamic"),
        "fullgraph": bool(settings.get("fullgraph", False)),
        "backend": backend if isinstance(backend, str) else str(_plain(backend)),
    }


def _plain(value: Any) -> OptionValue:
    if isinstance(value, _PLAIN):
        return value
    return (getattr(value, "__qualname__", "") or repr(value))[:_SHOWN]


def find_users_line() -> str:
    """Return ``file:line`` of the innermost frame that is neither torch's nor perfcli's."""
    frame = sys._getframe(1)
    while frame is not None:
        where = SimpleNamespace(filename=frame.f_code.co_filename)
        if is_users(where):  # type: ignore[arg-type]
            return f"{shorten_path(where.filename)}:{frame.f_lineno}"
        frame = frame.f_back  # type: ignore[assignment]
    return ""


def shorten_path(file: str) -> str:
    """Return a path as it is seen from the working folder, where it lies below it."""
    path, folder = Path(file), Path.cwd()
    return str(path.relative_to(folder)) if path.is_relative_to(folder) else file


@contextmanager
def watch_compile(calls: CompileCalls) -> Iterator[CompileCalls]:
    """Record the uses of ``torch.compile`` while the block runs."""
    import torch
    from torch._dynamo import eval_frame

    original = torch.compile
    context, backend = eval_frame.OptimizeContext, torch._TorchCompileInductorWrapper
    owners: dict[int, tuple[Any, int]] = {}
    making: list[int] = []

    @functools.wraps(original)
    def compile(model: Any = None, **settings: Any) -> Any:
        # perfcli's own call, around a whole builder, is none of the user's.
        ours = sys._getframe(1).f_globals.get("__name__", "").startswith("perfcli.")
        if model is None or settings.get("disable") or ours:
            return original(model, **settings)
        making.append(calls.record(model, settings))
        try:
            return original(model, **settings)
        finally:
            making.pop()

    @functools.wraps(context.__init__)
    def make_context(self: Any, *args: Any, **kwargs: Any) -> None:
        made(self, *args, **kwargs)
        if making:
            # Kept with its number: an id is only unique while its object lives.
            owners[id(self.callback)] = (self.callback, making[-1])

    @functools.wraps(backend.__init__)
    def make_backend(self: Any, *args: Any, **kwargs: Any) -> None:
        made_backend(self, *args, **kwargs)
        if making:
            self._perfcli_use = making[-1]

    @functools.wraps(backend.__call__)
    def run_backend(self: Any, *args: Any, **kwargs: Any) -> Any:
        outer, calls.compiling = calls.compiling, getattr(self, "_perfcli_use", None)
        try:
            return run(self, *args, **kwargs)
        finally:
            calls.compiling = outer

    @functools.wraps(eval_frame._callback_from_stance)
    def choose_callback(callback: Any) -> Any:
        owner = owners.get(id(callback))
        if owner is not None:
            calls.called.add(owner[1])
            calls.entered(owner[1])
        return choose(callback)

    made, made_backend, run = context.__init__, backend.__init__, backend.__call__
    choose = eval_frame._callback_from_stance
    with (
        replace_for_block(torch, compile=compile),
        replace_for_block(context, __init__=make_context),
        replace_for_block(backend, __init__=make_backend, __call__=run_backend),
        replace_for_block(eval_frame, _callback_from_stance=choose_callback),
    ):
        yield calls
