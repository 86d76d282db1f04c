"""Groups of two sides' members that share work: the connected parts of a two-sided graph.

A piece of work that sits in one member of either side is a witness of where it went. Pieces
that several members recompute (a cast, an ``rsqrt``) would tie everything to everything, so
they only decide for members that have no witness.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

Edge: TypeAlias = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Work:
    """The pieces of work that a member does, in how many goes: a kernel launched once per layer
    does each layer's pieces in a go of its own, which may each end up somewhere else."""

    pieces: frozenset[Hashable]
    goes: int = 1


Groups: TypeAlias = Mapping[int, Work]

# More than a third. A member follows its witnesses to where at least this share of a go's went;
# without any it joins the member that holds most of its pieces. Either way the smaller of the two
# has this share in common with the other: one recomputed node does not make a new kernel the heir
# of one that is gone.
LEAST_SHARE = 0.34


def connect(base: Groups, head: Groups) -> Iterator[tuple[list[int], list[int], float]]:
    """Yield groups of members of both sides that share work, with the share they have in common
    (pieces on both sides over pieces on either). Members that share nothing are left out."""
    base_owners, head_owners = _owners(base), _owners(head)
    edges = _witnessed(base, base_owners, head_owners)
    edges |= _swap(_witnessed(head, head_owners, base_owners))
    edges = _with_enough_in_common(edges, base, head)
    linked_base, linked_head = {b for b, _ in edges}, {h for _, h in edges}
    joining = _contained({b: base[b] for b in base if b not in linked_base}, head, head_owners)
    joining |= _swap(
        _contained({h: head[h] for h in head if h not in linked_head}, base, base_owners)
    )
    edges |= _with_enough_in_common(joining, base, head)
    for ours, theirs in _components(edges):
        left: frozenset[Hashable] = frozenset().union(*(base[b].pieces for b in ours))
        right: frozenset[Hashable] = frozenset().union(*(head[h].pieces for h in theirs))
        yield ours, theirs, len(left & right) / len(left | right)


def _owners(groups: Groups) -> dict[Hashable, list[int]]:
    owners: dict[Hashable, list[int]] = defaultdict(list)
    for member, work in groups.items():
        for piece in work.pieces:
            owners[piece].append(member)
    return owners


def _swap(edges: set[Edge]) -> set[Edge]:
    return {(right, left) for left, right in edges}


def _witnessed(
    groups: Groups,
    owners: Mapping[Hashable, list[int]],
    others: Mapping[Hashable, list[int]],
) -> set[Edge]:
    edges = set()
    for member, work in groups.items():
        went: Counter[int] = Counter()
        for piece in work.pieces:
            holders = others.get(piece, ())
            if len(holders) == 1 and len(owners[piece]) == 1:
                went[holders[0]] += 1
        least = went.total() * LEAST_SHARE / work.goes
        edges |= {(member, holder) for holder, count in went.items() if count >= least}
    return edges


def _with_enough_in_common(edges: set[Edge], base: Groups, head: Groups) -> set[Edge]:
    def enough(ours: frozenset[Hashable], theirs: frozenset[Hashable]) -> bool:
        return len(ours & theirs) >= min(len(ours), len(theirs)) * LEAST_SHARE

    return {(b, h) for b, h in edges if enough(base[b].pieces, head[h].pieces)}


def _contained(lonely: Groups, others: Groups, owners: Mapping[Hashable, list[int]]) -> set[Edge]:
    edges = set()
    for member, work in lonely.items():
        shared = Counter(owner for piece in work.pieces for owner in owners.get(piece, ()))
        # The closest in size wins a tie: the kernel itself rather than one that swallowed it.
        best = max(shared, key=lambda o: (shared[o], -len(others[o].pieces), -o), default=None)
        if best is not None and shared[best] >= len(work.pieces) * LEAST_SHARE / work.goes:
            edges.add((member, best))
    return edges


def _components(edges: set[Edge]) -> Iterator[tuple[list[int], list[int]]]:
    neighbours: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    for left, right in edges:
        neighbours[0, left].append((1, right))
        neighbours[1, right].append((0, left))
    seen: set[tuple[int, int]] = set()
    for start in sorted(neighbours):
        if start in seen:
            continue
        seen.add(start)
        part, waiting = [], [start]
        while waiting:
            here = waiting.pop()
            part.append(here)
            fresh = [there for there in neighbours[here] if there not in seen]
            seen.update(fresh)
            waiting.extend(fresh)
        yield _side(part, 0), _side(part, 1)


def _side(part: list[tuple[int, int]], side: int) -> list[int]:
    return sorted(index for which, index in part if which == side)
