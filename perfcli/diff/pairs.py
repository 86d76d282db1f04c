"""Pairs kernels that go together one by one: identical code, and kernels that look alike.

Both are decided before work is compared piece by piece, so that a kernel that lost one of eleven
layers to a fusion is still that kernel, not a part of the fused one.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence, Set
from typing import TypeAlias

from perfcli.diff.overlap import Edge, _components, _few, _owners
from perfcli.diff.work import Both, Kernels, _kinds, _kinds_per_launch, direction
from perfcli.model import KernelFacts

KeyOf: TypeAlias = Callable[[KernelFacts], Hashable]
Indices: TypeAlias = Sequence[int]


def _binary(kernel: KernelFacts) -> Hashable:
    return kernel.binary_hash and (direction(kernel), kernel.binary_hash)


def _source(kernel: KernelFacts) -> Hashable:
    return kernel.source_hash and (direction(kernel), kernel.source_hash)


def _pair_identical(
    base: Kernels, head: Kernels, left: Indices, right: Indices, key: KeyOf, pieces: Both | None
) -> list[Edge]:
    """Return pairs with an equal, known key: those with most work in common first, and only those
    with any, or where one's work is not known. Without ``pieces`` all, by graph, then in order."""
    pairs: list[Edge] = []
    for ours, theirs in _buckets(base, head, left, right, key):
        if pieces:
            pairs += _take_by_work(ours, theirs, pieces)
            pairs += _take_blind(ours, theirs, pieces)
        else:
            pairs += _take_by(ours, theirs, lambda n: base[n].graph, lambda n: head[n].graph)
            pairs += _take_by(ours, theirs)
    return pairs


def _pair_equal_work(
    base: Kernels, head: Kernels, left: Indices, right: Indices, pieces: Both
) -> list[Edge]:
    """Return pairs with the same sorts of work in the same modules, where there are as many of them
    on either side: known without numbering them."""

    def key(kernel: KernelFacts) -> Hashable:
        return frozenset(_kinds(kernel).items())

    pairs: list[Edge] = []
    for ours, theirs in _buckets(base, head, left, right, key):
        if len(ours) == len(theirs):
            pairs += _take_by_work(ours, theirs, pieces) + _take_by(ours, theirs)
    return pairs


def _pair_look_alikes(
    base: Kernels,
    head: Kernels,
    left: Indices,
    right: Indices,
    pieces: Both,
    settled: Set[Hashable] = frozenset(),
    shapes: bool = True,
) -> list[Edge]:
    """Return pairs with the same sorts of work per launch, among kernels that share work which
    nobody else does, where these are as many on either side. Without ``shapes`` whatever the
    sizes."""
    mine = {n: _kinds_per_launch(base[n], shapes) for n in left}
    yours = {n: _kinds_per_launch(head[n], shapes) for n in right}
    holders = _owners({n: pieces[1][n] for n in right})
    edges = {
        (ours[0], theirs[0])
        for piece, ours in _owners({n: pieces[0][n] for n in left}).items()
        for theirs in (holders.get(piece, ()),)
        if len(ours) == 1 == len(theirs) and piece not in settled
        if mine[ours[0]] and mine[ours[0]] == yours[theirs[0]]
    }
    pairs: list[Edge] = []
    for some, others in _components(edges):
        if len(some) == len(others):
            pairs += _take_by_work(some, others, pieces) + _take_by(some, others)
    return pairs


def _buckets(
    base: Kernels, head: Kernels, left: Indices, right: Indices, key: KeyOf
) -> Iterator[tuple[list[int], list[int]]]:
    buckets: dict[Hashable, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for side, (kernels, indices) in enumerate(((base, left), (head, right))):
        for index in indices:
            if found := key(kernels[index]):
                buckets[found][side].append(index)
    return ((ours, theirs) for ours, theirs in buckets.values() if ours and theirs)


def _take_by_work(ours: list[int], theirs: list[int], pieces: Both) -> list[Edge]:
    """Take pairs out of both lists, the most work in common first, for whom there is any."""
    holders = _owners({n: pieces[1][n] for n in theirs})
    telling = _few(_owners({n: pieces[0][n] for n in ours}), holders)
    taken: set[int] = set()
    shared = Counter(
        (b, h) for b in ours for piece in pieces[0][b] if piece in telling for h in holders[piece]
    )

    def closeness(edge: Edge) -> tuple[float, int, int]:
        b, h = edge
        return (-shared[edge] / len(pieces[0][b] | pieces[1][h]), b, h)

    pairs: dict[int, int] = {}
    for b, h in sorted(shared, key=closeness):
        if b not in pairs and h not in taken:
            pairs[b] = h
            taken.add(h)
    _leave_out(ours, list(pairs))
    _leave_out(theirs, list(taken))
    return list(pairs.items())


def _take_blind(ours: list[int], theirs: list[int], pieces: Both) -> list[Edge]:
    """Take pairs out of both lists of which one at least does nothing that is known."""
    pairs = _take_by([b for b in ours if not pieces[0][b]], theirs)
    _leave_out(ours, [b for b, _ in pairs])
    unknown = [h for h in theirs if not pieces[1][h]]
    more = _take_by(ours, unknown)
    _leave_out(theirs, [h for _, h in more])
    return pairs + more


def _take_by(
    ours: list[int],
    theirs: list[int],
    of_ours: Callable[[int], Hashable] = lambda _: None,
    of_theirs: Callable[[int], Hashable] = lambda _: None,
) -> list[Edge]:
    """Take pairs out of both lists that agree in a value, in order."""
    waiting: dict[Hashable, list[int]] = defaultdict(list)
    for h in reversed(theirs):
        waiting[of_theirs(h)].append(h)
    pairs = [(b, waiting[of_ours(b)].pop()) for b in ours if waiting[of_ours(b)]]
    _leave_out(ours, [b for b, _ in pairs])
    _leave_out(theirs, [h for _, h in pairs])
    return pairs


def _leave_out(indices: list[int], taken: Sequence[int]) -> None:
    gone = set(taken)
    indices[:] = [index for index in indices if index not in gone]
