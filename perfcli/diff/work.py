"""What a kernel computes, in pieces that can be compared between two runs.

Where both runs come from the same torch and the same graphs, a piece is an FX node. Elsewhere the
names of nodes mean nothing, and a piece is an operator with its module and shape, numbered in the
order of the graph: the second addition of the third layer, whatever its node is called.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping, Sequence, Set
from typing import TypeAlias

from perfcli.model import KernelFacts, Origin

Kernels: TypeAlias = Sequence[KernelFacts]
Pieces: TypeAlias = Mapping[int, frozenset[Hashable]]
_Kind: TypeAlias = tuple[str, str, str, str, tuple[int | str, ...]]

_NUMBER = re.compile(r"_(\d+)$")


def direction(kernel: KernelFacts) -> str:
    """``forward`` of ``forward 0``."""
    return kernel.graph.split(" ")[0]


def nodes(kernel: KernelFacts) -> frozenset[Hashable]:
    return frozenset((kernel.graph, origin.node, origin.op) for origin in kernel.origins)


def kinds(kernel: KernelFacts) -> Counter[_Kind]:
    """What sorts of nodes a kernel computes, and how many of each."""
    return Counter(_kind(kernel, origin) for origin in kernel.origins if origin.op)


def kinds_per_launch(kernel: KernelFacts) -> Hashable:
    """The same for one launch, wherever in the model it is: equal for the kernel of ten layers
    and that of the eleventh. Empty where the kernel's origins are not known."""
    launches = max(kernel.launches, 1)
    counts = Counter((o.op, _stem(o.node), o.shape) for o in kernel.origins)
    sorts = frozenset((kind, number / launches) for kind, number in counts.items())
    return (direction(kernel), sorts) if sorts else ()


def _kind(kernel: KernelFacts, origin: Origin) -> _Kind:
    # The stem of the name too: one operator (a norm) is decomposed into several nodes.
    return (direction(kernel), origin.op, _stem(origin.node), origin.module, origin.shape)


def _stem(node: str) -> str:
    return _NUMBER.sub("", node)


def _place(node: tuple[str, str]) -> tuple[int, ...]:
    """Where a node of a graph stands among those of its stem: tracing numbers them in order."""
    numbers = [_NUMBER.search(text) for text in (node[0].replace(" ", "_"), node[1])]
    return tuple(int(found[1]) if found else 0 for found in numbers)


def operators(
    base: Kernels, head: Kernels, left: Sequence[int], right: Sequence[int]
) -> tuple[Pieces, Pieces]:
    """Operators, numbered through the graph. A sort of node that is there more often on one side
    has lost its numbering: it is numbered in each kernel alone, and so tells less."""
    ours, theirs = _found(base, left), _found(head, right)
    kept = {kind for kind in ours if len(ours[kind]) == len(theirs.get(kind, ()))}
    return _numbered(base, left, ours, kept), _numbered(head, right, theirs, kept)


_Nodes: TypeAlias = Mapping[_Kind, Mapping[tuple[str, str], int]]


def _found(kernels: Kernels, indices: Sequence[int]) -> _Nodes:
    """The nodes of each kind, and the number of each."""
    found: dict[_Kind, set[tuple[str, str]]] = defaultdict(set)
    for index in indices:
        graph = kernels[index].graph
        for origin in kernels[index].origins:
            if origin.op:
                found[_kind(kernels[index], origin)].add((graph, origin.node))
    return {
        kind: {node: n for n, node in enumerate(sorted(nodes, key=_place))}
        for kind, nodes in found.items()
    }


def _numbered(
    kernels: Kernels, indices: Sequence[int], numbers: _Nodes, kept: Set[_Kind]
) -> Pieces:
    pieces: dict[int, frozenset[Hashable]] = {}
    for index in indices:
        alone: Counter[_Kind] = Counter()
        mine: set[Hashable] = set()
        for origin in kernels[index].origins:
            if not origin.op:
                continue
            kind = _kind(kernels[index], origin)
            if kind in kept:
                mine.add((kind, numbers[kind][kernels[index].graph, origin.node]))
            else:
                mine.add((kind, "alone", alone[kind]))
                alone[kind] += 1
        pieces[index] = frozenset(mine)
    return pieces
