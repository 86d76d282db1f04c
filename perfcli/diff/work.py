"""Describes what a kernel computes, in pieces that can be compared between two runs.

Where both runs come from the same torch and the same graphs, a piece is an FX node. Elsewhere the
names of nodes mean nothing, and a piece is an operator with its module and shape, numbered in the
order of the graph: the second addition of the third layer, whatever its node is called.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TypeAlias

from perfcli.model import ExternCall, KernelFacts, Origin

Kernels: TypeAlias = Sequence[KernelFacts]
Pieces: TypeAlias = Mapping[int, frozenset[Hashable]]
Both: TypeAlias = tuple[Pieces, Pieces]
_Kind: TypeAlias = tuple[str, str, str, str, tuple[int | str, ...]]

_NUMBER = re.compile(r"_(\d+)$")


def direction(member: KernelFacts | ExternCall) -> str:
    """Return ``forward`` of the graph ``forward 0``."""
    return member.graph.split(" ")[0]


def _nodes(kernel: KernelFacts) -> frozenset[Hashable]:
    return frozenset((kernel.graph, origin.node, origin.op) for origin in kernel.origins)


def _kinds(kernel: KernelFacts) -> Counter[_Kind]:
    """Return what sorts of nodes a kernel computes, and how many of each."""
    return Counter(_kind(kernel, origin) for origin in kernel.origins if origin.op)


def _kinds_per_launch(kernel: KernelFacts, shapes: bool = True) -> Hashable:
    """Return the same for one launch, wherever in the model it is: equal for the kernel of ten
    layers and that of the eleventh. Empty where the kernel's origins are not known. ``shapes``:
    whether those of another size are another sort."""
    launches = max(kernel.launches, 1)
    counts = Counter((o.op, _stem(o.node), o.shape if shapes else ()) for o in kernel.origins)
    sorts = frozenset((kind, number / launches) for kind, number in counts.items())
    return (direction(kernel), sorts) if sorts else ()


def _kind(kernel: KernelFacts, origin: Origin) -> _Kind:
    # The stem of the name too: one operator (a norm) is decomposed into several nodes.
    return (direction(kernel), origin.op, _stem(origin.node), origin.module, origin.shape)


def _stem(node: str) -> str:
    return _NUMBER.sub("", node)


class Operators:
    """Holds the operators of two runs' kernels, read once."""

    def __init__(self, base: Kernels, head: Kernels) -> None:
        self._entries = [[_entries(kernel) for kernel in side] for side in (base, head)]
        self._numbers = _numbering(*self._entries)
        self._pieces = [
            {n: _number(entries, numbers) for n, entries in enumerate(side)}
            for side, numbers in zip(self._entries, self._numbers, strict=True)
        ]

    def pieces(self, left: Sequence[int], right: Sequence[int]) -> Both:
        """Return operators, numbered through the graph, for all kernels. Where a sort of node is
        there more often on one side, numbers through the whole graph mean nothing: it is numbered
        among the kernels that are left (by their indices), and if that fails in each kernel
        alone."""
        unsure = [
            {
                n: self._entries[side][n]
                for n in indices
                if any(entry not in self._numbers[side] for entry in self._entries[side][n])
            }
            for side, indices in enumerate((left, right))
        ]
        rest = _numbering(*(some.values() for some in unsure))
        ours, theirs = (
            {
                **self._pieces[side],
                **{n: _number(e, self._numbers[side], rest[side]) for n, e in some.items()},
            }
            for side, some in enumerate(unsure)
        )
        return ours, theirs


_Entry: TypeAlias = tuple[_Kind, str, str]
_Numbers: TypeAlias = Mapping[_Entry, int]


def _entries(kernel: KernelFacts) -> list[_Entry]:
    return [(_kind(kernel, o), kernel.graph, o.node) for o in kernel.origins if o.op]


def _collect(kernels: Iterable[Sequence[_Entry]]) -> dict[_Kind, list[_Entry]]:
    found: dict[_Kind, list[_Entry]] = defaultdict(list)
    for entry in dict.fromkeys(itertools.chain.from_iterable(kernels)):
        found[entry[0]].append(entry)
    return found


def _numbering(*sides: Iterable[Sequence[_Entry]]) -> list[_Numbers]:
    """Return each side's nodes with their numbers, of the kinds that are equally many."""
    found = [_collect(side) for side in sides]
    ours, theirs = found
    return [
        {
            entry: number
            for kind, nodes in side.items()
            if len(ours.get(kind, ())) == len(theirs.get(kind, ()))
            for number, entry in enumerate(sorted(nodes, key=_place) if nodes[1:] else nodes)
        }
        for side in found
    ]


def _place(entry: _Entry) -> tuple[int, ...]:
    """Return where a node of a graph stands among those of its stem: tracing numbers them in
    order."""
    numbers = [_NUMBER.search(text) for text in (entry[1].replace(" ", "_"), entry[2])]
    return tuple(int(found[1]) if found else 0 for found in numbers)


def _number(entries: Sequence[_Entry], *ways: _Numbers) -> frozenset[Hashable]:
    """Return each node by the first way that has it, else by its number in this kernel."""
    alone: Counter[_Kind] = Counter()
    pieces: set[Hashable] = set()
    for entry in entries:
        kind = entry[0]
        for way, numbers in enumerate(ways):
            if entry in numbers:
                pieces.add((kind, way, numbers[entry]))
                break
        else:
            pieces.add((kind, "alone", alone[kind]))
            alone[kind] += 1
    return frozenset(pieces)
