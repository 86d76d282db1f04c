"""Which part of what was given can't be pickled."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import FunctionType, MethodType
from typing import Any

DEEPEST = 12


def culprit(
    call: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    dumped: Callable[[Any], bytes],
) -> str:
    """The path to the innermost part that fails, and its type: ``model.lock (a lock)``."""
    parts = [(_name(call), call)]
    parts += [(f"argument {number}", value) for number, value in enumerate(args)]
    parts += [(f"argument {name}", value) for name, value in kwargs.items()]
    found = _failing(parts, dumped)
    if found is None:
        return _name(call)
    path, value = found
    for _ in range(DEEPEST):
        inner = _failing(_parts(path, value), dumped)
        if inner is None:
            break
        path, value = inner
    return f"{path} (of type {type(value).__name__})"


def _failing(
    parts: Sequence[tuple[str, Any]] | Iterator[tuple[str, Any]], dumped: Callable[[Any], bytes]
) -> tuple[str, Any] | None:
    for path, value in parts:
        try:
            dumped(value)
        except Exception:
            return path, value
    return None


def _parts(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, MethodType):
        yield f"{path}'s object", value.__self__
    elif isinstance(value, FunctionType):
        yield from _of_function(path, value)
    elif isinstance(value, Mapping):
        yield from ((f"{path}[{key!r}]", item) for key, item in value.items())
    elif isinstance(value, list | tuple | set | frozenset):
        yield from ((f"{path}[{number}]", item) for number, item in enumerate(value))
    elif isinstance(value, type):
        yield from ((f"{path}.{name}", item) for name, item in vars(value).items())
    else:
        yield from (
            (f"{path}.{name}", item) for name, item in getattr(value, "__dict__", {}).items()
        )


def _of_function(path: str, function: FunctionType) -> Iterator[tuple[str, Any]]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield f"{name} in {path}", cell.cell_contents
        except ValueError:
            continue  # an empty cell
    for name in _global_names(function.__code__):
        if name in function.__globals__:
            yield f"{name} in {path}", function.__globals__[name]
    yield from ((f"a default of {path}", value) for value in function.__defaults__ or ())


def _global_names(code: Any) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if hasattr(constant, "co_names"):
            yield from _global_names(constant)


def _name(call: Any) -> str:
    return getattr(call, "__qualname__", "").rpartition(".")[2] or type(call).__name__
