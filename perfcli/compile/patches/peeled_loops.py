"""Rewrites the loops of a generated Triton reduction: whole tiles without a mask, then the rest.

Inductor reads a row of 50,257 columns in tiles of 2048 and masks every tile, though only the last
needs it. The mask costs a comparison and a selection for each element, and Triton loads one element
at a time where it cannot see that neighbours are masked alike. Peeled (pytorch #179941), a loop is

* a loop over whole tiles, whose mask is constantly true, and
* the same loop over what is left, masked as before.

Without the mask, a load is as wide as its address allows. Rows of 50,257 bfloat16 begin anywhere,
so that elements would still be loaded one by one. Tiles of the first loop therefore begin with the
row's first whole cache line (``r0_head``): at a multiple of 16 bytes a load would be as wide, but a
warp's loads would cross lines, and its stores would share sectors with other warps. The second loop
also takes the few elements in front of that line. Where rows of several buffers begin at different
places, the tiles are those of most accesses.

An online softmax takes two exponentials per element, to keep a maximum and a sum for each element
of the tile. Here, neighbours share them: their maximum first, then one exponential for each and one
for the sum so far.

Which lane has which element changes. No element is handled twice or left out, so only what depends
on the order within a tile (scans) is affected; such kernels are left alone, and so is everything
that does not look as Inductor of torch 2.11 to 2.13 writes it.
"""

from __future__ import annotations

import ast
import copy
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from perfcli.compile.patches.kernel_text import ParsedKernel, Unfit, list_calls, list_names

MARK = "loop_peeling"
"""The entry of ``inductor_meta`` that says how many neighbours a peeled kernel loads at once."""
_VECTOR_BYTES = 16
_LINE_BYTES = 128
_ITEM_BYTES = {
    **dict.fromkeys(("i1", "i8", "u8", "fp8e4nv", "fp8e5"), 1),
    **dict.fromkeys(("i16", "u16", "fp16", "bf16"), 2),
    **dict.fromkeys(("i32", "u32", "fp32"), 4),
    **dict.fromkeys(("i64", "u64", "fp64"), 8),
}
_RANGES = ("tl.range(0, r0_numel, R0_BLOCK)", "range(0, r0_numel, R0_BLOCK)")
_INDEX, _MASK = "r0_index = r0_offset + r0_base", "r0_mask = r0_index < r0_numel"
_OFFSET = "roffset = r0_offset"
_SHAPES = {
    "tl.arange(0, R0_BLOCK)": ("[R0_BLOCK]", ""),
    "tl.arange(0, R0_BLOCK)[None, :]": ("[XBLOCK, R0_BLOCK]", "[None, :]"),
}
"""What ``r0_base`` is, with a tile's shape and how a row's vector becomes part of it."""
_ORDERED = re.compile(r"scan|sort|cumsum|cumprod|block_ptr|descriptor|barrier|inline_asm")
"""Calls whose result depends on the order in a tile, and those that are not understood here."""


@dataclass(frozen=True, slots=True)
class _Access:
    """Holds a load or store whose address grows by one from column to column."""

    call: ast.Call
    row: str
    """The rest of the address, where the row begins; empty where that is the buffer's start."""
    movable: bool
    """Whether the row's start is known before the loop and differs from row to row."""
    aligned: bool
    """Whether each row begins at a multiple of 16 bytes."""
    vector: int
    """Elements in 16 bytes."""


@dataclass(frozen=True, slots=True)
class _Loop:
    node: ast.For
    accesses: tuple[_Access, ...]
    row: str
    """Tiles begin at multiples of 16 bytes from here; empty: where the row does."""
    barrier: bool
    """Whether it reads what an earlier loop wrote, or the reverse. Another lane may have done
    that, as is the case without peeling wherever layouts differ."""


@dataclass(frozen=True, slots=True)
class _Softmax:
    """Holds one online softmax: the statements in the loop, and the variables."""

    combine: ast.Assign
    targets: ast.expr
    """The next maximum and sum."""
    keeps: tuple[ast.stmt, ...]
    starts: tuple[ast.Assign, ...]
    maximum: str
    total: str
    value: str
    mask: str
    fast: str


def has_masked_loops(source: str) -> bool:
    """Return whether this is a reduction that masks the tiles of a loop."""
    return "@triton_heuristics.reduction(" in source and _MASK in source


def peel_loops(source: str) -> str | None:
    """Return the module's text with its reduction loops peeled; None if it is left alone."""
    try:
        return _Kernel(source).rewrite()
    except Unfit:
        return None


class _Kernel:
    """Holds a kernel that was read, to be written anew."""

    def __init__(self, source: str) -> None:
        self.text = ParsedKernel(source, "reduction")
        self.function = self.text.function
        nodes = [n for n in ast.walk(self.function) if isinstance(n, ast.For | ast.While | ast.If)]
        calls = (ast.unparse(c.func) for c in list_calls(self.function))
        self.shape, self.expanded = _SHAPES.get(self.text.assigned("r0_base"), ("", ""))
        if (
            not self.shape
            or not nodes
            or any(map(_ORDERED.search, calls))
            or any(n.id in _OURS for n in list_names(self.function))
        ):
            raise Unfit
        self.loops = self._read_loops(nodes)
        self.vector = max(a.vector for loop in self.loops for a in loop.accesses)

    def _read_loops(self, nodes: Sequence[ast.AST]) -> tuple[_Loop, ...]:
        loops: list[_Loop] = []
        loaded: set[str] = set()
        stored: set[str] = set()
        for node in nodes:
            if not isinstance(node, ast.For) or node not in self.function.body:
                raise Unfit
            _check_loop(node)
            loads, stores = _pointers(node, "tl.load"), _pointers(node, "tl.store")
            barrier = bool(stored & (loads | stores) or loaded & stores)
            loaded, stored = loaded | loads, stored | stores
            accesses = tuple(self._read_accesses(node))
            loops.append(_Loop(node, accesses, _choose_row(accesses), barrier))
        if not any(loop.accesses for loop in loops):
            raise Unfit  # nothing lies side by side along the reduction: nothing gets wider
        return tuple(loops)

    def _read_accesses(self, loop: ast.For) -> Iterator[_Access]:
        varying = {n.id for n in list_names(loop) if isinstance(n.ctx, ast.Store)}
        columns = {
            ast.unparse(s.targets[0])
            for s in loop.body
            if isinstance(s, ast.Assign) and ast.unparse(s.value) == "r0_index"
        }
        for call in list_calls(loop):
            address = call.args[0] if call.args else None
            if ast.unparse(call.func) not in ("tl.load", "tl.store"):
                continue
            if not isinstance(address, ast.BinOp) or not isinstance(address.left, ast.Name):
                continue
            size = _ITEM_BYTES.get(self.text.types.get(address.left.id, "")[1:])
            terms = _terms(address.right)
            rest = [t for t in terms if not (isinstance(t, ast.Name) and t.id in columns)]
            names = {n.id for t in rest for n in list_names(t)}
            if size is None or len(rest) != len(terms) - 1 or names & varying:
                continue
            vector = _VECTOR_BYTES // size
            aligned = all(_is_multiple(t, vector) for t in rest)
            row = " + ".join(map(ast.unparse, rest))
            yield _Access(call, row, bool(names), aligned, vector)

    # --- writing

    def rewrite(self) -> str:
        softmaxes = [s for loop in self.loops for s in self._read_softmaxes(loop)]
        edits: list[tuple[ast.stmt, list[str]]] = [
            (loop.node, self._peel(loop, softmaxes)) for loop in self.loops
        ]
        edits += [(start, [_narrow(start)]) for each in softmaxes for start in each.starts]
        size = f"{self.vector} if R0_BLOCK > {self.vector} else R0_BLOCK"
        first = [f"R0_VECTOR: tl.constexpr = {size}"]
        return self.text.write(edits, first, (MARK, self.vector))

    def _peel(self, loop: _Loop, softmaxes: Sequence[_Softmax]) -> list[str]:
        """Return the lines of both loops, and of what they need."""
        before, whole, rest = (
            ["r0_full = r0_numel // R0_BLOCK * R0_BLOCK"],
            [_INDEX],
            [_INDEX, _MASK],
        )
        hinted: set[tuple[int, int]] = set()
        if loop.row:
            before = self._write_head(loop.row)
            whole = [f"{_INDEX} + r0_head"]
            rest += [
                "r0_index = tl.where(r0_index < r0_full + r0_head, r0_index - r0_full, r0_index)"
            ]
            hinted = {_place(a.call) for a in loop.accesses if a.row == loop.row}
        whole += [f"r0_mask = tl.full([R0_BLOCK], True, tl.int1){self.expanded}"]
        return [
            *["tl.debug_barrier()"] * loop.barrier,
            *before,
            "for r0_offset in tl.range(0, r0_full, R0_BLOCK):",
            *(f"    {line}" for line in (*whole, *self._write_body(loop, softmaxes, hinted))),
            "for r0_offset in tl.range(r0_full, r0_numel, R0_BLOCK):",
            *(f"    {line}" for line in (*rest, *self._write_body(loop, softmaxes, set()))),
        ]

    def _write_head(self, row: str) -> list[str]:
        """Return what sets ``r0_head``, the elements in front of a row's first whole cache line,
        and ``r0_full``, the elements of whole tiles wherever the row begins."""
        most = self.vector * _LINE_BYTES // _VECTOR_BYTES - 1
        columns = "r0_numel" if self._columns() >= most else f"tl.maximum(r0_numel, {most})"
        return [
            f"r0_head = (-({row}) & {most}).to(tl.int32)",
            f"r0_full = ({columns} - {most}) // R0_BLOCK * R0_BLOCK",
        ]

    def _columns(self) -> int:
        """Return how many columns there are; 0 where it is not static."""
        text = self.text.assigned("r0_numel")
        return int(text) if text.isdigit() else 0

    def _write_body(
        self, loop: _Loop, softmaxes: Sequence[_Softmax], hinted: set[tuple[int, int]]
    ) -> Iterator[str]:
        kept = {id(s): s for s in loop.node.body[2:]}
        for each in softmaxes:
            for statement in each.keeps:
                kept.pop(id(statement), None)
        groups = {id(each.combine): each for each in softmaxes}
        hints = _Hints(hinted, "[1, R0_VECTOR]" if self.expanded else "[R0_VECTOR]")
        for key, statement in kept.items():
            if key in groups:
                yield from self._write_group(groups[key])
            else:
                yield from ast.unparse(hints.visit(copy.deepcopy(statement))).splitlines()

    # --- online softmax

    def _read_softmaxes(self, loop: _Loop) -> Iterator[_Softmax]:
        names = Counter(n.id for n in list_names(self.function))
        for at, statement in enumerate(loop.node.body):
            softmax = _read_combination(statement, loop.node.body[at + 1 : at + 3])
            if softmax is None:
                continue
            variables = (softmax.maximum, softmax.total)
            starts = tuple(
                s
                for s in self.function.body
                if isinstance(s, ast.Assign) and ast.unparse(s.targets[0]) in variables
            )
            # A variable is set, then named three times in the loop, then reduced; its next value
            # is named twice.
            counts = [names[n] for n in (*variables, *(t.id for t in list_names(softmax.targets)))]
            shaped = all(self.shape in ast.unparse(s) for s in starts)
            if len(starts) == 2 and counts == [5, 5, 2, 2] and shaped:
                yield replace(softmax, starts=starts)

    def _is_inner(self, softmax: _Softmax) -> bool:
        """Return whether the maximum is used in loops alone, beside the sum. Then it need not be
        NaN where an element is, as the sum is, and takes one instruction instead of three."""
        outside = [s for s in self.function.body if not isinstance(s, ast.For)]
        for statement in outside:
            if isinstance(statement, ast.Assign) and ast.unparse(statement.value).startswith(
                f"triton_helpers.online_softmax_reduce({softmax.maximum}, "
            ):
                name = list_names(statement.targets[0])[0].id
                uses = [s for s in outside if any(n.id == name for n in list_names(s))]
                return all(s is statement or _reshapes(s, name) for s in uses)
        return False

    def _write_group(self, softmax: _Softmax) -> list[str]:
        """Return an online softmax's step that takes neighbours together."""
        name, fast = softmax.maximum, softmax.fast
        shape = f"[{self.shape[1:-1].replace('R0_BLOCK', _NARROW)}, R0_VECTOR]"
        axis, wide = (2, "[:, :, None]") if self.expanded else (1, "[:, None]")
        value = f"tl.where({softmax.mask}, {softmax.value}, float('-inf'))"
        largest = "tl.max" if self._is_inner(softmax) else "triton_helpers.max2"
        return [
            f"{name}_group = tl.reshape({value}, {shape})",
            f"{name}_next = triton_helpers.maximum({name}, {largest}({name}_group, {axis}))",
            # A lane that has seen nothing but -inf would compute -inf - -inf.
            f"{name}_base = tl.where({name}_next == float('-inf'), 0.0, {name}_next)",
            f"{softmax.total} = {softmax.total} * triton_helpers.exp({name} - {name}_base, {fast})"
            f" + tl.sum(triton_helpers.exp({name}_group - {name}_base{wide}, {fast}), {axis})",
            f"{name} = {name}_next",
        ]


_NARROW = "R0_BLOCK // R0_VECTOR"
_OURS = {"r0_head", "r0_full", "R0_VECTOR"}


class _Hints(ast.NodeTransformer):
    """Says of addresses that they are multiples of a vector."""

    def __init__(self, places: set[tuple[int, int]], sizes: str) -> None:
        self.places, self.sizes = places, sizes

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if _place(node) in self.places and isinstance(node.args[0], ast.BinOp):
            address = ast.unparse(node.args[0].right)
            node.args[0].right = ast.parse(
                f"tl.multiple_of({address}, {self.sizes})", mode="eval"
            ).body
        return node


def _read_combination(statement: ast.stmt, keeps: Sequence[ast.stmt]) -> _Softmax | None:
    """Return the online softmax that the statement and the two behind it compute; None if they are
    something else."""
    found = _COMBINE.fullmatch(ast.unparse(statement))
    if found is None or not isinstance(statement, ast.Assign) or len(keeps) != 2:
        return None
    next_maximum, next_total, maximum, total, value, fast = found.groups()
    mask = re.match(r"\w+ = tl\.where\((.+?), \w+, \w+\)$", ast.unparse(keeps[0]))
    if mask is None or [ast.unparse(s) for s in keeps] != [
        f"{maximum} = tl.where({mask[1]}, {next_maximum}, {maximum})",
        f"{total} = tl.where({mask[1]}, {next_total}, {total})",
    ]:
        return None
    return _Softmax(
        statement, statement.targets[0], tuple(keeps), (), maximum, total, value, mask[1], fast
    )


_COMBINE = re.compile(
    r"\(?(\w+), (\w+)\)? = triton_helpers\.online_softmax_combine\((\w+), (\w+), (\w+), (\w+)\)"
)


def _reshapes(statement: ast.stmt, name: str) -> bool:
    return ast.unparse(statement) in (f"{name} = {name}[:, None]", f"{name} = {name}[None]")


def _narrow(start: ast.Assign) -> str:
    """Return an accumulator's first value with one element for each vector."""
    return ast.unparse(start).replace("R0_BLOCK]", f"{_NARROW}]", 1)


# --- reading -------------------------------------------------------------------------------------


def _check_loop(node: ast.For) -> None:
    """Raise ``Unfit`` if the loop does not begin as Inductor's do, or uses what will differ."""
    body = [ast.unparse(s) for s in node.body]
    rest = [text.replace("roffset == 0", "") for text in body[2:] if text != _OFFSET]
    changed = {n.id for s in node.body[2:] for n in list_names(s) if isinstance(n.ctx, ast.Store)}
    if (
        body[:2] != [_INDEX, _MASK]
        or ast.unparse(node.target) != "r0_offset"
        or ast.unparse(node.iter) not in _RANGES
        or changed & {"r0_index", "r0_mask", "r0_offset"}
        or any(re.search(r"\b(r0_|r)offset\b", text) for text in rest)
    ):
        raise Unfit


def _choose_row(accesses: Sequence[_Access]) -> str:
    """Return the row whose start most of what is loaded and stored in a loop is counted from; empty
    where as much lies at multiples of 16 bytes from the columns' own start."""

    def gain(row: str) -> int:
        return sum(a.vector - 1 for a in accesses if (a.row == row if row else a.aligned))

    rows = dict.fromkeys(a.row for a in accesses if a.movable and not a.aligned)
    return max(("", *rows), key=gain)


def _terms(address: ast.expr) -> list[ast.expr]:
    if isinstance(address, ast.BinOp) and isinstance(address.op, ast.Add):
        return [*_terms(address.left), *_terms(address.right)]
    return [address]


def _is_multiple(term: ast.expr, size: int) -> bool:
    """Return whether the term is a multiple of a number, whatever its variables are."""
    if isinstance(term, ast.Constant):
        return isinstance(term.value, int) and term.value % size == 0
    if isinstance(term, ast.BinOp) and isinstance(term.op, ast.Mult):
        return _is_multiple(term.left, size) or _is_multiple(term.right, size)
    return False


def _pointers(loop: ast.For, function: str) -> set[str]:
    """Return the arguments whose elements the loop loads, or stores."""
    return {
        n.id
        for c in list_calls(loop)
        if ast.unparse(c.func) == function and c.args
        for n in list_names(c.args[0])
        if "_ptr" in n.id
    }


def _place(node: ast.expr) -> tuple[int, int]:
    return node.lineno, node.col_offset
