"""Finds which kernels of two runs compute the same thing.

Identical code first, then kernels that look alike, then whatever shares work: FX nodes, or
operators with module and shape where node names can't be compared. Names of kernels are the last
resort: they and their numbers change with every fusion. Every kernel of both sides ends up in
exactly one match.
"""

from __future__ import annotations

import functools
import heapq
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from perfcli.diff import pairs
from perfcli.diff.overlap import Edge, Work, _connect
from perfcli.diff.work import Both, Kernels, Operators, Pieces, _nodes, direction
from perfcli.model import KernelFacts, Match, Relation
from perfcli.names import stem

# How far a method is trusted, times how much of the work is shared.
_TRUST = {"nodes": 1.0, "operators": 0.8}
# The share of look-alikes, at least: the same sorts of work.
_ALIKE = 0.5
# Nothing else is there to match.
_ALONE = 0.9
# Nodes that have the same names on both sides and are not found again were most likely dropped:
# then operators have to have this share in common.
_FALLBACK = 0.5


def match(base: Kernels, head: Kernels, nodes_agree: bool = True) -> tuple[Match, ...]:
    """Match the kernels of two runs, in base order, new kernels last.

    ``nodes_agree`` says that a node's name means the same on both sides: same torch, same graphs.
    """
    here = _Matching(base, head, list(range(len(base))), list(range(len(head))))
    methods = ("nodes", "operators") if nodes_agree else ("operators",)
    for method in methods:
        if not here.left or not here.right:
            break
        pieces = here.pieces(method)
        here.take_identical(pieces, 1.0)
        if method == "operators":
            here.take_pairs(pairs._pair_equal_work(*here.sides(), pieces), method, pieces)
            pieces = here.pieces(method)
        for shapes in (True, False):  # first those that look alike in their sizes as well
            alike = pairs._pair_look_alikes(*here.sides(), pieces, here.settled(pieces), shapes)
            here.take_pairs(alike, method, pieces)
        here.take_overlapping(pieces, method, _FALLBACK if method != methods[0] else 0.0)
        here.take_identical(None, 0.9)
    here.take_absorbed(here.nodes if nodes_agree else here.pieces("operators"))
    for method in methods:
        here.take_only(here.pieces(method), method)
    here.take(_same_looks(*here.sides()))
    here.take(_same_names(*here.sides()))
    here.take(_same_operators(*here.sides()))
    here.take([Match((index,), (), "gone", "none", 1.0) for index in here.left])
    here.take([Match((), (index,), "new", "none", 1.0) for index in here.right])
    return tuple(sorted(map(here.surely, here.found), key=_order))


def _order(found: Match) -> tuple[bool, int]:
    return (not found.base, min(found.base or found.head))


@dataclass
class _Matching:
    """Holds two runs' kernels, those that are left to match, and what was found."""

    base: Kernels
    head: Kernels
    left: list[int]
    right: list[int]
    found: list[Match] = field(default_factory=list)

    @functools.cached_property
    def nodes(self) -> Both:
        return dict(enumerate(map(_nodes, self.base))), dict(enumerate(map(_nodes, self.head)))

    @functools.cached_property
    def operators(self) -> Operators:
        return Operators(self.base, self.head)

    @functools.cached_property
    def per_graph(self) -> Counter[str]:
        return Counter(kernel.graph for kernel in (*self.base, *self.head))

    def sides(self) -> tuple[Kernels, Kernels, list[int], list[int]]:
        return self.base, self.head, self.left, self.right

    def pieces(self, method: str) -> Both:
        """Return the work of all kernels."""
        if method == "operators":
            return self.operators.pieces(self.left, self.right)
        return self.nodes

    def settled(self, pieces: Both) -> Set[Hashable]:
        """Return the work that matched kernels of both sides do: it was there all along, and says
        nothing about where it went."""
        matched = [
            (set(every) - set(left), mine)
            for every, left, mine in zip(
                (range(len(self.base)), range(len(self.head))),
                (self.left, self.right),
                pieces,
                strict=True,
            )
        ]
        ours, theirs = ({p for n in done for p in mine[n]} for done, mine in matched)
        return ours & theirs

    def take(self, matches: Sequence[Match]) -> None:
        self.found += matches
        taken_base = {index for m in matches for index in m.base}
        taken_head = {index for m in matches for index in m.head}
        self.left = [index for index in self.left if index not in taken_base]
        self.right = [index for index in self.right if index not in taken_head]

    def take_identical(self, pieces: Both | None, confidence: float) -> None:
        for method, key in (("binary", pairs._binary), ("source", pairs._source)):
            edges = pairs._pair_identical(*self.sides(), key, pieces)
            self.take([self._identical(edge, method, confidence) for edge in edges])

    def take_pairs(self, edges: Sequence[Edge], method: str, pieces: Both) -> None:
        def confidence(edge: Edge) -> float:
            ours, theirs = pieces[0][edge[0]], pieces[1][edge[1]]
            return _TRUST[method] * max(len(ours & theirs) / len(ours | theirs), _ALIKE)

        self.take(
            [Match((b,), (h,), "changed", method, round(confidence((b, h)), 3)) for b, h in edges]
        )

    def take_overlapping(self, pieces: Both, method: str, least: float) -> None:
        ours = {n: _work(self.base[n], pieces[0][n]) for n in self.left}
        theirs = {n: _work(self.head[n], pieces[1][n]) for n in self.right}
        groups = _connect(ours, theirs, self.settled(pieces))
        self.take([_group(*group, method) for group in groups if group[2] >= least])

    def take_absorbed(self, pieces: Both) -> None:
        ours, theirs = pieces
        grown = _absorb(self.found, self.base, self.head, ours, theirs)
        grown = _swap_sides(_absorb(_swap_sides(grown), self.head, self.base, theirs, ours))
        changed = [m for m, before in zip(grown, self.found, strict=True) if m != before]
        kept = [m for m, before in zip(grown, self.found, strict=True) if m == before]
        self.found = kept
        self.take([replace(m, relation=_name_relation(m.base, m.head)) for m in changed])

    def take_only(self, pieces: Both, method: str) -> None:
        """Match a graph's only kernels of both sides that go over the same points, write as much
        and share anything: an operator that is decomposed in another way has few nodes in common
        with what it was."""
        ours, theirs = pieces
        alone = {self.head[h].graph: h for h in self.right}  # of several one, which is not alone
        pairs = ((b, alone.get(self.base[b].graph)) for b in self.left)
        self.take(
            [
                Match((b,), (h,), "changed", method, _ALONE)
                for b, h in pairs
                if h is not None
                if self._only(b, h) and ours[b] & theirs[h] and self._same_points(b, h)
            ]
        )

    def _same_points(self, base: int, head: int) -> bool:
        ours, theirs = self.base[base], self.head[head]
        written = ours.bytes_written == theirs.bytes_written
        return written and ours.sizes == theirs.sizes and bool(ours.sizes)

    def surely(self, found: Match) -> Match:
        """Return a match that is sure: a graph's only kernels of both sides belong together,
        however little they share."""
        if len(found.base) != 1 or len(found.head) != 1 or found.method not in _TRUST:
            return found
        if not self._only(found.base[0], found.head[0]):
            return found
        return replace(found, confidence=max(found.confidence, _ALONE))

    def _only(self, base: int, head: int) -> bool:
        ours, theirs = self.base[base].graph, self.head[head].graph
        return ours == theirs and self.per_graph[ours] == 2

    def _identical(self, pair: Edge, method: str, confidence: float) -> Match:
        ours, theirs = self.base[pair[0]].binary_hash, self.head[pair[1]].binary_hash
        differ = ours is not None and theirs is not None and ours != theirs
        return Match((pair[0],), (pair[1],), "changed" if differ else "same", method, confidence)


def _group(ours: list[int], theirs: list[int], shared: float, method: str) -> Match:
    return Match(
        tuple(ours),
        tuple(theirs),
        _name_relation(ours, theirs),
        method,
        round(_TRUST[method] * shared, 3),
    )


def _work(kernel: KernelFacts, pieces: frozenset[Hashable]) -> Work:
    # One that the device may choose (triton.multi_kernel) is launched no time.
    return Work(pieces, max(kernel.launches, 1))


# --- names -----------------------------------------------------------------------------------


def _same_looks(base: Kernels, head: Kernels, left: list[int], right: list[int]) -> list[Match]:
    """Return matches of kernels that only traces tell of, by names up to their number,
    launches, grid and registers, in order. As far as a trace can tell they are the same."""
    waiting: dict[Hashable, deque[int]] = defaultdict(deque)
    for index in right:
        if not head[index].source_hash:
            waiting[_look(head[index])].append(index)
    return [
        Match((index,), (waiting[_look(base[index])].popleft(),), "same", "look", 0.6)
        for index in left
        if not base[index].source_hash and waiting[_look(base[index])]
    ]


def _look(kernel: KernelFacts) -> Hashable:
    ran = [(c.num_warps, c.registers, c.shared_bytes) for c in kernel.candidates]
    return (_stem(kernel), kernel.launches, kernel.grid, tuple(ran))


def _same_names(base: Kernels, head: Kernels, left: list[int], right: list[int]) -> list[Match]:
    """Return matches of kernels without provenance: equal names up to their number, in order."""
    waiting: dict[Hashable, tuple[deque[int], deque[int]]]
    waiting = defaultdict(lambda: (deque(), deque()))
    for index in right:
        waiting[_stem(head[index])][bool(head[index].origins)].append(index)
    found = []
    for index in left:
        unknown, known = waiting[_stem(base[index])]
        queues = [queue for queue in (unknown, () if base[index].origins else known) if queue]
        if queues:
            partner = min(queues, key=lambda queue: queue[0]).popleft()
            found.append(Match((index,), (partner,), "changed", "name", 0.3))
    return found


def _same_operators(base: Kernels, head: Kernels, left: list[int], right: list[int]) -> list[Match]:
    """Return matches of kernels that only traces tell of, by the operators in their names, in
    order: a persistent reduction and a looped one of the same are called ``triton_per_fused_sum``
    and ``triton_red_fused_sum``."""
    waiting: dict[Hashable, deque[int]] = defaultdict(deque)
    for index in right:
        if not head[index].source_hash:
            waiting[_operators(head[index])].append(index)
    return [
        Match((index,), (waiting[_operators(base[index])].popleft(),), "changed", "name", 0.2)
        for index in left
        if not base[index].source_hash and waiting[_operators(base[index])]
    ]


def _operators(kernel: KernelFacts) -> Hashable:
    return (direction(kernel), stem(kernel.name).partition("_fused_")[2] or kernel.name)


def _stem(kernel: KernelFacts) -> Hashable:
    return (direction(kernel), stem(kernel.name))


# --- kernels that another one took in without leaving a trace of their own --------------------

# The first stage of a split reduction computes the same FX nodes as the second, and both are named
# by the kernel that uses their result: once all three are one, the shared nodes say nothing about
# where the stages went. The buffers between them do.

_Place: TypeAlias = tuple[str, str]
"""A graph, and the name of a buffer there."""

_RELATIONS: dict[tuple[bool, bool], Relation] = {
    (False, False): "changed",
    (False, True): "split",
    (True, False): "fused",
    (True, True): "regrouped",
}


def _name_relation(base: Sequence[int], head: Sequence[int]) -> Relation:
    """Return what became of a group of kernels, neither side of it empty."""
    return _RELATIONS[len(base) > 1, len(head) > 1]


def _absorb(
    found: Sequence[Match], base: Kernels, head: Kernels, ours: Pieces, theirs: Pieces
) -> list[Match]:
    """Return the matches, with each lonely kernel of ``base`` (in no match) put to the group that
    reads what it writes, if the group's other side does all of its work."""
    matches = list(found)
    place_of = {n: place for place, match in enumerate(found) for n in match.base}
    lonely = sorted(set(range(len(base))) - place_of.keys())
    readers = _owners_of(_buffers_read, range(len(base)), base)
    writers = _owners_of(_buffers_written, lonely, base)
    waiting = list(lonely)  # sorted, so it is a heap
    while waiting:
        index = heapq.heappop(waiting)
        if index in place_of:
            continue
        near = {n for buffer in _buffers_written(base[index]) for n in readers.get(buffer, ())}
        places = sorted({place_of[n] for n in near if n in place_of})
        place = next((p for p in places if _takes(matches[p], ours[index], theirs)), None)
        if place is not None:
            matches[place] = _add_to(matches[place], index)
            place_of[index] = place
            # Now that this one is in a group, those that write what it reads may follow it.
            for buffer in _buffers_read(base[index]):
                for other in writers.get(buffer, ()):
                    heapq.heappush(waiting, other)
    return matches


def _owners_of(
    buffers: Callable[[KernelFacts], set[_Place]], indices: Iterable[int], kernels: Kernels
) -> dict[_Place, list[int]]:
    found: dict[_Place, list[int]] = defaultdict(list)
    for index in indices:
        for buffer in buffers(kernels[index]):
            found[buffer].append(index)
    return found


def _swap_sides(matches: Sequence[Match]) -> list[Match]:
    """Return the same matches with both sides exchanged, but for the word that says what
    happened."""
    return [replace(match, base=match.head, head=match.base) for match in matches]


def _takes(match: Match, work: frozenset[Hashable], theirs: Pieces) -> bool:
    """Return whether the other side of a group does all of this work."""
    if match.relation == "same" or not work or not match.base or not match.head:
        return False
    return work <= set().union(*(theirs[n] for n in match.head))


def _add_to(match: Match, index: int) -> Match:
    return replace(match, base=tuple(sorted((*match.base, index))))


def _buffers_written(kernel: KernelFacts) -> set[_Place]:
    return {(kernel.graph, b.name) for b in kernel.buffers if b.is_written}


def _buffers_read(kernel: KernelFacts) -> set[_Place]:
    return {(kernel.graph, b.name) for b in kernel.buffers if b.is_read}
