"""Follows the statements of a wrapper's ``call``: what it launches, and the tensors that it gives.

Nothing is executed: names stand for tensors with sizes, for whole numbers, or for what is not
known. Seen with torch 2.11 to 2.13.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from perfcli.importing.sources.wrapper import Wrapper

MOST_STATEMENTS = 1_000_000
_DEEPEST = 50
_LARGEST = 2**62


@dataclass(frozen=True, slots=True)
class Tensor:
    """Holds what is known of a tensor; None and an empty ``dtype`` are what is not."""

    name: str
    shape: tuple[int, ...] | None = None
    stride: tuple[int, ...] | None = None
    dtype: str = ""
    first: str = ""
    """The name under which its memory was made: what is used again has several."""


@dataclass(frozen=True, slots=True)
class _Dtype:
    name: str


Value = Any
"""A Tensor, a number, text or truth value, a list of values, or None for what is not known."""


@dataclass(slots=True)
class WrittenCall:
    """Holds one launch or operator, as it is written."""

    name: str
    """The kernel's name in the wrapper; of an operator its path, ``extern_kernels.mm``."""
    extern: bool
    arguments: list[Value]
    named: dict[str, Value]
    symbols: frozenset[int] = frozenset()
    """Places of arguments that are numbers and not written as such."""
    results: dict[str, Tensor] = field(default_factory=dict)
    """What an operator makes, by its names in the wrapper."""
    finishing: list[tuple[str, Tensor]] = field(default_factory=list)
    """Methods that reduce the kernel's workspace after the launch, with what they make."""


@dataclass(frozen=True, slots=True)
class Followed:
    """Holds what a graph's wrapper does in one call."""

    inputs: tuple[str, ...]
    calls: tuple[WrittenCall, ...]
    branches: int = 0
    """Conditions and loops that only the device decides; each part is followed once."""
    is_whole: bool = True
    """Whether all of it was followed: there is a limit."""


def follow(wrapper: Wrapper) -> Followed:
    """Return what the wrapper's ``call`` does, in order."""
    walk = _Walk(wrapper)
    walk.run(wrapper.examples)
    walk.names["args"] = _Inputs(dict(walk.names))
    walk.run(wrapper.functions.get("call", ()))
    return Followed(tuple(walk.inputs), tuple(walk.calls), walk.branches, not walk.is_full)


@dataclass(frozen=True, slots=True)
class _Inputs:
    """Stands for the list that the wrapper is called with."""

    examples: Mapping[str, Value]


_ALLOCATORS = {
    "empty_strided", "empty_strided_cuda", "empty_strided_cpu", "empty_strided_cpu_pinned",
    "empty_strided_xpu", "empty_strided_p2p", "rand_strided",
}  # fmt: skip
_OPERATORS = ("extern_kernels.", "torch.ops.", "aten.", "inductor_ops.", "_quantized.")
_REDUCING = {"sum", "max", "min", "prod", "amax", "amin"}


class _Walk:
    def __init__(self, wrapper: Wrapper) -> None:
        self.names: dict[str, Value] = {}
        self.inputs: list[str] = []
        self.calls: list[WrittenCall] = []
        self.branches = 0
        self.is_full = False
        self._functions = wrapper.functions
        self._kernels = {kernel.name for kernel in wrapper.kernels} | set(wrapper.choices)
        self._opaque = wrapper.opaque
        self._makers: dict[str, WrittenCall] = {}
        self._depth = self._steps = 0

    def run(self, statements: Sequence[ast.stmt]) -> None:
        for statement in statements:
            self._steps += 1
            if self._steps > MOST_STATEMENTS:
                self.is_full = True
                return
            self._follow(statement)

    def _follow(self, statement: ast.stmt) -> None:
        match statement:
            case ast.Assign([ast.Name(name)], value):
                self._bind(name, value)
            case ast.Assign([ast.Tuple(targets)], value):
                self._unpack([each.id for each in targets if isinstance(each, ast.Name)], value)
            case ast.Expr(value):
                self._evaluate(value)
            case ast.With():
                self.run(statement.body)
            case ast.If() | ast.For() | ast.While():
                self.branches += 1
                self.run(statement.body)
                self.run(statement.orelse)

    def _bind(self, name: str, node: ast.expr) -> None:
        finished = self._finish(name, node)
        value = self._evaluate(node) if finished is None else finished
        match node:
            case ast.Subscript(ast.Name(owner)) if owner in self._makers:
                value = self._makers[owner]  # one of several results
                value.results.pop(owner, None)
        if isinstance(value, WrittenCall):
            self._makers[name] = value
            made = value.results[name] = Tensor(name)
            value = made
        if isinstance(value, Tensor):  # one that is used again goes by its new name
            value = replace(value, name=name, first=value.first or name)
        self.names[name] = value

    def _unpack(self, names: Sequence[str], node: ast.expr) -> None:
        value = self._evaluate(node)
        if isinstance(value, _Inputs):
            self.inputs += names
            known = (value.examples.get(name) for name in names)
            value = [
                Tensor(name)
                if each is None
                else replace(each, name=name)
                if isinstance(each, Tensor)
                else each
                for name, each in zip(names, known, strict=True)
            ]
        values = value if isinstance(value, list) else []
        for place, name in enumerate(names):
            self.names[name] = values[place] if place < len(values) else Tensor(name)

    def _evaluate(self, node: ast.expr) -> Value:
        self._depth += 1
        try:
            return None if self._depth > _DEEPEST else self._value(node)
        finally:
            self._depth -= 1

    def _value(self, node: ast.expr) -> Value:
        match node:
            case ast.Constant(value):
                return value
            case ast.Name(name):
                return self.names.get(name)
            case ast.Tuple(parts) | ast.List(parts):
                return [self._evaluate(part) for part in parts]
            case ast.Attribute(ast.Name("torch"), name):
                return _Dtype(name)
            case ast.UnaryOp(ast.USub(), operand):
                value = self._evaluate(operand)
                return -value if isinstance(value, int | float) else None
            case ast.BinOp(left, kind, right):
                return _compute(type(kind), [self._evaluate(left), self._evaluate(right)])
            case ast.Subscript(owner, place):
                value, index = self._evaluate(owner), self._evaluate(place)
                inside = isinstance(value, list) and isinstance(index, int) and index < len(value)
                return value[index] if inside and index >= 0 else None
            case ast.Call():
                return self._call(node)
        return None

    def _call(self, node: ast.Call) -> Value:
        path = _path(node.func)
        given = [self._evaluate(each) for each in node.args]
        named = {each.arg: self._evaluate(each.value) for each in node.keywords if each.arg}
        name = path.removesuffix(".run")
        if name in self._kernels:
            self.calls.append(WrittenCall(name, False, given, named, _symbols(node, given)))
        elif name in self._opaque:
            self.calls.append(WrittenCall(name, True, [], {}))
        elif path in self._functions or path.startswith("self.partitions"):
            return self._enter(path, node, given)
        elif path.startswith(_OPERATORS) and not path.startswith(_PLUMBING):
            return self._operate(path, given, named)
        elif path.endswith(".copy_") and isinstance(node.func, ast.Attribute):
            target = self._evaluate(node.func.value)
            return self._operate("aten.copy_.default", [target, *given], {})
        elif path == "assert_size_stride" and len(given) > 2:
            self._learn(node.args[0], given)
        else:
            return _make(path, given, named)
        return None

    def _operate(self, path: str, given: list[Value], named: dict[str, Value]) -> Value:
        out = named.pop("out", None)
        call = WrittenCall(path, True, given, named)
        self.calls.append(call)
        if not isinstance(out, Tensor):
            return call
        call.results[out.name] = out
        return out

    def _learn(self, node: ast.expr, given: Sequence[Value]) -> None:
        """Take sizes from ``assert_size_stride(arg0_1, (64, 64), (64, 1))``."""
        if not isinstance(node, ast.Name):
            return
        name = node.id
        known = self.names.get(name)
        tensor = known if isinstance(known, Tensor) else Tensor(name)
        learnt = replace(tensor, shape=_sizes(given[1]), stride=_sizes(given[2]))
        self.names[name] = learnt
        if name in self._makers:
            self._makers[name].results[name] = learnt

    def _enter(self, path: str, node: ast.Call, given: Sequence[Value]) -> Value:
        """Follow a part of the graph that stands in a function of its own: a branch, or what a CUDA
        graph captures."""
        name = path
        if isinstance(node.func, ast.Subscript):
            name = f"partition_{self._evaluate(node.func.slice)}"
        body = self._functions.get(name, ())
        if name == "call" or self._depth > _DEEPEST // 2:
            return None
        outer, self.names = self.names, {**self.names, "args": given[0] if given else []}
        self.run(body)
        match body[-1] if body else None:
            case ast.Return(value) if value is not None:
                made = self._evaluate(value)
            case _:
                made = None
        self.names = outer
        return made

    def _finish(self, name: str, node: ast.expr) -> Tensor | None:
        """Return what ``workspace_0[…].view(2048, 8192).sum(dim=0).view([8192])`` makes, which
        finishes the results of the kernel before it; None for all else."""
        after: dict[str, list[Value]] = {}  # methods behind the one that reduces
        reducing = ""
        shape: list[Value] = []
        while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            given = [self._evaluate(each) for each in node.args]
            if node.func.attr in _REDUCING:
                reducing = node.func.attr
            elif reducing and node.func.attr == "view":
                shape = given[1:]
            elif not reducing:
                after.setdefault(node.func.attr, given)
            node = node.func.value
        workspace = self._evaluate(node.value) if isinstance(node, ast.Subscript) else None
        if not reducing or not isinstance(workspace, Tensor):
            return None
        shape = after.get("view", [shape])
        (dtype, *_) = [*after.get("to", []), _Dtype(workspace.dtype)]
        sizes = _sizes(shape[0] if shape and isinstance(shape[0], list) else shape)
        kind = dtype.name if isinstance(dtype, _Dtype) else ""
        made = Tensor(name, sizes, _strides(sizes or ()), kind)
        for call in reversed(self.calls):
            used = (each.name for each in call.arguments if isinstance(each, Tensor))
            if not call.extern and workspace.name in used:
                call.finishing.append((reducing, made))
                break
        return made


_PLUMBING = ("torch.ops.inductor._alloc_from_pool", "torch.ops._c10d_functional.wait_tensor")


def _path(node: ast.expr) -> str:
    """Return ``extern_kernels.mm``; empty for what is no path."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute):
        return _path(node.value)
    return ".".join([node.id, *reversed(names)]) if isinstance(node, ast.Name) else ""


def _symbols(node: ast.Call, given: Sequence[Value]) -> frozenset[int]:
    return frozenset(
        place
        for place, (written, value) in enumerate(zip(node.args, given, strict=True))
        if not isinstance(value, Tensor) and not isinstance(written, ast.Constant)
    )


def _make(path: str, given: Sequence[Value], named: Mapping[str, Value]) -> Value:
    """Return a tensor that is made, or made of another one; a number that is computed."""
    if path in _ALLOCATORS:
        return _allocate(given, named)
    if path == "reinterpret_tensor" and len(given) > 2 and isinstance(given[0], Tensor):
        return replace(given[0], shape=_sizes(given[1]), stride=_sizes(given[2]))
    if path == "copy_if_misaligned" and given:
        return given[0]
    return _compute(path.rpartition(".")[2], given)


def _allocate(given: Sequence[Value], named: Mapping[str, Value]) -> Tensor:
    shape, stride, *_ = [*given, None, None]
    dtypes = [each.name for each in (*given, *named.values()) if isinstance(each, _Dtype)]
    return Tensor("", _sizes(shape), _sizes(stride), dtypes[0] if dtypes else "")


def _sizes(value: Value) -> tuple[int, ...] | None:
    if not isinstance(value, list) or not all(type(each) is int for each in value):
        return None
    return tuple(value) if all(abs(each) < _LARGEST for each in value) else None


def _strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of a tensor without gaps."""
    return tuple(math.prod(shape[place + 1 :]) for place in range(len(shape)))


def _compute(kind: object, values: Sequence[Value]) -> int | float | None:
    """Return what arithmetic of sizes makes of numbers; None of others, and of nonsense."""
    count = _ARITHMETIC.get(kind)
    if count is None or not all(type(each) in (int, float) for each in values):
        return None
    try:
        found = count(*values)
        return found if abs(found) < _LARGEST else None
    except (ArithmeticError, TypeError, ValueError):
        return None


_ARITHMETIC: dict[object, Callable[..., Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv, ast.Div: operator.truediv, ast.Mod: operator.mod,
    ast.LShift: lambda a, b: a << b if b < 64 else None,
    ast.RShift: operator.rshift, ast.Pow: lambda a, b: a**b if 0 <= b < 8 else None,
    "max": max, "min": min, "ceil": math.ceil, "floor": math.floor, "trunc": math.trunc,
    "int": int, "float": float, "abs": abs, "align": lambda n: (n + 63) // 64 * 64,
}  # fmt: skip
