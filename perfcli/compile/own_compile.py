"""Finds what a model's author has compiled: a builder that returns it, or something that holds it,
gets it compiled as the author says and nothing else.

Seen with torch 2.11 to 2.13: ``torch.compile`` returns an ``OptimizedModule`` for a module, and for
a function one with ``_torchdynamo_orig_callable``; ``nn.Module.compile`` sets
``_compiled_call_impl``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from perfcli.model import CompiledCall

_ORIGINAL = "_torchdynamo_orig_callable"


def holds_compiled(call: Any) -> bool:
    """Return whether a callable is compiled already, or is one of the user's that calls something
    compiled: a part of the module, or what a function has in its closure or takes from its file."""
    return any(_is_compiled(part) for each in _reach(call) for part in _parts(each))


def unwrap(call: Any) -> Any:
    """Return the user's own function behind one that ``torch.compile`` returned."""
    return getattr(call, _ORIGINAL, call) if not isinstance(call, type) else call


def _is_compiled(value: Any) -> bool:
    from torch._dynamo import OptimizedModule

    if isinstance(value, OptimizedModule):
        return True
    if getattr(value, "_compiled_call_impl", None) is not None:
        return True
    is_disabled = getattr(value, "_torchdynamo_disable", False)
    return getattr(value, _ORIGINAL, None) is not None and not is_disabled


def _reach(call: Any) -> Iterator[Any]:
    """Yield a callable, its object, and what its code takes from its closure and its file."""
    yield call
    function = getattr(call, "__func__", call)
    yield getattr(call, "__self__", None)
    for cell in getattr(function, "__closure__", None) or ():
        try:
            yield cell.cell_contents
        except ValueError:  # an empty cell
            continue
    code, names = getattr(function, "__code__", None), getattr(function, "__globals__", {})
    yield from (names[name] for name in getattr(code, "co_names", ()) if name in names)


def _parts(value: Any) -> Iterator[Any]:
    import torch

    yield value
    if isinstance(value, torch.nn.Module):
        for module in value.modules():
            yield module
            yield from (each for each in vars(module).values() if callable(each))


def tell_kept(calls: Iterable[CompiledCall]) -> tuple[str, ...]:
    """Return a note about each use of ``torch.compile`` that is kept."""
    return tuple(
        f"{call.name} is compiled as the model says at {call.place}: torch.compile({call.settings})"
        + (f" (×{call.count})" if call.count > 1 else "")
        for call in calls
    )


def tell_ignored(calls: Iterable[CompiledCall]) -> tuple[str, ...]:
    """Return a note about each use whose result is not what is called, and whose settings do not
    count: the whole is compiled around it."""
    return tuple(
        f"the model's own torch.compile({call.settings}) is not followed (×{call.count}): it is "
        "compiled as the variant says, options are given with -o"
        for call in calls
        if call.settings
    )
