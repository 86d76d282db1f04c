"""Evaluates the conditions of a claim: comparisons of facts, written as text."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

Facts = Mapping[str, float | None]
"""Numbers by name; None is not known."""

_ARITHMETIC: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_RELATIONS: Mapping[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


class FactMissing(Exception):
    """A fact that a condition is about is not known; the message is its name."""


def holds(condition: str, sides: Mapping[str, Facts]) -> bool:
    """Return whether a condition holds of these facts. All parts of it are looked at. Raises
    FactMissing where a fact is None. KeyError where there is none of that name, and ValueError
    where the text is no condition, are mistakes in a claim."""
    return bool(_evaluate(ast.parse(condition, mode="eval").body, sides))


def list_facts(condition: str) -> list[tuple[str, str]]:
    """Return the facts that a condition is about, as pairs of side and name, in its order."""
    walked = ast.walk(ast.parse(condition, mode="eval"))
    found = [n for n in walked if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name)]
    found.sort(key=lambda node: (node.lineno, node.col_offset))
    return list(dict.fromkeys((ast.unparse(node.value), node.attr) for node in found))


def _evaluate(node: ast.expr, sides: Mapping[str, Facts]) -> Any:
    match node:
        case ast.BoolOp(op, values):
            parts = [_evaluate(value, sides) for value in values]
            return all(parts) if isinstance(op, ast.And) else any(parts)
        case ast.Compare(left, [relation], [right]):
            ours, theirs = _evaluate(left, sides), _evaluate(right, sides)
            return _RELATIONS[type(relation)](ours, theirs)
        case ast.BinOp(left, op, right):
            return _ARITHMETIC[type(op)](_evaluate(left, sides), _evaluate(right, sides))
        case ast.Constant(int() | float() as value):
            return value
        case ast.Attribute(ast.Name(side), name):
            fact = sides[side][name]
            if fact is None:
                raise FactMissing(f"{side}.{name}")
            return fact
    raise ValueError(f"{ast.unparse(node)} is no part of a condition")
