"""Which kernels of two runs compute the same thing.

Identical code first, then kernels that look alike, then whatever shares work: FX nodes, or
operators with module and shape where node names can't be compared. Names of kernels are the last
resort: they and their numbers change with every fusion. Every kernel of both sides ends up in
exactly one match.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from perfcli.diff import pairs
from perfcli.diff.overlap import Edge, Work, connect
from perfcli.diff.work import Kernels, Pieces, direction, nodes, operators
from perfcli.model import KernelFacts, Match, Relation

# How far a method is trusted, times how much of the work is shared.
_TRUST = {"nodes": 1.0, "operators": 0.8}
# The share of look-alikes, at least: the same sorts of work.
_ALIKE = 0.5


def match(base: Kernels, head: Kernels, nodes_agree: bool = True) -> tuple[Match, ...]:
    """Match the kernels of two runs, in base order, new kernels last.

    ``nodes_agree`` says that a node's name means the same on both sides: same torch, same graphs.
    """
    here = _Matching(base, head, list(range(len(base))), list(range(len(head))))
    for method in ("nodes", "operators") if nodes_agree else ("operators",):
        here.take_identical(here.pieces(method), 1.0)
        if method == "operators":
            pieces = here.pieces(method)
            here.take_pairs(pairs.equal_work(*here.sides(), pieces), method, pieces)
        pieces = here.pieces(method)
        here.take_pairs(pairs.look_alikes(*here.sides(), pieces), method, pieces)
        here.take_overlapping(here.pieces(method), method)
        here.take_identical(None, 0.9)
    here.take(_same_names(*here.sides()))
    here.take([Match((index,), (), "gone", "none", 1.0) for index in here.left])
    here.take([Match((), (index,), "new", "none", 1.0) for index in here.right])
    return tuple(sorted(here.found, key=_order))


def _order(found: Match) -> tuple[bool, int]:
    return (not found.base, min(found.base or found.head))


@dataclass
class _Matching:
    """Two runs' kernels, those that are left to match, and what was found."""

    base: Kernels
    head: Kernels
    left: list[int]
    right: list[int]
    found: list[Match] = field(default_factory=list)

    def sides(self) -> tuple[Kernels, Kernels, list[int], list[int]]:
        return self.base, self.head, self.left, self.right

    def pieces(self, method: str) -> tuple[Pieces, Pieces]:
        """The work of the kernels that are left."""
        if method == "operators":
            return operators(*self.sides())
        ours = {index: nodes(self.base[index]) for index in self.left}
        return ours, {index: nodes(self.head[index]) for index in self.right}

    def take(self, matches: Iterable[Match]) -> None:
        for match in matches:
            self.found.append(match)
        taken_base = {index for m in self.found for index in m.base}
        taken_head = {index for m in self.found for index in m.head}
        self.left = [index for index in self.left if index not in taken_base]
        self.right = [index for index in self.right if index not in taken_head]

    def take_identical(self, pieces: tuple[Pieces, Pieces] | None, confidence: float) -> None:
        for method, key in (("binary", pairs.binary), ("source", pairs.source)):
            edges = pairs.identical(*self.sides(), key, pieces)
            self.take([self._identical(edge, method, confidence) for edge in edges])

    def take_pairs(self, edges: Sequence[Edge], method: str, pieces: tuple[Pieces, Pieces]) -> None:
        def confidence(edge: Edge) -> float:
            ours, theirs = pieces[0][edge[0]], pieces[1][edge[1]]
            return _TRUST[method] * max(len(ours & theirs) / len(ours | theirs), _ALIKE)

        self.take(
            [Match((b,), (h,), "changed", method, round(confidence((b, h)), 3)) for b, h in edges]
        )

    def take_overlapping(self, pieces: tuple[Pieces, Pieces], method: str) -> None:
        ours = {n: Work(mine, self.base[n].launches) for n, mine in pieces[0].items()}
        theirs = {n: Work(mine, self.head[n].launches) for n, mine in pieces[1].items()}
        self.take([_group(*group, method) for group in connect(ours, theirs)])

    def _identical(self, pair: Edge, method: str, confidence: float) -> Match:
        ours, theirs = self.base[pair[0]].binary_hash, self.head[pair[1]].binary_hash
        differ = ours is not None and theirs is not None and ours != theirs
        return Match((pair[0],), (pair[1],), "changed" if differ else "same", method, confidence)


def _group(ours: list[int], theirs: list[int], shared: float, method: str) -> Match:
    relations: Mapping[tuple[bool, bool], Relation] = {
        (False, False): "changed",
        (False, True): "split",
        (True, False): "fused",
        (True, True): "regrouped",
    }
    relation = relations[len(ours) > 1, len(theirs) > 1]
    return Match(tuple(ours), tuple(theirs), relation, method, round(_TRUST[method] * shared, 3))


# --- names -----------------------------------------------------------------------------------


def _same_names(base: Kernels, head: Kernels, left: list[int], right: list[int]) -> list[Match]:
    """For kernels without provenance: equal names up to their number, in order."""
    waiting: dict[Hashable, list[int]] = defaultdict(list)
    for index in right:
        waiting[_stem(head[index])].append(index)
    found = []
    for index in left:
        partners = waiting[_stem(base[index])]
        partner = next((p for p in partners if not (base[index].origins and head[p].origins)), None)
        if partner is not None:
            partners.remove(partner)
            found.append(Match((index,), (partner,), "changed", "name", 0.3))
    return found


def _stem(kernel: KernelFacts) -> Hashable:
    return (direction(kernel), re.sub(r"(_\d+)+$", "", kernel.name))
