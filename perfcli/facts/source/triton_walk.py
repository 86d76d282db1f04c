"""Walks through a Triton kernel's syntax tree, follows pointers and inlines helpers."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from perfcli.facts.source import triton_names
from perfcli.facts.source.sweeps import name_bounds
from perfcli.facts.source.triton_names import HelperAccess, Kind
from perfcli.model import Access


@dataclass(frozen=True, slots=True)
class Value:
    """Holds what an expression may point at: kernel arguments, the likeliest first."""

    pointers: tuple[str, ...] = ()
    items: tuple[Value, ...] = ()
    """The elements, where it is a tuple."""

    def __or__(self, other: Value) -> Value:
        if self is other:  # what a branch or a loop left alone
            return self
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


@dataclass(slots=True)
class TritonWalk:
    """Holds the state of one walk: where it is, and what it has found so far."""

    functions: Mapping[str, ast.FunctionDef]
    aliases: dict[str, str]
    accesses: list[Access] = field(default_factory=list)
    reductions: int = 0
    online_softmax: bool = False
    loops: int = 0
    outermost_loops: int = 0
    depth: int = 0
    sweep: int = 0
    """The innermost loop around; 0 outside loops."""
    sweeps: dict[str, set[int]] = field(default_factory=dict)
    """Kernel argument to the sweeps that load it."""
    stops: dict[str, int] = field(default_factory=dict)
    """The variable at which a loop stops to the loop's sweep."""
    call_line: int | None = None
    """Line of the outermost call that is being inlined."""
    inlining: list[str] = field(default_factory=list)
    returned: Value = NOTHING

    def function(self, definition: ast.FunctionDef, values: Environment) -> Value:
        """Walk a function's body; its return value."""
        outer, self.returned = self.returned, NOTHING
        self.inlining.append(definition.name)
        self.block(definition.body, values)
        self.inlining.pop()
        result, self.returned = self.returned, outer
        return result

    def block(self, body: Sequence[ast.stmt], env: Environment) -> None:
        for statement in body:
            self.statement(statement, env)

    def statement(self, node: ast.stmt, env: Environment) -> None:
        match node:
            case ast.For():
                _assign(node.target, self.evaluate(node.iter, env), env)
                self.loop(node.body, env, (), self.continued(node))
                self.block(node.orelse, env)
            case ast.While():
                self.loop(node.body, env, (node.test,))
                self.block(node.orelse, env)
            case ast.If():
                self.evaluate(node.test, env)
                self.branches(node, env)
            case ast.With():
                for item in node.items:
                    self.evaluate(item.context_expr, env)
                self.block(node.body, env)
            case ast.FunctionDef() | ast.ClassDef():
                pass
            case _:
                self.simple(node, env)

    def simple(self, node: ast.stmt, env: Environment) -> None:
        match node:
            case ast.Assign():
                value = self.evaluate(node.value, env)
                for target in node.targets:
                    _assign(target, value, env)
            case ast.AnnAssign() if node.value is not None:
                _assign(node.target, self.evaluate(node.value, env), env)
            case ast.AugAssign():
                value = self.evaluate(node.value, env)
                if isinstance(node.target, ast.Name) and isinstance(node.op, ast.Add | ast.Sub):
                    env[node.target.id] = env.get(node.target.id, NOTHING) | value
            case ast.Return() if node.value is not None:
                value = self.evaluate(node.value, env)
                self.returned = value if self.returned == NOTHING else self.returned | value
            case _:
                for child in ast.iter_child_nodes(node):
                    if isinstance(child, ast.expr):
                        self.evaluate(child, env)

    def continued(self, loop: ast.For) -> int:
        """Return the sweep that a loop goes on with, because it starts at the variable that an
        earlier one stops at; 0 where it begins one."""
        start, stop = name_bounds(loop)
        sweep = self.stops.get(start, 0)
        if stop:
            self.stops[stop] = sweep or self.loops + 1
        return sweep

    def loop(
        self, body: Sequence[ast.stmt], env: Environment, tests: Sequence[ast.expr], sweep: int = 0
    ) -> None:
        """Walk a loop's body once, as part of ``sweep`` if there is one. A ``while``'s condition
        runs as often as the body does."""
        outer = self.enter_loop()
        self.sweep = sweep or self.sweep
        for test in tests:
            self.evaluate(test, env)
        before = dict(env)
        self.block(body, env)
        _merge(env, before)
        self.leave_loop(outer)

    def enter_loop(self) -> int:
        """Return the sweep to go back to behind the loop."""
        outer = self.sweep
        self.loops += 1
        self.outermost_loops += self.depth == 0
        self.depth += 1
        self.sweep = self.loops
        return outer

    def leave_loop(self, outer: int) -> None:
        self.depth -= 1
        self.sweep = outer

    def branches(self, node: ast.If, env: Environment) -> None:
        """Walk both branches, as if both ran: which one does is decided when Triton compiles."""
        other = dict(env)
        self.block(node.body, env)
        self.block(node.orelse, other)
        _merge(env, other)

    def evaluate(self, node: ast.expr, env: Environment) -> Value:
        """Count what an expression does, and say what it may point at."""
        match node:
            case ast.Name():
                return env.get(node.id, NOTHING)
            case ast.Tuple() | ast.List():
                items = tuple(self.evaluate(item, env) for item in node.elts)
                return Value(tuple(dict.fromkeys(p for v in items for p in v.pointers)), items)
            case ast.Call():
                return self.call(node, env)
            case ast.Subscript():
                return _element(self.evaluate(node.value, env), node.slice)
            case ast.NamedExpr():
                value = self.evaluate(node.value, env)
                _assign(node.target, value, env)
                return value
            case _:
                return self.combined(node, env)

    def combined(self, node: ast.expr, env: Environment) -> Value:
        """Return what a combined value points at: sums and choices keep pointers; products,
        comparisons and the like are numbers."""
        if isinstance(node, ast.Lambda):
            return NOTHING
        values = [
            self.evaluate(child, env)
            for child in ast.iter_child_nodes(node)
            if isinstance(child, ast.expr)
        ]
        match node:
            case ast.BinOp(op=ast.Add() | ast.Sub()):
                return values[0] | values[1]
            case ast.IfExp():
                return values[1] | values[2]
            case ast.Starred():
                return values[0]
            case _:
                return NOTHING

    def call(self, node: ast.Call, env: Environment) -> Value:
        arguments = [self.evaluate(argument, env) for argument in node.args]
        keywords = {k.arg or "": self.evaluate(k.value, env) for k in node.keywords}
        name = triton_names._full_name(node.func, self.aliases, env)
        if name is None:
            return self.method(node, env)
        helper = self.functions.get(name)
        if helper is not None:
            return self.inline(helper, node, arguments, keywords)
        kind = triton_names._access_kind(name)
        if kind:
            address = arguments[0] if arguments else next(iter(keywords.values()), NOTHING)
            self.access(kind, address, node.lineno, triton_names._is_masked(name, node, kind))
            return NOTHING
        if name in triton_names.LIBRARY_EFFECTS:
            self.effects(triton_names.LIBRARY_EFFECTS[name], arguments, keywords, node.lineno)
            return NOTHING
        self.reductions += triton_names._is_reduction(name)
        self.online_softmax |= name.startswith(triton_names.ONLINE_SOFTMAX)
        return _pass_through(name, arguments, keywords)

    def method(self, node: ast.Call, env: Environment) -> Value:
        """Return a method call on a local value: a descriptor's load or store, or a tensor's
        method."""
        if not isinstance(node.func, ast.Attribute):
            return self.evaluate(node.func, env)
        base = self.evaluate(node.func.value, env)
        kind = triton_names._method_kind(node.func.attr)
        if kind:
            self.access(kind, base, node.lineno, masked=False)
            return NOTHING
        self.reductions += triton_names._is_reduction_method(node.func.attr)
        return base

    def access(self, kind: Kind, address: Value, line: int, masked: bool) -> None:
        pointer = address.pointers[0] if address.pointers else ""
        if kind == "load" and pointer:
            self.sweeps.setdefault(pointer, set()).add(self.sweep)
        self.accesses.append(
            Access(
                kind=kind,
                pointer=pointer,
                line=self.call_line or line,
                loop=self.outermost_loops if self.depth else 0,
                depth=self.depth,
                masked=masked,
            )
        )

    def effects(
        self,
        effects: Sequence[HelperAccess],
        arguments: Sequence[Value],
        keywords: Mapping[str, Value],
        line: int,
    ) -> None:
        """Count what a library helper does, which has at most one loop that touches memory."""
        for in_loop in (False, True):
            chosen = [e for e in effects if e.in_loop == in_loop]
            outer = self.enter_loop() if in_loop and chosen else self.sweep
            for effect in chosen:
                positional = arguments[effect.argument : effect.argument + 1]
                address = positional[0] if positional else keywords.get(effect.name, NOTHING)
                if address.pointers:
                    self.access(effect.kind, address, line, masked=True)
            if in_loop and chosen:
                self.leave_loop(outer)

    def inline(
        self,
        helper: ast.FunctionDef,
        node: ast.Call,
        arguments: Sequence[Value],
        keywords: Mapping[str, Value],
    ) -> Value:
        if helper.name in self.inlining:
            return NOTHING
        names = [a.arg for a in (*helper.args.posonlyargs, *helper.args.args)]
        known = {a.arg: NOTHING for a in helper.args.kwonlyargs} | dict.fromkeys(names, NOTHING)
        values = known | dict(zip(names, arguments, strict=False)) | dict(keywords)
        outermost = self.call_line is None
        if outermost:
            self.call_line = node.lineno
        result = self.function(helper, values)
        if outermost:
            self.call_line = None
        return result
