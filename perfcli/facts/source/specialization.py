"""Writes a Triton kernel as it is compiled for one launch: what its constants decide is decided.

A hand-written kernel serves many launches, by ``if`` statements that Triton decides while it
compiles. Counted as it is written it has loads that no launch makes.
"""

from __future__ import annotations

import ast
import copy
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from perfcli.errors import UnreadableSource
from perfcli.model import Scalar


class _Unknown:
    """Represents a value that only the device knows."""


UNKNOWN: Final = _Unknown()
Known = Scalar | _Unknown

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


def _value_of(node: ast.expr, constants: Mapping[str, Known]) -> Known:
    """Return the value of an expression, or UNKNOWN."""
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
            return _value_of_several(node, constants)
        case ast.UnaryOp() if type(node.op) in _UNARY:
            operand = _value(node.operand, constants)
            known = not isinstance(operand, _Unknown)
            return _scalar(_UNARY[type(node.op)](operand)) if known else UNKNOWN
        case ast.BinOp() if type(node.op) in _BINARY:
            return _apply(_BINARY[type(node.op)], node.left, node.right, constants)
        case ast.Compare(ops=[only], comparators=[right]) if type(only) in _COMPARED:
            return _apply(_COMPARED[type(only)], node.left, right, constants)
        case ast.IfExp():
            chosen = _value(node.test, constants)
            if isinstance(chosen, _Unknown):
                return UNKNOWN
            return _value(node.body if chosen else node.orelse, constants)
        case _:
            return UNKNOWN


def _value_of_several(node: ast.BoolOp, constants: Mapping[str, Known]) -> Known:
    """Return the value of ``and`` or ``or``: one operand may decide though others are not known."""
    values = [_value(each, constants) for each in node.values]
    decides = isinstance(node.op, ast.Or)
    if any(not isinstance(v, _Unknown) and bool(v) == decides for v in values):
        return decides
    return UNKNOWN if any(isinstance(v, _Unknown) for v in values) else not decides


def _apply(
    function: Callable[[Any, Any], Any],
    left: ast.expr,
    right: ast.expr,
    constants: Mapping[str, Known],
) -> Known:
    ours, theirs = _value(left, constants), _value(right, constants)
    if isinstance(ours, _Unknown) or isinstance(theirs, _Unknown):
        return UNKNOWN
    return _scalar(function(ours, theirs))


def _scalar(value: Any) -> Known:
    return value if isinstance(value, bool | int | float | str) else UNKNOWN


_LEAVES = (ast.Return, ast.Break, ast.Continue, ast.Raise)


def specialize(
    source: str, name: str, constants: Mapping[str, Scalar], only_certain: bool = False
) -> str:
    """Return the text of a module with the kernel ``name`` as these constants leave it, and of its
    helpers one for each set of constants that they are called with. Comments and line numbers are
    lost. ``only_certain``: without the branches that the device takes or not. Raises
    UnreadableSource where the text is no Python, or has no such function."""
    try:
        module = ast.parse(source)
    except SyntaxError as error:
        raise UnreadableSource(f"kernel {name}: line {error.lineno}: {error.msg}") from None
    functions = {n.name: n for n in module.body if isinstance(n, ast.FunctionDef)}
    if name not in functions:
        raise UnreadableSource(
            f"expected a function {name}, found {', '.join(functions) or 'none'}"
        )
    others = [n for n in module.body if not isinstance(n, ast.FunctionDef)]
    known = _Known(functions, dict(_globals(others)), only_certain)
    kernel = known.function(functions[name], dict(constants))
    body = [*others, *known.made, kernel]
    return ast.unparse(ast.fix_missing_locations(ast.Module(body, []))) + "\n"


def _globals(statements: Sequence[ast.stmt]) -> Iterator[tuple[str, Known]]:
    """Yield name and value of each ``NAME = tl.constexpr(value)``."""
    for node in statements:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(args=[value])):
                yield name, _value_of(value, {})


@dataclass(slots=True)
class _Known:
    functions: Mapping[str, ast.FunctionDef]
    globals: Mapping[str, Known]
    only_certain: bool
    made: list[ast.FunctionDef] = field(default_factory=list)
    """Helpers, each before whoever calls it."""
    names: dict[tuple[str, str], str] = field(default_factory=dict)
    """A helper and its constants, to what it is called now."""

    def function(
        self, definition: ast.FunctionDef, constants: Mapping[str, Known]
    ) -> ast.FunctionDef:
        made = copy.deepcopy(definition)
        env = {**self.globals, **constants}
        made.body = self.block(made.body, env) or [ast.Pass()]
        return made

    def helper(self, name: str, constants: Mapping[str, Known]) -> str:
        """Return the name of the helper with these constants, made where it is not there yet."""
        key = (name, repr(sorted(constants.items())))
        if key not in self.names:
            same = sum(known == name for known, _ in self.names)
            self.names[key] = f"{name}_{same + 1}" if same else name
            made = self.function(self.functions[name], constants)
            made.name = self.names[key]
            self.made.append(made)
        return self.names[key]

    def block(self, body: Sequence[ast.stmt], env: dict[str, Known]) -> list[ast.stmt]:
        """Return the statements that are left; nothing behind one that leaves the block."""
        left: list[ast.stmt] = []
        for statement in body:
            left += self.statement(statement, env)
            if left and isinstance(left[-1], _LEAVES):
                break
        return left

    def statement(self, node: ast.stmt, env: dict[str, Known]) -> list[ast.stmt]:
        match node:
            case ast.If():
                return self.branches(node, env)
            case ast.For() | ast.While():
                _forget(node, env)
                node.body = self.block(node.body, env) or [ast.Pass()]
                node.orelse = self.block(node.orelse, env)
                if isinstance(node, ast.For):
                    node.iter = self.expression(node.iter, env)
                else:
                    node.test = self.expression(node.test, env)
                return [node]
            case ast.With():
                node.body = self.block(node.body, env) or [ast.Pass()]
                return [node]
        for name, value in ast.iter_fields(node):
            if isinstance(value, ast.expr):
                setattr(node, name, self.expression(value, env))
        _learn(node, env)
        return [node]

    def branches(self, node: ast.If, env: dict[str, Known]) -> list[ast.stmt]:
        node.test = self.expression(node.test, env)
        chosen = _value_of(node.test, env)
        if not isinstance(chosen, _Unknown):
            return self.block(node.body if chosen else node.orelse, env)
        other = dict(env)
        node.body = self.block(node.body, env) or [ast.Pass()]
        node.orelse = self.block(node.orelse, other)
        for name in {n for n in (*env, *other) if env.get(n) != other.get(n)}:
            env[name] = UNKNOWN
        return [] if self.only_certain else [node]

    def expression(self, node: ast.expr, env: Mapping[str, Known]) -> ast.expr:
        result: ast.expr = _Expressions(self, env).visit(node)
        return result


class _Expressions(ast.NodeTransformer):
    """Resolves choices by constants, and calls of helpers, inside an expression."""

    def __init__(self, known: _Known, env: Mapping[str, Known]) -> None:
        self.known = known
        self.env = env

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        chosen = _value_of(node.test, self.env)
        if isinstance(chosen, _Unknown):
            self.generic_visit(node)
            return node
        result: ast.expr = self.visit(node.body if chosen else node.orelse)
        return result

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id in self.known.functions:
            constants = self._constants(self.known.functions[node.func.id], node)
            node.func = ast.Name(self.known.helper(node.func.id, constants), ast.Load())
        return node

    def _constants(self, helper: ast.FunctionDef, call: ast.Call) -> dict[str, Known]:
        parameters = [*helper.args.posonlyargs, *helper.args.args]
        given = dict(zip((p.arg for p in parameters), call.args, strict=False))
        given |= {k.arg: k.value for k in call.keywords if k.arg}
        defaults = helper.args.defaults
        usual = dict(zip((p.arg for p in parameters[::-1]), defaults[::-1], strict=False))
        constant = [p.arg for p in parameters if _is_constant(p.annotation)]
        values = {name: {**usual, **given}.get(name) for name in constant}
        return {n: _value_of(v, self.env) for n, v in values.items() if v is not None}


def _is_constant(annotation: ast.expr | None) -> bool:
    return annotation is not None and "constexpr" in ast.unparse(annotation)


def _learn(node: ast.stmt, env: dict[str, Known]) -> None:
    """Note an assignment: a constant that the kernel defines is known; any other name that it
    assigns is not."""
    if isinstance(node, ast.AnnAssign) and _is_constant(node.annotation) and node.value:
        if isinstance(node.target, ast.Name):
            env[node.target.id] = _value_of(node.value, env)
        return
    _forget(node, env)


def _forget(node: ast.stmt, env: dict[str, Known]) -> None:
    for child in ast.walk(node):
        if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store):
            env[child.id] = UNKNOWN
