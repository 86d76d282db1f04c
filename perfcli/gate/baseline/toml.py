"""TOML as text: the standard library reads it, and does not write it.

Lists of texts and of tables take a line for each item, so that a change is a line in a diff.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

Value: TypeAlias = Any
"""bool, int, float, str, or lists and tables of these."""

_BARE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")


def _pairs(values: Mapping[str, Value]) -> Iterator[str]:
    """Yield ``key = value`` lines."""
    for name, value in values.items():
        yield f"{_key(name)} = {_outer(value)}"


def _header(*path: str, many: bool = False) -> str:
    """Return ``[checks."norm@h100"]``; with ``many`` it is one of several tables of that name."""
    name = ".".join(map(_key, path))
    return f"[[{name}]]" if many else f"[{name}]"


def _key(name: str) -> str:
    return name if name and set(name) <= _BARE else _text(name)


def _inline(value: Value) -> str:
    """Return the value in one line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, Mapping):
        inside = ", ".join(_pairs_inline(value))
        return f"{{ {inside} }}" if inside else "{}"
    return f"[{', '.join(map(_inline, value))}]"


def _pairs_inline(values: Mapping[str, Value]) -> Iterable[str]:
    return (f"{_key(name)} = {_inline(value)}" for name, value in values.items())


def _outer(value: Value) -> str:
    several = isinstance(value, Sequence) and not isinstance(value, str)
    if not several or not any(isinstance(item, str | Mapping) for item in value):
        return _inline(value)
    lines = "".join(f"    {_inline(item)},\n" for item in value)
    return f"[\n{lines}]"


def _text(text: str) -> str:
    # JSON's escapes are TOML's, but for DEL, which TOML wants escaped.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
