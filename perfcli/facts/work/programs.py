"""Runs the index arithmetic of a kernel's TTGIR for a few programs: trip counts, addresses, masks.

Whole numbers are numpy arrays whose first axis is the program; a tensor keeps axes of size 1 where
all of its elements are alike, so that most operations touch a few numbers. What is computed from
floating-point data is not known (None). An index that was loaded is taken to be the number of its
own element: neighbours load neighbours, which is what most index tensors hold.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from perfcli.facts.work.ttgir import (
    ELEMENT_BYTES,
    Module,
    Operation,
    TensorType,
    UnreadableTtgir,
    _parse_tensor,
    _split_types,
)

Numbers = np.ndarray[Any, Any]
MOST_ITERATIONS = 2
"""Iterations of a loop that are run; they stand for all of them."""
_SHORT_LOOP = 6
"""Iterations: of a shorter loop the first ones are run, of a longer one those in its middle."""


_MOVES_MEMORY = re.compile(
    r"descriptor|tma_|tensormap|load|store|atomic|gather|scatter|global_to|to_global"
)
"""Names of operations that read or write global memory, or prepare to."""
_ON_CHIP = re.compile(r"ttg\.local_|ttng\.tmem_|tt\.gather$")
"""Names of those that move data between registers, shared memory and tensor memory alone."""


class _DivergentPrograms(ValueError):
    """Says that the programs of one batch take different branches or trip counts: they have to be
    run one by one."""


@dataclass(frozen=True, slots=True)
class _Pointer:
    """Holds byte offsets from the start of an argument's buffer."""

    base: str
    offset: Numbers
    element_bytes: int
    known: bool = True
    """Whether all that was added to it could be computed."""


Value = Numbers | _Pointer | None


@dataclass(frozen=True, slots=True)
class MemoryEvent:
    """Holds one load, store or atomic of one iteration, for all programs of the batch."""

    kind: Literal["load", "store", "atomic"]
    line: int
    base: str
    element_bytes: int
    offset: Numbers
    """Bytes, (programs or 1, *tensor's axes or 1)."""
    mask: Numbers | None
    tensor: TensorType | None
    """None for a single element."""
    loops: tuple[int, ...]
    """Lines of the enclosing loops, outermost first."""
    iteration: int
    """Which of the iterations that were run."""
    weight: float
    """How many runs this one stands for."""
    indirect: bool
    """Whether its address depends on loaded data."""
    keep: bool
    """Marked ``evict_last``: it will be read again."""
    known: bool = True
    """Whether its address could be computed; where not, what is missing of it counts as 0."""


@dataclass(slots=True)
class Execution:
    """Holds what a batch of programs did."""

    programs: int
    events: list[MemoryEvent] = field(default_factory=list)
    line_runs: dict[int, float] = field(default_factory=dict)
    """Source line to how often it runs in one program."""
    trips: dict[int, float] = field(default_factory=dict)
    """Line of a loop to its iterations, all entries together."""
    counters: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Line of a loop to the iterations of one entry, and to what its counter grows by."""
    reductions: list[tuple[Operation, float]] = field(default_factory=list)
    """Reductions of a tensor within the block, and how often each runs."""
    unknown_loops: bool = False
    """Whether a trip count depends on data; one iteration is assumed."""


def run_programs(
    module: Module,
    arguments: Mapping[str, int],
    grid: tuple[int, int, int],
    programs: Sequence[tuple[int, int, int]],
) -> list[Execution]:
    """Run some programs of a launch: together where they take the same way, else one by one.

    ``arguments`` has the values of the arguments that are whole numbers, by name without ``%``.
    Raises UnreadableTtgir where an operation moves memory in a way that is not known."""
    try:
        return [_Batch(module, arguments, grid, programs).execute()]
    except _DivergentPrograms:
        return [_Batch(module, arguments, grid, [one]).execute() for one in programs]


def _sample_programs(grid: tuple[int, int, int], count: int) -> list[tuple[int, int, int]]:
    """Return programs spread over the grid: the first, the last, and some in between (the golden
    ratio keeps them off multiples of the grid's own periods)."""
    total = grid[0] * grid[1] * grid[2]
    if total <= count:
        numbers = list(range(total))
    else:
        between = (int(total * ((0.5 + 0.6180339887 * n) % 1)) for n in range(count - 2))
        numbers = sorted({0, total - 1, *between})
    return [(n % grid[0], n // grid[0] % grid[1], n // (grid[0] * grid[1])) for n in numbers]


class _Batch:
    """Walks over the operations once, for all programs of a batch."""

    def __init__(
        self,
        module: Module,
        arguments: Mapping[str, int],
        grid: tuple[int, int, int],
        programs: Sequence[tuple[int, int, int]],
    ) -> None:
        self._module = module
        self._grid = grid
        self._ids = np.array(programs, dtype=np.int64).T  # axis, program
        self._done = Execution(len(programs))
        self._values: dict[str, Value] = {}
        self._loaded: set[str] = set()
        self._runs: dict[int, float] = {}
        self._weight = 1.0
        self._loops: tuple[int, ...] = ()
        self._iteration = 0
        for name, type_text in module.main.arguments:
            pointee = re.match(r"!tt\.ptr<(\w+)>", type_text)
            if pointee:
                size = ELEMENT_BYTES.get(pointee[1], 4)
                self._values[name] = _Pointer(name[1:], np.zeros(1, dtype=np.int64), size)
            elif name[1:] in arguments:
                self._values[name] = np.array([arguments[name[1:]]], dtype=np.int64)

    def execute(self) -> Execution:
        self._run(self._module.main.body)
        return self._done

    def _run(self, operations: Sequence[Operation]) -> list[Value]:
        """Run a region, and return the values that it yields."""
        yielded: list[Value] = []
        for operation in operations:
            self._count(operation)
            if operation.name in ("scf.yield", "scf.condition", "tt.return"):
                yielded = [self._values.get(name) for name in operation.operands]
                continue
            step = _STRUCTURED.get(operation.name)
            if step is not None:
                step(self, operation)
                continue
            self._simple(operation)
        return yielded

    def _count(self, operation: Operation) -> None:
        """Count a run of the operation's line, which runs as often as the one of its operations
        that runs most."""
        key = id(operation)
        self._runs[key] = self._runs.get(key, 0.0) + self._weight
        lines = self._done.line_runs
        if operation.line and lines.get(operation.line, 0.0) < self._runs[key]:
            lines[operation.line] = self._runs[key]

    def _simple(self, operation: Operation) -> None:
        values = [self._values.get(name) for name in operation.operands]
        depends = any(name in self._loaded for name in operation.operands)
        # Names are unique within a region only: another loop's load may have had this one.
        self._loaded.difference_update(operation.results)
        compute = _COMPUTE.get(operation.name)
        if compute is not None:
            self._set(operation, [compute(self, operation, values)])
        else:
            self._skip(operation)
        if depends:
            self._loaded.update(operation.results)

    def _set(self, operation: Operation, values: Sequence[Value]) -> None:
        for number, name in enumerate(operation.results):
            self._values[name] = values[number] if number < len(values) else None

    def _skip(self, operation: Operation) -> None:
        """Leave an operation out whose results are not known. One that moves memory can't be: the
        launch would be taken to move less than it does."""
        if (name := _find_move(operation)) is not None:
            raise _unknown_move(name, operation)
        self._set(operation, [])

    # --- structured operations

    def _if(self, operation: Operation) -> None:
        condition = self._values.get(operation.operands[0])
        if isinstance(condition, _Pointer) or condition is None:
            taken = True
        else:
            taken = self._agreed(condition) != 0
        regions = operation.regions
        region = regions[0] if taken else (regions[1] if len(regions) > 1 else ())
        self._set(operation, self._run(region))

    def _for(self, operation: Operation) -> None:
        head = re.match(
            r"\s*(?:unsigned )?(%[\w$.-]+) = (%[\w$.#-]+) to (%[\w$.#-]+) step (%[\w$.#-]+)",
            operation.text,
        )
        if head is None:
            self._skip(operation)
            return
        first, last, step = (self._bound(name) for name in head.group(2, 3, 4))
        first, step = first or 0, max(step or 1, 1)
        if last is None:
            self._done.unknown_loops = True
            last = first + step
        trips = max(0, -(-(last - first) // step))
        carried, values = self._carried(operation)
        line = operation.line
        self._done.trips[line] = self._done.trips.get(line, 0.0) + trips * self._weight
        self._done.counters[line] = trips, step
        outer = self._weight, self._loops, self._iteration
        count = min(trips, MOST_ITERATIONS)
        start = 0 if trips < _SHORT_LOOP else trips // 2
        for number in range(count):
            self._values[head[1]] = np.array([first + (start + number) * step], dtype=np.int64)
            self._values.update(zip(carried, values, strict=False))
            self._weight = outer[0] * trips / count
            self._loops, self._iteration = (*outer[1], line), number
            values = self._run(operation.regions[0]) or values
        self._weight, self._loops, self._iteration = outer
        self._set(operation, values)

    def _while(self, operation: Operation) -> None:
        """Run a loop once, since data decides how often it runs."""
        self._done.unknown_loops = True
        for name, initial in re.findall(r"(%[\w$.-]+) = (%[\w$.#-]+)", operation.text):
            self._values[name] = self._values.get(initial)
        values: list[Value] = []
        for region in operation.regions:
            values = self._run(region) or values
        self._set(operation, values)

    def _call(self, operation: Operation) -> None:
        """Run a function that was not inlined."""
        called = re.match(r"\s*@([\w$.]+)", operation.text)
        function = self._module.functions.get(called[1]) if called else None
        if function is None:
            raise _unknown_move(operation.name, operation)
        for (name, _), given in zip(function.arguments, operation.operands, strict=False):
            self._values[name] = self._values.get(given)
        self._set(operation, self._run(function.body))

    def _reduce(self, operation: Operation) -> None:
        self._done.reductions.append((operation, self._weight))
        self._set(operation, [])

    def _carried(self, operation: Operation) -> tuple[list[str], list[Value]]:
        found = re.search(r"iter_args\((.*?)\)\s*(?:->|:|$)", operation.text)
        pairs = re.findall(r"(%[\w$.-]+) = (%[\w$.#-]+)", found[1]) if found else []
        return [name for name, _ in pairs], [self._values.get(given) for _, given in pairs]

    def _bound(self, name: str) -> int | None:
        value = self._values.get(name)
        if value is None or isinstance(value, _Pointer):
            return None
        return int(self._agreed(value))

    def _agreed(self, value: Numbers) -> int:
        flat = np.asarray(value).reshape(-1)
        if flat.size > 1 and not np.all(flat == flat[0]):
            raise _DivergentPrograms
        return int(flat[0])

    # --- memory

    def _memory(
        self,
        kind: Literal["load", "store", "atomic"],
        operation: Operation,
        pointer: _Pointer,
        mask: Value,
        pointers: str,
    ) -> None:
        self._done.events.append(
            MemoryEvent(
                kind,
                operation.line,
                pointer.base,
                pointer.element_bytes,
                pointer.offset,
                None if mask is None or isinstance(mask, _Pointer) else np.asarray(mask, bool),
                _parse_tensor(pointers),
                self._loops,
                self._iteration,
                self._weight,
                operation.operands[0] in self._loaded,
                "evict_last" in operation.text,
                pointer.known,
            )
        )

    def load(self, operation: Operation, values: Sequence[Value]) -> Value:
        pointer = _pointer_of(operation, values)
        mask = values[1] if len(values) > 1 else None
        type_text = operation.text.rsplit(" : ", 1)[1]
        self._memory("load", operation, pointer, mask, type_text)
        self._loaded.update(operation.results)
        element = re.search(r"ptr<(\w+)", type_text)
        kind = element[1] if element else ""
        if kind in ("i1", "i8"):
            return np.ones_like(pointer.offset)
        if kind.startswith("i"):
            return pointer.offset // pointer.element_bytes
        return None

    def copy(self, operation: Operation, values: Sequence[Value]) -> Value:
        """Note a load into shared memory that a pipelined loop begins iterations ahead."""
        pointer = _pointer_of(operation, values)
        masked = re.search(r" mask (%[\w$.#-]+)", operation.text)
        mask = self._values.get(masked[1]) if masked else None
        pointers = operation.text.rsplit(" : ", 1)[1].split(" -> ")[0]
        self._memory("load", operation, pointer, mask, pointers)
        return None

    def store(self, operation: Operation, values: Sequence[Value]) -> Value:
        pointer = _pointer_of(operation, values)
        mask = values[2] if len(values) > 2 else None
        self._memory("store", operation, pointer, mask, operation.text.rsplit(" : ", 1)[1])
        return None

    def atomic(self, operation: Operation, values: Sequence[Value]) -> Value:
        pointer = _pointer_of(operation, values)
        is_update = operation.name == "tt.atomic_rmw"
        mask = values[2] if len(values) > 2 and is_update else None
        signature = re.search(r"\((.*)\) ->", operation.text)
        pointers = _split_types(signature[1])[0] if signature else ""
        self._memory("atomic", operation, pointer, mask, pointers)
        return None

    # --- what programs are told apart by

    def program_id(self, operation: Operation, _: Sequence[Value]) -> Value:
        ids: Numbers = self._ids["xyz".index(operation.text.split()[0])]
        return ids

    def num_programs(self, operation: Operation, _: Sequence[Value]) -> Value:
        return np.array([self._grid["xyz".index(operation.text.split()[0])]], dtype=np.int64)


def _find_move(operation: Operation) -> str | None:
    """Return the name of an operation that moves global memory: this one, or one in its regions."""
    if _MOVES_MEMORY.search(operation.name) and not _ON_CHIP.match(operation.name):
        return operation.name
    found = (_find_move(each) for region in operation.regions for each in region)
    return next((name for name in found if name is not None), None)


def _unknown_move(name: str, operation: Operation) -> UnreadableTtgir:
    where = f" in line {operation.line}" if operation.line else ""
    return UnreadableTtgir(f"what {name}{where} reads and writes is not known")


def _pointer_of(operation: Operation, values: Sequence[Value]) -> _Pointer:
    """Return where an operation reads or writes. Raises UnreadableTtgir where that is not known."""
    pointer = values[0] if values else None
    if not isinstance(pointer, _Pointer):
        raise _unknown_move(operation.name, operation)
    return pointer


_STRUCTURED: dict[str, Callable[[_Batch, Operation], None]] = {
    "scf.if": _Batch._if,
    "scf.for": _Batch._for,
    "scf.while": _Batch._while,
    "tt.call": _Batch._call,
    "tt.reduce": _Batch._reduce,
}


# --- operations on numbers -------------------------------------------------------------------


def _truncated(a: Numbers, b: Numbers) -> Numbers:
    """Divide towards zero; whatever is divided by zero is masked anyway."""
    quotient = np.abs(a) // np.maximum(np.abs(b), 1)
    return np.where((a < 0) ^ (b < 0), -quotient, quotient)


def _floored(a: Numbers, b: Numbers) -> Numbers:
    """Divide and round down; whatever is divided by zero is masked anyway."""
    quotient: Numbers = a // np.where(b == 0, 1, b)
    return quotient


def _unsigned(compare: Callable[[Numbers, Numbers], Any]) -> Callable[[Numbers, Numbers], Any]:
    return lambda a, b: compare(a.astype(np.uint64), b.astype(np.uint64))


_COMPARE: dict[str, Callable[[Numbers, Numbers], Any]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "slt": np.less,
    "sle": np.less_equal,
    "sgt": np.greater,
    "sge": np.greater_equal,
    "ult": _unsigned(np.less),
    "ule": _unsigned(np.less_equal),
    "ugt": _unsigned(np.greater),
    "uge": _unsigned(np.greater_equal),
}
_BINARY: dict[str, Callable[[Numbers, Numbers], Any]] = {
    "arith.addi": np.add,
    "arith.subi": np.subtract,
    "arith.muli": np.multiply,
    "arith.divsi": _truncated,
    "arith.divui": _truncated,
    "arith.remsi": lambda a, b: a - _truncated(a, b) * b,
    "arith.remui": lambda a, b: a - _truncated(a, b) * b,
    "arith.ceildivsi": lambda a, b: -_floored(-a, b),
    "arith.ceildivui": lambda a, b: -_floored(-a, b),
    "arith.floordivsi": _floored,
    "arith.andi": np.bitwise_and,
    "arith.ori": np.bitwise_or,
    "arith.xori": np.bitwise_xor,
    "arith.minsi": np.minimum,
    "arith.maxsi": np.maximum,
    "arith.minui": np.minimum,
    "arith.maxui": np.maximum,
    "arith.shli": np.left_shift,
    "arith.shrsi": np.right_shift,
    "arith.shrui": np.right_shift,
}


def _binary(_: _Batch, operation: Operation, values: Sequence[Value]) -> Value:
    a, b = values
    if isinstance(a, _Pointer) or isinstance(b, _Pointer):
        return None
    if a is None or b is None:
        # The part of a mask that is not known is taken as true.
        return (a if b is None else b) if operation.name == "arith.andi" else None
    if a.dtype == bool or b.dtype == bool:
        if operation.name == "arith.muli":
            return np.logical_and(a, b)
        if operation.name in ("arith.andi", "arith.ori", "arith.xori"):
            a, b = a.astype(bool), b.astype(bool)
        else:
            a, b = a.astype(np.int64), b.astype(np.int64)
    result: Numbers = _BINARY[operation.name](a, b)
    return result


def _compare(_: _Batch, operation: Operation, values: Sequence[Value]) -> Value:
    a, b = values
    if not isinstance(a, np.ndarray) or not isinstance(b, np.ndarray):
        return None
    how = operation.text.split(",")[0].strip()
    result: Numbers = _COMPARE[how](a.astype(np.int64), b.astype(np.int64))
    return result


def _constant(_: _Batch, operation: Operation, __: Sequence[Value]) -> Value:
    found = re.search(r"dense<(-?\d+|true|false)>", operation.text) or re.match(
        r"\s*(-?\d+|true|false) *(?::|$)", operation.text
    )
    if not found:
        return None
    rank = len(operation.tensor.shape) if operation.tensor else 0
    if found[1] in ("true", "false"):
        return np.full((1,) * (rank + 1), found[1] == "true")
    return np.full((1,) * (rank + 1), int(found[1]), dtype=np.int64)


def _range(_: _Batch, operation: Operation, __: Sequence[Value]) -> Value:
    end = re.search(r"end = (\d+)", operation.text)
    start = re.search(r"start = (\d+)", operation.text)
    if not end or not start:
        return None
    return np.arange(int(start[1]), int(end[1]), dtype=np.int64)[None, :]


def _reshaped(value: Value, change: Callable[[Numbers], Numbers]) -> Value:
    if isinstance(value, _Pointer):
        return replace(value, offset=change(value.offset))
    return None if value is None else change(value)


def _splat(_: _Batch, operation: Operation, values: Sequence[Value]) -> Value:
    rank = len(operation.tensor.shape) if operation.tensor else 0
    return _reshaped(values[0], lambda v: v.reshape(v.shape[:1] + (1,) * rank))


def _unsplat(_: _Batch, __: Operation, values: Sequence[Value]) -> Value:
    return _reshaped(values[0], lambda v: v.reshape(v.shape[0], -1)[:, 0])


def _expand(_: _Batch, operation: Operation, values: Sequence[Value]) -> Value:
    axis = re.search(r"axis = (\d+)", operation.text)
    place = int(axis[1]) + 1 if axis else 1
    return _reshaped(values[0], lambda v: np.expand_dims(v, place))


def _reshape(_: _Batch, operation: Operation, values: Sequence[Value]) -> Value:
    if operation.tensor is None or not operation.operands:
        return None
    given = re.search(r": (tensor<.*>) ->", operation.text)
    before = _parse_tensor(given[1]) if given else None
    shape = operation.tensor.shape
    if before is None:
        return None

    def change(value: Numbers) -> Numbers:
        if value.size == value.shape[0]:
            return value.reshape(value.shape[:1] + (1,) * len(shape))
        whole = np.broadcast_to(value, (value.shape[0], *before.shape))
        return whole.reshape((value.shape[0], *shape))

    return _reshaped(values[0], change)


def _transpose(_: _Batch, operation: Operation, values: Sequence[Value]) -> Value:
    order = re.search(r"order = array<i32: ([\d, ]+)>", operation.text)
    if not order:
        return None
    axes = (0, *(int(axis) + 1 for axis in order[1].split(",")))
    return _reshaped(values[0], lambda v: v.transpose(axes))


def _same(_: _Batch, __: Operation, values: Sequence[Value]) -> Value:
    """Return the value of a broadcast or change of layout as it is: axes of size 1 already stand
    for all of their elements."""
    return values[0]


def _widen(_: _Batch, operation: Operation, values: Sequence[Value]) -> Value:
    value = values[0]
    if not isinstance(value, np.ndarray):
        return None
    if operation.name == "arith.trunci":
        return (
            value != 0
            if operation.type_text.endswith(("i1", "i1>")) or _is_i1(operation)
            else value
        )
    return value.astype(np.int64)


def _is_i1(operation: Operation) -> bool:
    return operation.tensor is not None and operation.tensor.element == "i1"


def _add_pointer(_: _Batch, operation: Operation, values: Sequence[Value]) -> Value:
    pointer, offset = values
    if not isinstance(pointer, _Pointer):
        return None
    if not isinstance(offset, np.ndarray):
        return replace(pointer, known=False)
    moved = pointer.offset + offset.astype(np.int64) * pointer.element_bytes
    return replace(pointer, offset=moved)


def _bitcast(_: _Batch, operation: Operation, values: Sequence[Value]) -> Value:
    value = values[0]
    if isinstance(value, _Pointer):
        element = re.search(r"ptr<(\w+)", operation.type_text)
        size = ELEMENT_BYTES.get(element[1], value.element_bytes) if element else 4
        return replace(value, element_bytes=size)
    to_float = operation.tensor is not None and operation.tensor.element.startswith("f")
    return None if to_float else value


def _select(_: _Batch, operation: Operation, values: Sequence[Value]) -> Value:
    condition, yes, no = values
    if isinstance(yes, _Pointer) or isinstance(no, _Pointer):
        return yes if isinstance(yes, _Pointer) else no
    if yes is None or no is None:
        element = operation.tensor.element if operation.tensor else operation.type_text
        return yes if element.startswith("i") else None
    if not isinstance(condition, np.ndarray):
        return yes
    return np.where(condition.astype(bool), yes, no)


def _absolute(_: _Batch, __: Operation, values: Sequence[Value]) -> Value:
    return np.abs(values[0]) if isinstance(values[0], np.ndarray) else None


_COMPUTE: dict[str, Callable[[_Batch, Operation, Sequence[Value]], Value]] = {
    **dict.fromkeys(_BINARY, _binary),
    "arith.cmpi": _compare,
    "arith.constant": _constant,
    "arith.select": _select,
    "arith.extsi": _widen,
    "arith.extui": _widen,
    "arith.trunci": _widen,
    "arith.index_cast": _widen,
    "arith.bitcast": _bitcast,
    "math.absi": _absolute,
    "tt.make_range": _range,
    "tt.splat": _splat,
    "tt.unsplat": _unsplat,
    "tt.expand_dims": _expand,
    "tt.reshape": _reshape,
    "tt.trans": _transpose,
    "tt.broadcast": _same,
    "ttg.convert_layout": _same,
    "tt.addptr": _add_pointer,
    "tt.bitcast": _bitcast,
    "tt.load": _Batch.load,
    "ttg.async_copy_global_to_local": _Batch.copy,
    "tt.store": _Batch.store,
    "tt.atomic_rmw": _Batch.atomic,
    "tt.atomic_cas": _Batch.atomic,
    "tt.get_program_id": _Batch.program_id,
    "tt.get_num_programs": _Batch.num_programs,
}
