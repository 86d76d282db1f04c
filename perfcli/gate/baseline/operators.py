"""The operators that a kernel computes, in few words, and back.

Names of FX nodes are numbered through the graph as kernels are. What stays is a node's sort (its
operator, module, shape and the stem of its name) and its number among those of its sort.
"""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from perfcli.model import KernelFacts, Origin

Shape: TypeAlias = tuple[int | str, ...]
_NUMBER = re.compile(r"_(\d+)$")
_LAYER = re.compile(r"(?<=\.)\d+(?=\.|$)")
_OPERATOR = re.compile(r"(?P<op>[^=#]*)(?:=(?P<stem>[^#]*))?(?:#(?P<numbers>[\d+]+))?")
_MEANS_SOMETHING = frozenset("=#, ")
ATEN = "aten."


class Sort(NamedTuple):
    """Nodes of one sort are told apart by their order in the graph."""

    graph: str
    op: str
    stem: str
    module: str
    shape: Shape


class Node(NamedTuple):
    sort: Sort
    number: int


def _sort_of(kernel: KernelFacts, origin: Origin) -> Sort:
    stem = _NUMBER.sub("", origin.node)
    return Sort(kernel.graph, origin.op, stem, origin.module, tuple(origin.shape))


def _numbered(kernels: Sequence[KernelFacts]) -> dict[tuple[str, str], Node]:
    """Return each FX node, by graph and name, with its number among those of its sort."""
    found: dict[Sort, set[str]] = defaultdict(set)
    for kernel in kernels:
        for origin in kernel.origins:
            if not _MEANS_SOMETHING & {*origin.op, *origin.node}:
                found[_sort_of(kernel, origin)].add(origin.node)
    return {
        (sort.graph, name): Node(sort, number)
        for sort, names in found.items()
        for number, name in enumerate(sorted(names, key=_place))
    }


def _place(name: str) -> tuple[int, str]:
    found = _NUMBER.search(name)
    return (int(found[1]) if found else 0, name)


# --- to the file -----------------------------------------------------------------------------


def _described(nodes: Iterable[Node]) -> list[dict[str, Any]]:
    """Return a table for each module and shape; modules that do the same in several layers in
    one."""
    operators: dict[tuple[str, Shape], dict[tuple[str, str], list[int]]] = {}
    for node in sorted(set(nodes)):
        place = operators.setdefault((node.sort.module, node.sort.shape), {})
        place.setdefault((node.sort.op, node.sort.stem), []).append(node.number)
    layers: dict[tuple[str, Shape, str], list[str]] = defaultdict(list)
    for (module, shape), found in operators.items():
        pattern, layer = _layered(module)
        ops = ", ".join(_operator(*each, numbers) for each, numbers in found.items())
        layers[pattern, shape, ops].append(layer)
    return [
        _table(pattern, sorted(found, key=lambda n: int(n or 0)), shape, ops)
        for (pattern, shape, ops), found in sorted(layers.items(), key=repr)
    ]


def _layered(module: str) -> tuple[str, str]:
    """Return ``blocks.*.attn`` and ``3`` of ``blocks.3.attn``: the first number alone."""
    found = None if "*" in module else _LAYER.search(module)
    if found is None:
        return module, ""
    return f"{module[: found.start()]}*{module[found.end() :]}", found[0]


def _table(pattern: str, layers: Sequence[str], shape: Shape, ops: str) -> dict[str, Any]:
    table: dict[str, Any] = {"in": pattern} if pattern else {}
    if layers != [""]:
        table["layers"] = _ranges(layers)
    return {**table, "shape": list(shape), "ops": ops}


def _ranges(numbers: Sequence[str]) -> str:
    """Return ``0-2 5`` of 0, 1, 2 and 5."""
    found: list[list[int]] = []
    for number in map(int, numbers):
        if found and found[-1][1] == number - 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return " ".join(f"{a}" if a == b else f"{a}-{b}" for a, b in found)


def _operator(op: str, stem: str, numbers: Sequence[int]) -> str:
    """Return ``mul.Tensor``, ``_to_copy.default=convert_element_type#0+2``."""
    text = op.removeprefix(ATEN) if op.startswith(ATEN) else f"/{op}"
    if stem != _usual(op):
        text += f"={stem}"
    if list(numbers) != [0]:
        text += f"#{'+'.join(map(str, numbers))}"
    return text


def _usual(op: str) -> str:
    return op.removeprefix(ATEN).split(".")[0]


# --- and back --------------------------------------------------------------------------------


def _read(graph: str, tables: Iterable[Mapping[str, Any]]) -> Iterator[Node]:
    """Yield the nodes of one kernel. Raises ValueError for what ``described`` does not write."""
    for table in tables:
        shape: Shape = tuple(table["shape"])
        for module in _modules(table):
            for text in table["ops"].split(", "):
                yield from _nodes(graph, module, shape, text)


def _modules(table: Mapping[str, Any]) -> Iterator[str]:
    pattern: str = table.get("in", "")
    if "layers" not in table:
        yield pattern
        return
    for part in table["layers"].split():
        first, _, last = part.partition("-")
        for number in range(int(first), int(last or first) + 1):
            yield pattern.replace("*", str(number), 1)


def _nodes(graph: str, module: str, shape: Shape, text: str) -> Iterator[Node]:
    found = _OPERATOR.fullmatch(text)
    if found is None:
        raise ValueError(f"no operator: {text!r}")
    op = found["op"][1:] if found["op"].startswith("/") else ATEN + found["op"]
    stem = _usual(op) if found["stem"] is None else found["stem"]
    numbers = map(int, found["numbers"].split("+")) if found["numbers"] else itertools.repeat(0, 1)
    for number in numbers:
        yield Node(Sort(graph, op, stem, module, shape), number)


def _origin(node: Node) -> Origin:
    """Return an origin with a name of its own, which no node of FX has."""
    sort = node.sort
    name = f"{sort.stem}@{sort.module}{list(sort.shape)}#{node.number}"
    return Origin(node=name, op=sort.op, module=sort.module, shape=sort.shape)
