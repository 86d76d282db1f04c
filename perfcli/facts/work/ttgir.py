"""Parses Triton's GPU dialect (TTGIR): operations in order, nested regions, layouts, source lines.

Only the text is read, so that neither torch nor triton is needed. Seen with triton 3.6 and 3.7.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from perfcli.errors import PerfcliError

ELEMENT_BYTES = {
    "i1": 1, "i8": 1, "i16": 2, "i32": 4, "i64": 8, "f8E4M3FN": 1, "f8E5M2": 1, "f16": 2,
    "bf16": 2, "f32": 4, "f64": 8,
}  # fmt: skip

_LOCATION = re.compile(r" loc\((#\w+|unknown)\)\s*$")
_HEAD = re.compile(r'^(?:(%[\w$.#-]+)(?::(\d+))? = )?"?([a-z_]\w*\.[\w.]+)"?(.*)$')
_VALUE = re.compile(r"%[\w$.-]+(?:#\d+)?")
_TENSOR = re.compile(r"tensor<((?:\d+x)*)(!tt\.ptr<\w+(?:, \d+)?>|\w+)(?:, (.*))?>\s*$")
_FUNCTION = re.compile(
    r"tt\.func (?:public |private )?@([\w$.]+)\((.*?)\)(?: -> .*?)?(?: attributes .*)?\s*\{"
)
_ARGUMENT = re.compile(r"(%[\w$.-]+): (!tt\.ptr<\w+>|\w+)")
_LAYOUT = re.compile(r"^(#\w+) = #ttg\.(\w+)<\{(.*)\}>\s*$", re.MULTILINE)
_STRUCTURED = ("scf.for", "scf.if", "scf.while")


class UnreadableTtgir(PerfcliError):
    """Says that a text is no TTGIR, or is written in a way that this parser does not know."""


@dataclass(frozen=True, slots=True)
class TensorType:
    """Holds a type such as ``tensor<32x64xi32, #blocked>``; ``element`` is ``!tt.ptr<bf16>`` for
    tensors of pointers."""

    shape: tuple[int, ...]
    element: str
    layout: str


@dataclass(frozen=True, slots=True)
class Blocked:
    """Says how a tensor's elements are dealt out to threads, one number per dimension; ``order``
    has the fastest dimension first."""

    per_thread: tuple[int, ...]
    per_warp: tuple[int, ...]
    warps: tuple[int, ...]
    order: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Linear:
    """Holds a layout as basis vectors: the coordinates that each bit of register, lane and warp
    adds (by exclusive or)."""

    register: tuple[tuple[int, ...], ...]
    lane: tuple[tuple[int, ...], ...]
    warp: tuple[tuple[int, ...], ...]


Layout = Blocked | Linear


@dataclass(frozen=True, slots=True)
class Operation:
    """Holds one operation. ``text`` is all behind its name without the location."""

    name: str
    results: tuple[str, ...]
    operands: tuple[str, ...]
    text: str
    type_text: str
    """The type of the last result, or of what is stored; empty where there is none."""
    tensor: TensorType | None
    line: int
    """1-based line in the kernel's own source file; 0 where it is not known."""
    regions: tuple[tuple[Operation, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class _Function:
    """Holds a function with its arguments, name and type each."""

    arguments: tuple[tuple[str, str], ...]
    body: tuple[Operation, ...]


@dataclass(frozen=True, slots=True)
class Module:
    """Holds a kernel's TTGIR. ``main`` is the kernel; others are functions that it calls."""

    main: _Function
    functions: Mapping[str, _Function]
    layouts: Mapping[str, Layout]
    num_warps: int


def parse_module(text: str) -> Module:
    """Parse a kernel's TTGIR. Raises UnreadableTtgir where there is no public function, or its
    regions do not close."""
    reader = _Reader(text)
    functions: dict[str, _Function] = {}
    main = None
    while reader.at < len(reader.lines):
        line, _ = reader.lines[reader.at]
        found = _FUNCTION.match(line)
        reader.at += 1
        if found is None:
            continue
        function = _Function(tuple(_ARGUMENT.findall(found[2])), reader.block())
        functions[found[1]] = function
        if "tt.func public" in line:
            main = function
    if main is None:
        raise UnreadableTtgir("this TTGIR has no public function: expected the text of one kernel")
    warps = re.search(r'"ttg\.num-warps" = (\d+)', text)
    return Module(main, functions, _layouts(text), int(warps[1]) if warps else 4)


def _parse_tensor(text: str) -> TensorType | None:
    """Return the tensor type that a text ends with, or None for scalars."""
    found = _TENSOR.search(text.strip())
    if found is None:
        return None
    shape = tuple(int(size) for size in found[1].split("x") if size)
    return TensorType(shape, found[2], found[3] or "")


def _split_types(text: str) -> list[str]:
    """Split at commas that stand in no bracket."""
    parts, depth, start = [], 0, 0
    for place, character in enumerate(text):
        depth += (character in "<([{") - (character in ">)]}")
        if character == "," and depth == 0:
            parts.append(text[start:place].strip())
            start = place + 1
    parts.append(text[start:].strip())
    return [part for part in parts if part]


@dataclass(slots=True)
class _Reader:
    """Reads the lines of all functions, each with its source line."""

    text: str
    lines: list[tuple[str, int]] = field(init=False)
    at: int = 0

    def __post_init__(self) -> None:
        places = _source_lines(self.text)
        self.lines = []
        for raw in self.text.splitlines():
            line = raw.strip()
            if not line or line.startswith("#"):
                continue
            location = _LOCATION.search(line)
            number = 0
            if location:
                number = places.get(location[1], 0)
                line = line[: location.start()]
            if line.startswith("tt.func"):
                line = re.sub(r" loc\((?:[^()]|\([^()]*\))*\)", "", line)
            self.lines.append((line, number))

    def block(self) -> tuple[Operation, ...]:
        """Return the operations up to the line that closes the region, which stays unread."""
        operations: list[Operation] = []
        while self.at < len(self.lines):
            line, number = self.lines[self.at]
            if line.startswith("}"):
                return tuple(operations)
            self.at += 1
            found = _HEAD.match(line)
            if found:
                operations.append(self._operation(found, line, number))
        raise UnreadableTtgir("a region of this TTGIR is not closed: it was cut off")

    def _operation(self, found: re.Match[str], line: str, number: int) -> Operation:
        text, regions = found[4], []
        if line.endswith(("{", "({")):
            while True:
                regions.append(self.block())
                closing, where = self.lines[self.at]
                self.at += 1
                number = number or where
                if closing.endswith("{"):
                    continue
                if closing.startswith("})"):
                    text += f" {closing[2:]}"
                break
        name = found[3]
        type_text = _result_type(name, text)
        last = _split_types(type_text.strip("()"))
        head = text if name in _STRUCTURED else text.split(" : ")[0]
        results = () if found[1] is None else _numbered(found[1], int(found[2] or 1))
        return Operation(
            name,
            results,
            tuple(_VALUE.findall(head)),
            text,
            type_text,
            _parse_tensor(last[-1]) if last else None,
            number,
            tuple(regions),
        )


def _numbered(name: str, count: int) -> tuple[str, ...]:
    return (name,) if count == 1 else tuple(f"{name}#{index}" for index in range(count))


def _result_type(name: str, text: str) -> str:
    if "->" in text and name not in _STRUCTURED:
        return text.rsplit("->", 1)[1].strip()
    return text.rsplit(" : ", 1)[1].strip() if " : " in text else ""


def _source_lines(text: str) -> dict[str, int]:
    """Return each location alias with its line in the kernel's own file: of code that was inlined,
    the line of the outermost call within that file."""
    raw = dict(re.findall(r"^(#loc\d*) = loc\((.*)\)\s*$", text, re.MULTILINE))
    own = re.search(r'^#loc = loc\("([^"]*)":', text, re.MULTILINE)
    file = own[1] if own else ""

    def lines(body: str, depth: int) -> list[int]:
        if depth > 30:
            return []
        if call := re.match(r"callsite\((#loc\d*) at (#loc\d*)\)", body):
            return lines(raw.get(call[1], ""), depth + 1) + lines(raw.get(call[2], ""), depth + 1)
        if place := re.match(r'"([^"]*)":(\d+):\d+', body):
            return [int(place[2])] if place[1] == file else []
        if named := re.match(r'"[^"]*"\((#loc\d*)\)', body):
            return lines(raw.get(named[1], ""), depth + 1)
        return []

    found = {alias: lines(body, 0) for alias, body in raw.items()}
    return {alias: places[-1] for alias, places in found.items() if places}


def _layouts(text: str) -> dict[str, Layout]:
    found: dict[str, Layout] = {}
    for name, kind, body in _LAYOUT.findall(text):
        if kind == "blocked":
            fields = {
                key: tuple(int(number) for number in values.split(","))
                for key, values in re.findall(r"(\w+) = \[([\d, ]+)\]", body)
            }
            found[name] = Blocked(
                fields["sizePerThread"],
                fields["threadsPerWarp"],
                fields["warpsPerCTA"],
                fields["order"],
            )
        elif kind == "linear":
            found[name] = Linear(*(_bases(body, part) for part in ("register", "lane", "warp")))
    return found


def _bases(body: str, name: str) -> tuple[tuple[int, ...], ...]:
    found = re.search(name + r" = (\[\[.*?\]\]|\[\])", body)
    if not found:
        return ()
    vectors = re.findall(r"\[([\d, ]+)\]", found[1])
    return tuple(tuple(int(number) for number in vector.split(",")) for vector in vectors)
