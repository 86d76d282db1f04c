"""Finds half-precision rows that a persistent reduction keeps as float32 across its reduction.

Seen with the code that Inductor of torch 2.11 to 2.15 writes: straight-line assignments to
``tmpN``, in a mix-order kernel inside one loop over rows.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from perfcli.facts.source import triton_names

_HALF = {"*bf16", "*fp16"}
# What Inductor calls a kernel's indices: x0, y1, r0_2; and before they are split up.
_ROW = re.compile(r"[xyz](\d+|index)")
_COLUMN = re.compile(r"r\d_(\d+|index)")


@dataclass(frozen=True, slots=True)
class _Value:
    """Holds the pointers that an expression's values come from."""

    half: frozenset[str] = frozenset()
    """Pointers whose values are as loaded, not converted."""
    single: frozenset[str] = frozenset()
    """Element by element, in float32."""
    reduced: frozenset[str] = frozenset()
    """Through a reduction: not known before all of the row is read."""

    def __or__(self, other: _Value) -> _Value:
        return _Value(
            self.half | other.half, self.single | other.single, self.reduced | other.reduced
        )


@dataclass(slots=True)
class _Walk:
    candidates: frozenset[str]
    aliases: dict[str, str]
    values: dict[str, _Value] = field(default_factory=dict)
    held: set[str] = field(default_factory=set)

    def statement(self, node: ast.stmt) -> None:
        match node:
            case ast.For():
                for inner in node.body:
                    self.statement(inner)
            case ast.Assign(targets=[target]):
                value = self.evaluate(node.value)
                names = target.elts if isinstance(target, ast.Tuple) else [target]
                for name in names:
                    if isinstance(name, ast.Name):
                        self.values[name.id] = value
            case ast.Expr():
                self.evaluate(node.value)
            case _:  # an accumulation's counter, or a branch: not followed
                pass

    def evaluate(self, node: ast.expr) -> _Value:
        value = self.combined(node)
        # Both the row and what it was reduced to: the row was kept until here.
        self.held |= value.single & value.reduced
        return value

    def combined(self, node: ast.expr) -> _Value:
        if isinstance(node, ast.Name):
            return self.values.get(node.id, _Value())
        if isinstance(node, ast.Call):
            return self.call(node)
        inner = [self.evaluate(c) for c in ast.iter_child_nodes(node) if isinstance(c, ast.expr)]
        return _union(inner)

    def call(self, node: ast.Call) -> _Value:
        if loaded := self.loaded(node):
            return loaded
        function = node.func
        name = triton_names._full_name(function, self.aliases, self.values) or ""
        if name.endswith("inline_asm_elementwise"):
            return _Value()  # what comes out of it can't be what was kept
        inner = _union([self.evaluate(a) for a in (*node.args, *(k.value for k in node.keywords))])
        if triton_names._is_reduction(name):
            return _Value(reduced=inner.single | inner.reduced)
        if not isinstance(function, ast.Attribute):
            return inner
        base = self.evaluate(function.value)
        if function.attr != "to":
            return base | inner
        if _target_dtype(node) == "tl.float32":
            return _Value(single=base.half | base.single, reduced=base.reduced)
        return _Value(reduced=base.reduced)  # rounded: what is kept may be the smaller one

    def loaded(self, node: ast.Call) -> _Value | None:
        pointer = _loaded_pointer(node)
        if pointer is None:
            return None
        return _Value(half=frozenset({pointer}) & self.candidates)


def _held_copies(
    kernel: ast.FunctionDef, types: Mapping[str, str], aliases: dict[str, str]
) -> tuple[str, ...]:
    """Return the pointers, in the order of the arguments, whose rows are loaded once in half
    precision, converted to float32, reduced, and used again together with the reduction's result.

    ``types`` is the signature in Inductor's decorator. Only persistent reductions: others read
    their rows anew. Left out is what one row shares with the others (weights), what is loaded in
    more than one place, and what can't be followed.
    """
    if not any("persistent_reduction" in ast.unparse(d) for d in kernel.decorator_list):
        return ()
    loads = list(_loads(kernel))
    places = Counter(pointer for pointer, _ in loads)
    candidates = frozenset(
        pointer
        for pointer, address in loads
        if types.get(pointer) in _HALF and places[pointer] == 1 and _is_row(address)
    )
    walk = _Walk(candidates, aliases)
    for statement in kernel.body:
        walk.statement(statement)
    return tuple(name for name in types if name in walk.held)


def _target_dtype(conversion: ast.Call) -> str:
    """Return ``tl.float32`` of ``x.to(tl.float32)`` and of ``x.to(dtype=tl.float32)``; empty where
    the call names none."""
    named = [keyword.value for keyword in conversion.keywords if keyword.arg == "dtype"]
    given = [*conversion.args[:1], *named]
    return ast.unparse(given[0]) if given else ""


def _loads(kernel: ast.FunctionDef) -> Iterator[tuple[str, ast.expr]]:
    for node in ast.walk(kernel):
        if isinstance(node, ast.Call) and (pointer := _loaded_pointer(node)):
            yield pointer, node.args[0]


def _loaded_pointer(node: ast.Call) -> str | None:
    """Return ``in_ptr0`` for ``tl.load(in_ptr0 + (r0_1 + 1024*x0), …)``."""
    if ast.unparse(node.func) != "tl.load" or not node.args:
        return None
    address = node.args[0]
    base = address.left if isinstance(address, ast.BinOp) else address
    return base.id if isinstance(base, ast.Name) else None


def _is_row(address: ast.expr) -> bool:
    names = [node.id for node in ast.walk(address) if isinstance(node, ast.Name)]
    return any(map(_ROW.fullmatch, names)) and any(map(_COLUMN.fullmatch, names))


def _union(values: Sequence[_Value]) -> _Value:
    result = _Value()
    for value in values:
        result |= value
    return result
