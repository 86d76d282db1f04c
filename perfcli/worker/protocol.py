"""Defines what parent and child say to each other: one JSON object per line, on pipes of their own.

Standard output and error are only logs. The parent's first line is ``{"compile": CompileRequest}``
or ``{"measure": MeasureRequest}``; a measuring worker then gets any number of ``Ask``. (What a
``{"template": CompileRequest}`` is asked and says: ``forking``; what about hand-written
kernels: ``kernels``.) Messages of the child: ``progress`` (phase, done, total), ``note``
(message), ``result`` (run, blobs), ``prepared`` and ``turn`` (with the dataclass of that name),
``error`` (kind, message, detail).
"""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from collections.abc import Mapping
from typing import Any, TypeVar

from perfcli.errors import (
    CompileFailed,
    NotComparable,
    OutOfMemory,
    PerfcliError,
    UserCodeFailed,
    WorkerFailed,
    WrongResult,
)

T = TypeVar("T")

_ERRORS = (
    PerfcliError,
    UserCodeFailed,
    CompileFailed,
    WorkerFailed,
    NotComparable,
    OutOfMemory,
    WrongResult,
)
ERROR_KINDS = {error.__name__: error for error in _ERRORS}


def encode(message: Mapping[str, Any]) -> bytes:
    """Encode a message as one line. Dataclasses become objects."""
    return json.dumps(message, default=_plain, separators=(",", ":")).encode() + b"\n"


def plain(value: Any) -> dict[str, Any]:
    """Return a dataclass as a message of its own."""
    return typing.cast("dict[str, Any]", _plain(value))


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        # Not asdict: it copies every leaf, which takes seconds for a large run.
        return {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    raise TypeError(f"cannot send a {type(value).__name__}")


def error_message(error: PerfcliError) -> dict[str, str]:
    kind = type(error).__name__ if type(error).__name__ in ERROR_KINDS else "PerfcliError"
    return {"type": "error", "kind": kind, "message": str(error), "detail": error.detail}


def error(kind: str, message: str, detail: str) -> PerfcliError:
    """Return the error that a child's ``error`` message stands for."""
    return ERROR_KINDS.get(kind, PerfcliError)(message, detail=detail)


def decode_dataclass(kind: type[T], data: Any) -> T:
    """Return a (nested) dataclass from plain JSON data, in a process that may have no msgspec.
    Raises ``TypeError`` or ``KeyError`` for data of another shape."""
    return typing.cast(T, _decode(kind, data))


def _decode(kind: Any, data: Any) -> Any:
    origin = typing.get_origin(kind)
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        if not isinstance(data, dict):
            raise TypeError(f"{kind.__name__} is an object, not a {type(data).__name__}")
        hints = typing.get_type_hints(kind)
        return kind(**{name: _decode(hints[name], value) for name, value in data.items()})
    if origin is tuple:
        arguments = typing.get_args(kind)
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return tuple(_decode(arguments[0], item) for item in data)
        return tuple(_decode(a, item) for a, item in zip(arguments, data, strict=True))
    if origin in (types.UnionType, typing.Union):
        return _decode_union(typing.get_args(kind), data)
    if origin is not None and isinstance(data, dict):
        return {key: _decode(typing.get_args(kind)[1], value) for key, value in data.items()}
    return data


def _decode_union(members: tuple[Any, ...], data: Any) -> Any:
    if isinstance(data, dict):
        for member in members:
            if dataclasses.is_dataclass(member):
                return _decode(member, data)
    return data
