"""Joins loops that together make one sweep: what a row's whole tiles leave over is read by another.

A hand-written kernel walks over a row in wide tiles, and over its rest in narrow ones. Two loops of
a function are one sweep where the second starts at what the first ends at, and so are two calls of
one helper where the first's end is the second's beginning.
"""

from __future__ import annotations

import ast
import itertools
import re

_RANGES = ("range", "static_range")
_NUMBER = re.compile(r"_\d+$")


def join_sweeps(source: str) -> str:
    """Return the module's text with one loop, or call, for each sweep; good for counting sweeps
    alone."""
    module = ast.parse(source)
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef):
            node.body = _drop_parts(node.body)
    return ast.unparse(module)


def _drop_parts(body: list[ast.stmt]) -> list[ast.stmt]:
    """Return the statements without the further parts of a sweep; parts of one sweep stand in one
    block."""
    left = list(body)
    for first, second in itertools.permutations(body, 2):
        if first in left and second in left and _continues(first, second):
            if isinstance(first, ast.For) and isinstance(second, ast.For):
                first.body = [*first.body, *second.body]
            left.remove(second)
    return left


def _continues(first: ast.stmt, second: ast.stmt) -> bool:
    """Return whether the second goes on, in memory, where the first ends."""
    if isinstance(first, ast.For) and isinstance(second, ast.For):
        ends, begins = _bounds(first), _bounds(second)
        return ends is not None and begins is not None and _starts_at(ends[1], begins[0])
    ours, theirs = _call(first), _call(second)
    if ours is None or theirs is None or _helper(ours) != _helper(theirs):
        return False
    return any(
        _name_of(end) == _name_of(begin) and at > to
        for at, end in enumerate(ours.args)
        for to, begin in enumerate(theirs.args)
        if _name_of(end) and _name_of(ours.args[to]) != _name_of(begin)
    )


def name_bounds(loop: ast.For) -> tuple[str, str]:
    """Return the variables that a loop over a range starts and stops at; empty for what is none. A
    loop that starts where an earlier one stops goes on with its sweep."""
    bounds = _bounds(loop) or (None, None)
    return _name_of(bounds[0]), _name_of(bounds[1])


def _bounds(loop: ast.For) -> tuple[ast.expr, ast.expr] | None:
    """Return start and stop of a loop over a range."""
    call = loop.iter
    if not isinstance(call, ast.Call) or ast.unparse(call.func).split(".")[-1] not in _RANGES:
        return None
    return (call.args[0], call.args[1]) if len(call.args) > 1 else None


def _name_of(node: ast.expr | None) -> str:
    """Return a name; empty for anything else."""
    return node.id if isinstance(node, ast.Name) else ""


def _starts_at(stop: ast.expr, start: ast.expr) -> bool:
    """Return whether it starts at the other's stop, or at a multiple of it: ``full`` and ``full *
    LANES``."""
    names = {node.id for node in ast.walk(start) if isinstance(node, ast.Name)}
    return _name_of(stop) in names


def _call(statement: ast.stmt) -> ast.Call | None:
    """Return the one call that a statement is about: ``f(…)``, ``x = f(…)``, ``x += f(…)``."""
    value = getattr(statement, "value", None)
    return value if isinstance(value, ast.Call) else None


def _helper(call: ast.Call) -> str:
    """Return the helper's name before it was specialized for its constants."""
    return _NUMBER.sub("", ast.unparse(call.func))
