"""Rewrites persistent reductions so that rows of half precision are kept as they were loaded.

A persistent reduction loads a row once, converts it to float32, reduces it, and uses it again, to
scale it for instance. In between, the float32 values wait in registers: twice as many as the 16-bit
values that they were made of. Rewritten (pytorch #179711), the kernel converts what it loaded once
more behind each reduction. Triton and ptxas would take the conversions for one; a piece of assembly
that changes nothing, of which they cannot know that, keeps them apart.

What all rows share (weights) and is used behind the reduction only is loaded there. It comes from a
cache, and would have to wait in registers, too.

The text is read as a syntax tree; what does not look as Inductor of torch 2.11 to 2.13 writes it is
left alone.
"""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Sequence
from dataclasses import dataclass

from perfcli.compile.patches.kernel_text import ParsedKernel, Unfit, list_calls, list_names

MARK = "recompute_half_inputs"
"""The entry of ``inductor_meta`` of a rewritten kernel: how many elements a thread may have where
rows are longer than Inductor holds."""
_ELEMENTS = (8, 16, 32)
_HALF = {"*bf16": "tl.bfloat16", "*fp16": "tl.float16"}
_REDUCTION = re.compile(
    r"(tl\.(sum|max|min|reduce|argmax|argmin|xor_sum)|triton_helpers\.(max2|min2|prod|any"
    r"|max_with_index|min_with_index|online_softmax_reduce|welford))\("
)
_COPY = re.compile(r"(\w+)\.to\(tl\.float32\)|tl\.broadcast_to\((\w+), \[XBLOCK, R0_BLOCK\]\)")
"""What has the same values as the variable that it names."""
_FUNCTION = re.compile(r"libdevice\.|tl_math\.| / ")
_ROW, _COLUMN = re.compile(r"x(\d+|index)"), re.compile(r"r0_(\d+|index)")


def holds_rows(source: str) -> bool:
    """Return whether this is a persistent reduction of half precision for an NVIDIA GPU, where a
    copy may be held."""
    return (
        "@triton_heuristics.persistent_reduction(" in source
        and "DeviceProperties(type='cuda'" in source
        and any(f"'{kind}'" in source for kind in _HALF)
    )


def keep_halves(source: str, usual: int) -> str | None:
    """Return the module's text with no float32 copies of whole rows kept behind reductions; None if
    it is left alone, because it keeps none or is not understood. Rows longer than ``usual`` are
    marked in any case, for the launch configurations that they need."""
    try:
        return _Kernel(source).rewrite(usual)
    except Unfit:
        return None


@dataclass(slots=True)
class _Load:
    """Holds one load and what is known of it."""

    statement: ast.Assign
    name: str
    pointer: str
    half: str
    """The type of its elements, if they are a row's, and have half precision; else empty."""
    shared: bool
    """Whether all rows load the same."""
    copies: set[str]
    """The variables with its values as float32."""


class _Kernel:
    def __init__(self, source: str) -> None:
        self.text = ParsedKernel(source, "persistent_reduction")
        self.body = self.text.function.body
        if any(not isinstance(s, ast.Assign | ast.AnnAssign | ast.Expr) for s in self.body):
            raise Unfit  # a loop over rows (mix-order), or a branch
        self.stages = _count_reductions(self.body)
        if not self.stages[-1]:
            raise Unfit
        self.loads = [load for s in self.body if (load := self._read_load(s)) is not None]

    def _read_load(self, statement: ast.stmt) -> _Load | None:
        if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Name):
            return None
        loads = [c for c in list_calls(statement) if ast.unparse(c.func) == "tl.load" and c.args]
        if len(loads) != 1:
            return None
        (load,) = loads
        address = load.args[0]
        if not isinstance(address, ast.BinOp) or not isinstance(address.left, ast.Name):
            return None
        names = [n.id for n in list_names(address.right)]
        by_row, by_column = (any(map(p.fullmatch, names)) for p in (_ROW, _COLUMN))
        converted = ast.unparse(statement.value) == f"{ast.unparse(load)}.to(tl.float32)"
        kind = _HALF.get(self.text.types.get(address.left.id, ""), "")
        name = statement.targets[0].id
        known = converted and by_row and by_column
        indices = all(_COLUMN.fullmatch(n) or n == "None" for n in names)
        return _Load(
            statement,
            name,
            address.left.id,
            kind if known else "",
            by_column and indices,
            self._find_copies(name),
        )

    def _find_copies(self, name: str) -> set[str]:
        found = {name}
        for statement in self.body:
            if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
                copied = _COPY.fullmatch(ast.unparse(statement.value))
                if copied and (copied[1] or copied[2]) in found:
                    found.add(statement.targets[0].id)
        return found

    def rewrite(self, usual: int) -> str:
        held = [load for load in self.loads if load.half and self._stages_of(load)]
        if not held and int(self.text.assigned("R0_BLOCK") or 0) <= usual:
            raise Unfit
        behind: dict[int, list[str]] = {}
        renamed: dict[int, dict[str, str]] = {}
        edits: dict[int, tuple[ast.stmt, list[str]]] = {}
        for load in held:
            value = ast.unparse(load.statement.value).removesuffix(".to(tl.float32)")
            lines = [
                f"{load.name}_half = {value}",
                f"{load.name} = {load.name}_half.to(tl.float32)",
            ]
            edits[id(load.statement)] = (load.statement, lines)
            again = ""
            for stage in self._stages_of(load):
                if not again or not self._is_dear(load, stage):
                    again = f"{load.name}_again{stage}"
                    behind.setdefault(stage, []).append(_write_again(load, again))
                renamed.setdefault(stage, {}).update(dict.fromkeys(load.copies, again))
        moved = self._move_shared(edits)
        for at, statement in enumerate(self.body):
            if id(statement) in edits:
                continue
            names = renamed.get(self.stages[at], {})
            new = ast.unparse(_Renaming(names).visit(copy.deepcopy(statement)))
            lines = [*moved.get(id(statement), ()), new]
            stage = self.stages[at + 1]
            if stage != self.stages[at]:
                lines += behind.get(stage, [])
            if lines != [ast.unparse(statement)]:
                edits[id(statement)] = (statement, lines)
        return self.text.write(list(edits.values()), (), (MARK, _ELEMENTS))

    def _stages_of(self, load: _Load) -> list[int]:
        """Return behind which reductions its values are used."""
        at = self.body.index(load.statement)
        used = {
            self.stages[n]
            for n, statement in enumerate(self.body)
            if n > at
            and any(name.id in load.copies for name in _read(statement))
            and not self._is_copy(statement, load)
        }
        return sorted(stage for stage in used if stage > self.stages[at])

    def _is_dear(self, load: _Load, stage: int) -> bool:
        """Return whether functions were applied to its values between an earlier reduction and this
        one: an exponential, say, that would be computed anew of values that are converted anew."""
        derived = set(load.copies)
        for at, statement in enumerate(self.body):
            if self.stages[at] in (0, stage) or not any(n.id in derived for n in _read(statement)):
                continue
            if _FUNCTION.search(ast.unparse(statement)):
                return self.stages[at] < stage
            derived |= {n.id for n in list_names(statement) if isinstance(n.ctx, ast.Store)}
        return False

    def _is_copy(self, statement: ast.stmt, load: _Load) -> bool:
        return isinstance(statement, ast.Assign) and all(
            isinstance(t, ast.Name) and t.id in load.copies for t in statement.targets
        )

    def _move_shared(self, edits: dict[int, tuple[ast.stmt, list[str]]]) -> dict[int, list[str]]:
        """Take what all rows load and no reduction needs out of its place, and return it by the
        statement in front of which it belongs."""
        moved: dict[int, list[str]] = {}
        calls = [c for s in self.body for c in list_calls(s)]
        stores = [c for c in calls if ast.unparse(c.func).startswith(("tl.store", "tl.atomic"))]
        written = {n.id for c in stores for n in list_names(c.args[0])}
        for load in self.loads:
            at = self.body.index(load.statement)
            users = [n for n, s in enumerate(self.body) if any(u.id == load.name for u in _read(s))]
            late = bool(users) and self.stages[users[0]] > self.stages[at]
            if load.shared and late and load.pointer not in written:
                edits[id(load.statement)] = (load.statement, [])
                first = id(self.body[users[0]])
                moved.setdefault(first, []).append(ast.unparse(load.statement))
        return moved


def _count_reductions(body: Sequence[ast.stmt]) -> list[int]:
    """Return how many reductions there are in front of each statement, and at last of all."""
    counts = [0]
    for statement in body:
        counts.append(counts[-1] + bool(_REDUCTION.search(ast.unparse(statement))))
    return counts


def _read(statement: ast.stmt) -> list[ast.Name]:
    return [name for name in list_names(statement) if isinstance(name.ctx, ast.Load)]


def _write_again(load: _Load, again: str) -> str:
    """Return what converts a row once more."""
    return (
        f"{again} = tl.inline_asm_elementwise('mov.b32 $0, $1;', '=r,r', [{load.name}_half], "
        f"dtype={load.half}, is_pure=False, pack=2).to(tl.float32)"
    )


class _Renaming(ast.NodeTransformer):
    def __init__(self, names: dict[str, str]) -> None:
        self.names = names

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if isinstance(node.ctx, ast.Load):
            node.id = self.names.get(node.id, node.id)
        return node
