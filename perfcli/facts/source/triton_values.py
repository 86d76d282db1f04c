"""Tracks what the expressions of a Triton kernel point at."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Value:
    """Holds what an expression may point at: kernel arguments, the likeliest first."""

    pointers: tuple[str, ...] = ()
    items: tuple[Value, ...] = ()
    """The elements, where it is a tuple."""

    def __or__(self, other: Value) -> Value:
        pointers = tuple(dict.fromkeys(self.pointers + other.pointers))
        items = self.items
        if len(self.items) == len(other.items):
            items = tuple(a | b for a, b in zip(self.items, other.items, strict=True))
        return Value(pointers, items)


NOTHING = Value()
Environment = dict[str, Value]


def _pass_through(name: str, arguments: Sequence[Value], keywords: Mapping[str, Value]) -> Value:
    """Return the pointers in a library function's result: those of its first argument
    (``make_block_ptr``, ``advance``, ``multiple_of``, ``broadcast_to`` …)."""
    if name.endswith(".where") and len(arguments) > 2:
        return arguments[1] | arguments[2]
    for keyword in ("base", "ptr", "input"):
        if keyword in keywords:
            return keywords[keyword]
    return arguments[0] if arguments else NOTHING


def _assign(target: ast.expr, value: Value, env: Environment) -> None:
    if isinstance(target, ast.Name):
        env[target.id] = value
    elif isinstance(target, ast.Tuple | ast.List):
        fits = len(target.elts) == len(value.items)
        for index, item in enumerate(target.elts):
            _assign(item, value.items[index] if fits else Value(value.pointers), env)


def _element(value: Value, index: ast.expr) -> Value:
    if isinstance(index, ast.Constant) and isinstance(index.value, int) and value.items:
        return value.items[index.value] if abs(index.value) < len(value.items) else NOTHING
    return Value(value.pointers)


def _merge(env: Environment, other: Environment) -> None:
    for name, value in other.items():
        env[name] = env[name] | value if name in env else value
