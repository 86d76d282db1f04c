"""Recognises functions that are whole training steps: they call ``backward`` or an optimizer
themselves, so that they need gradients, and no backward of perfcli's.

What is looked at are the names that a function's code uses, and those of the functions that it
reaches in its closure, its module and its own object. Nothing is run.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import CodeType, FunctionType, MethodType
from typing import Any

_TRANSFORMS = ("grad", "grad_and_value", "vjp", "jacrev", "hessian")
_MOST = 200
"""Functions that are looked at; a step's own are few."""


def is_step(call: Any) -> bool:
    """Return whether a callable runs its own backward, or an optimizer's step."""
    if _is_optimizer(getattr(call, "__self__", None)):
        return True
    steps = has_optimizer = False
    seen: set[int] = set()
    waiting = [call]
    while waiting and len(seen) < _MOST:
        function = _plain_function(waiting.pop())
        if function is None or id(function) in seen:
            continue
        seen.add(id(function))
        names = set(_names_in(function.__code__))
        if "backward" in names or {"autograd", "grad"} <= names:
            return True
        reached = list(_reached_by(function, names))
        if {"func", "grad"} <= names or any(map(_makes_gradients, reached)):
            return True
        steps |= "step" in names
        has_optimizer |= any(map(_is_optimizer, reached))
        if steps and has_optimizer:
            return True
        waiting += reached
    return False


def _plain_function(value: Any) -> FunctionType | None:
    """Return the function behind a function, a method, or a wrapper that names what it wraps."""
    while not isinstance(value, FunctionType):
        if isinstance(value, MethodType):
            value = value.__func__
        elif isinstance(inner := getattr(value, "__wrapped__", None), FunctionType | MethodType):
            value = inner
        else:
            return None
    return value


def _names_in(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names_in(constant)


def _reached_by(function: FunctionType, names: set[str]) -> Iterator[Any]:
    """Yield what the function's names mean in its closure and its module."""
    for cell in function.__closure__ or ():
        try:
            value = cell.cell_contents
        except ValueError:  # an empty cell
            continue
        yield value
        # A method that the function names, of an object that it closes over.
        if not isinstance(value, type) and type(value).__module__ == function.__module__:
            yield from _members(value, names)
    for name in names:
        value = function.__globals__.get(name)
        if (
            _is_optimizer(value)
            or _makes_gradients(value)
            or getattr(value, "__module__", "") == function.__module__
        ):
            yield value


def _members(value: Any, names: set[str]) -> Iterator[Any]:
    for name in names:
        found = getattr(type(value), name, None)
        if isinstance(found, FunctionType):
            yield found
    yield from (each for each in getattr(value, "__dict__", {}).values() if _is_optimizer(each))


def _makes_gradients(value: Any) -> bool:
    """Return whether it is one of the functions of ``torch.func`` that differentiate others."""
    place = str(getattr(value, "__module__", ""))
    return (
        place.startswith(("torch.func", "torch._functorch"))
        and getattr(value, "__name__", "") in _TRANSFORMS
    )


def _is_optimizer(value: Any) -> bool:
    import torch

    return isinstance(value, torch.optim.Optimizer)
