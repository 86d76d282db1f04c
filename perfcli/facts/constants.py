"""Values of a kernel's expressions that its constants decide, without running anything."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any, Final

from perfcli.model import Scalar


class Unknown:
    """What only the device knows."""


UNKNOWN: Final = Unknown()
Known = Scalar | Unknown

_BINARY: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
}
_COMPARED: Mapping[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
}
_UNARY: Mapping[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.Not: operator.not_,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}


def value_of(node: ast.expr, constants: Mapping[str, Known]) -> Known:
    """The value of an expression, or UNKNOWN."""
    try:
        return _value(node, constants)
    except (TypeError, ArithmeticError, ValueError):
        return UNKNOWN  # Triton says what is wrong with it


def _value(node: ast.expr, constants: Mapping[str, Known]) -> Known:
    match node:
        case ast.Constant():
            return None if node.value is None else _scalar(node.value)
        case ast.Name():
            return constants.get(node.id, UNKNOWN)
        case ast.BoolOp():
            return _of_several(node, constants)
        case ast.UnaryOp() if type(node.op) in _UNARY:
            operand = _value(node.operand, constants)
            known = not isinstance(operand, Unknown)
            return _scalar(_UNARY[type(node.op)](operand)) if known else UNKNOWN
        case ast.BinOp() if type(node.op) in _BINARY:
            return _applied(_BINARY[type(node.op)], node.left, node.right, constants)
        case ast.Compare(ops=[only], comparators=[right]) if type(only) in _COMPARED:
            return _applied(_COMPARED[type(only)], node.left, right, constants)
        case ast.IfExp():
            chosen = _value(node.test, constants)
            if isinstance(chosen, Unknown):
                return UNKNOWN
            return _value(node.body if chosen else node.orelse, constants)
        case _:
            return UNKNOWN


def _of_several(node: ast.BoolOp, constants: Mapping[str, Known]) -> Known:
    """One operand may decide though others are not known."""
    values = [_value(each, constants) for each in node.values]
    decides = isinstance(node.op, ast.Or)
    if any(not isinstance(v, Unknown) and bool(v) == decides for v in values):
        return decides
    return UNKNOWN if any(isinstance(v, Unknown) for v in values) else not decides


def _applied(
    function: Callable[[Any, Any], Any],
    left: ast.expr,
    right: ast.expr,
    constants: Mapping[str, Known],
) -> Known:
    ours, theirs = _value(left, constants), _value(right, constants)
    if isinstance(ours, Unknown) or isinstance(theirs, Unknown):
        return UNKNOWN
    return _scalar(function(ours, theirs))


def _scalar(value: Any) -> Known:
    return value if isinstance(value, bool | int | float | str) else UNKNOWN
