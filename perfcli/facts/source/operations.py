"""Estimates, by its source, how many arithmetic operations a generated Triton kernel does.

Each arithmetic operator and each function that the source applies to values counts once for every
point of the iteration space that it runs over; a reduction counts once for each value that goes
into it. Casts, comparisons, selections and the arithmetic of addresses count nothing.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterable, Mapping

from perfcli.facts.source.sweeps import name_bounds

Axes = frozenset[str]

_NONE: Axes = frozenset()
_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow, ast.Mod)
_REDUCTIONS = {"sum", "max", "min", "prod", "xor_sum", "reduce", "max2", "min2", "any"}
_FREE = {"to", "where", "load", "full", "zeros", "broadcast_to", "reshape", "program_id", "arange",
         "store", "atomic_add", "device_assert", "promote_to_tensor", "expand_dims", "static_range",
         "range", "num_programs", "view", "trans", "join", "permute", "cdiv"}  # fmt: skip
# Values of which the axes are said by the name.
_NAMED = re.compile(r"(?:(?P<axis>[xyz])(?:\d+|index|BLOCK|numel|mask)?|(?P<reduced>r\d_|r))")
_BLOCKS = {"XBLOCK": "x", "YBLOCK": "y", "ZBLOCK": "z", "RBLOCK": "r0_", "R0_BLOCK": "r0_",
           "R1_BLOCK": "r1_"}  # fmt: skip


def count_operations(source: str, sizes: Mapping[str, int]) -> int | None:
    """Return the arithmetic operations of one launch of a kernel whose iteration space has these
    sizes, and None for what this can't count: matrix products, scans, other languages."""
    try:
        functions = [n for n in ast.parse(source).body if isinstance(n, ast.FunctionDef)]
    except (SyntaxError, ValueError, RecursionError):
        return None
    if len(functions) != 1 or not sizes or not functions[0].name.startswith("triton_"):
        return None
    calls = (node for node in ast.walk(functions[0]) if isinstance(node, ast.Call))
    if any(_name(call.func) in ("dot", "dot_scaled", "associative_scan") for call in calls):
        return None
    counter = _Counter(sizes, {argument.arg for argument in functions[0].args.args})
    counter.body(functions[0].body)
    return counter.total


def _name(function: ast.expr) -> str:
    """Return ``exp`` of ``tl_math.exp``."""
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


class _Counter:
    """Goes through the statements in order, each once: sizes say how often loops run."""

    def __init__(self, sizes: Mapping[str, int], arguments: Iterable[str]) -> None:
        self.total = 0
        self._sizes = sizes
        self._x_is_an_axis = "XBLOCK" in arguments
        self._axes: dict[str, Axes] = {}
        self._stops: set[str] = set()

    def body(self, statements: Iterable[ast.stmt]) -> None:
        for statement in statements:
            if isinstance(statement, ast.Assign):
                self._assign(statement)
            elif isinstance(statement, ast.For) and self._continues(statement):
                continue
            elif isinstance(statement, ast.For | ast.If | ast.With | ast.While):
                self.body(statement.body)
                self.body(getattr(statement, "orelse", ()))

    def _continues(self, loop: ast.For) -> bool:
        """Return whether the loop does what an earlier one has left over, of the same size."""
        start, stop = name_bounds(loop)
        self._stops.add(stop)
        return bool(start) and start in self._stops

    def _assign(self, statement: ast.Assign) -> None:
        targets = [n.id for t in statement.targets for n in ast.walk(t) if isinstance(n, ast.Name)]
        if not all(re.match(r"_?tmp\d|accum\d|_?welford|r?tmp", name) for name in targets):
            return  # an address, or a mask
        axes = self._value(statement.value)
        for name in targets:
            self._axes[name] = axes

    def _value(self, node: ast.expr) -> Axes:
        """Return the axes of a value, whose operations are counted."""
        if isinstance(node, ast.BinOp):
            axes = self._value(node.left) | self._value(node.right)
            if isinstance(node.op, _ARITHMETIC):
                self._count(axes)
            return axes
        if isinstance(node, ast.Call):
            return self._call(node)
        if isinstance(node, ast.Subscript | ast.Attribute | ast.Starred):
            return self._value(node.value)
        if isinstance(node, ast.Name):
            return self._of(node.id)
        parts = (child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr))
        return _NONE.union(*map(self._value, parts))

    def _call(self, node: ast.Call) -> Axes:
        name = _name(node.func)
        if name == "load":
            return self._mentioned(node.args[0])
        if name in ("full", "zeros"):
            return self._mentioned(node.args[0])
        if name == "broadcast_to":
            return self._value(node.args[0]) | self._mentioned(*node.args[1:])
        if name == "to" and isinstance(node.func, ast.Attribute):
            return self._value(node.func.value)
        axes = _NONE.union(*map(self._value, node.args))
        if name in _REDUCTIONS and node.args:
            self._count(axes)
            return self._reduced(axes, node)
        if name not in _FREE:
            self._count(axes)
        return axes

    def _reduced(self, axes: Axes, node: ast.Call) -> Axes:
        """Return the axes that are left after a reduction. Axis 0 is what a mix-order kernel
        reduces over besides its rows; where the kernel has no axis x it is the row itself."""
        axis = node.args[1] if len(node.args) > 1 else None
        first = isinstance(axis, ast.Constant) and axis.value == 0
        if first and self._x_is_an_axis and "x" in axes:
            return axes - {"x"}
        return frozenset(each for each in axes if not each.startswith("r"))

    def _mentioned(self, *nodes: ast.expr) -> Axes:
        names = (n.id for node in nodes for n in ast.walk(node) if isinstance(n, ast.Name))
        return _NONE.union(*map(self._of, names))

    def _of(self, name: str) -> Axes:
        if name in self._axes:
            return self._axes[name]
        if name in _BLOCKS:
            return frozenset({_BLOCKS[name]}) & self._sizes.keys()
        found = _NAMED.match(name)
        if not found:
            return _NONE
        if found["axis"]:
            return frozenset({found["axis"]}) & self._sizes.keys()
        reduced = (a for a in self._sizes if a.startswith("r"))
        return frozenset(reduced if found["reduced"] == "r" else {found["reduced"]})

    def _count(self, axes: Axes) -> None:
        self.total += math.prod(self._sizes.get(axis, 1) for axis in axes)
