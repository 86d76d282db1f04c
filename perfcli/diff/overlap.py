"""Groups members of two sides that share work: the connected parts of a two-sided graph.

A piece of work that sits in one member of either side is a witness of where it went. Pieces
that several members recompute (a cast, an ``rsqrt``) would tie everything to everything, so
they only decide for members that have no witness.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Mapping, Set
from dataclasses import dataclass
from typing import TypeAlias

Edge: TypeAlias = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Work:
    """Holds the pieces of work that a member does, in how many goes: a kernel launched once per
    layer does each layer's pieces in a go of its own, which may each end up somewhere else."""

    pieces: frozenset[Hashable]
    goes: int = 1


Groups: TypeAlias = Mapping[int, Work]

# More than a third. A member follows its witnesses to where at least this share of a go's went;
# without any it joins who took over this share of its pieces. Either way the smaller of the two
# has this share in common with the other: one recomputed node does not make a new kernel the heir
# of one that is gone. A kernel dealt evenly into three or more is found by most of its pieces.
LEAST_SHARE = 0.34
MOST = 0.5
MOST_PAIRS = 2_000_000
"""The most pairs of members of both sides that are weighed against each other: a few seconds and
400 MB."""


def _connect(
    base: Groups, head: Groups, settled: Set[Hashable] = frozenset()
) -> Iterator[tuple[list[int], list[int], float]]:
    """Yield groups of members of both sides that share work, with the share they have in common
    (pieces on both sides over pieces on either). Members that share nothing are left out.
    ``settled`` pieces are done elsewhere on both sides, and are no witnesses."""
    base_owners = _owners({b: work.pieces for b, work in base.items()})
    head_owners = _owners({h: work.pieces for h, work in head.items()})
    went_base = _witnesses(base, base_owners, head_owners, settled)
    went_head = _witnesses(head, head_owners, base_owners, settled)
    edges = _follow(base, went_base) | _swap(_follow(head, went_head))
    edges = {(b, h) for b, h in edges if _is_enough(base[b], head[h])}
    edges |= _deal(base, went_base, edges) | _swap(_deal(head, went_head, _swap(edges)))
    linked_base, linked_head = {b for b, _ in edges}, {h for _, h in edges}
    lonely_base = {b: base[b] for b in base if b not in linked_base}
    lonely_head = {h: head[h] for h in head if h not in linked_head}
    joining = _join_lonely(
        lonely_base, head, head_owners, _explained_work(_swap(edges), base), settled
    )
    joining |= _swap(
        _join_lonely(lonely_head, base, base_owners, _explained_work(edges, head), settled)
    )
    edges |= {edge for edge in joining if _is_enough(base[edge[0]], head[edge[1]])}
    for ours, theirs in _components(edges):
        left: frozenset[Hashable] = frozenset().union(*(base[b].pieces for b in ours))
        right: frozenset[Hashable] = frozenset().union(*(head[h].pieces for h in theirs))
        yield ours, theirs, len(left & right) / len(left | right)


def _owners(members: Mapping[int, frozenset[Hashable]]) -> dict[Hashable, list[int]]:
    """Return the members that do each piece of work."""
    found: dict[Hashable, list[int]] = defaultdict(list)
    for member, pieces in members.items():
        for piece in pieces:
            found[piece].append(member)
    return found


def _few(ours: Mapping[Hashable, list[int]], theirs: Mapping[Hashable, list[int]]) -> Set[Hashable]:
    """Return the pieces of both sides that tell who goes with whom: all of them, but for those that
    so many members have that there would be more than ``MOST_PAIRS`` pairs to weigh."""
    pairs = {piece: len(ours[piece]) * len(theirs[piece]) for piece in ours if piece in theirs}
    so_many, together = 0, 0
    for number, pieces in sorted(Counter(pairs.values()).items()):
        together += number * pieces
        if together > MOST_PAIRS:
            break
        so_many = number
    return {piece for piece, number in pairs.items() if number <= so_many}


def _swap(edges: set[Edge]) -> set[Edge]:
    return {(right, left) for left, right in edges}


def _witnesses(
    groups: Groups,
    owners: Mapping[Hashable, list[int]],
    others: Mapping[Hashable, list[int]],
    settled: Set[Hashable],
) -> dict[int, Counter[int]]:
    """Return how many of each member's pieces that nobody else has went to whom."""
    found: dict[int, Counter[int]] = {member: Counter() for member in groups}
    for piece, (member, *more) in owners.items():
        holders = others.get(piece, ())
        if len(holders) == 1 and not more and piece not in settled:
            found[member][holders[0]] += 1
    return found


def _follow(groups: Groups, went: Mapping[int, Counter[int]]) -> set[Edge]:
    return {
        (member, holder)
        for member, counts in went.items()
        for holder, count in counts.items()
        if count >= counts.total() * LEAST_SHARE / groups[member].goes
    }


def _deal(groups: Groups, went: Mapping[int, Counter[int]], edges: set[Edge]) -> set[Edge]:
    """Link members that went to many in equal parts, none of them large."""
    linked = {member for member, _ in edges}
    found = set()
    for member, counts in went.items():
        most = max(counts.values(), default=0)
        holders = [holder for holder, count in counts.items() if count == most]
        if member not in linked and most * len(holders) >= len(groups[member].pieces) * MOST:
            found |= {(member, holder) for holder in holders}
    return found


def _is_enough(ours: Work, theirs: Work) -> bool:
    smaller = min(len(ours.pieces), len(theirs.pieces))
    return len(ours.pieces & theirs.pieces) >= smaller * LEAST_SHARE


def _explained_work(edges: set[Edge], others: Groups) -> Mapping[int, Set[Hashable]]:
    """Return, for each member, the work of all that it is linked to."""
    found: dict[int, set[Hashable]] = defaultdict(set)
    for member, other in edges:
        found[member] |= others[other].pieces
    return found


def _join_lonely(
    lonely: Groups,
    others: Groups,
    holders: Mapping[Hashable, list[int]],
    explained: Mapping[int, Set[Hashable]],
    settled: Set[Hashable],
) -> set[Edge]:
    """Link members without a witness to whoever does all of their work, or took over enough of it.
    What another's partners did all along it has not taken over."""
    edges = set()
    telling = _few(_owners({n: work.pieces for n, work in lonely.items()}), holders)
    for member, work in lonely.items():
        shared = Counter(o for piece in work.pieces if piece in telling for o in holders[piece])
        new = work.pieces - settled
        fresh = {o: len(new & others[o].pieces - explained.get(o, set())) for o in shared}
        # The closest in size wins a tie: the kernel itself rather than one that swallowed it.
        best = max(
            shared, key=lambda o: (fresh[o], shared[o], -len(others[o].pieces), -o), default=None
        )
        if best is None:
            continue
        enough = fresh[best] >= len(work.pieces) * LEAST_SHARE / work.goes
        if shared[best] == len(work.pieces) or enough:
            edges.add((member, best))
    return edges


def _components(edges: set[Edge]) -> Iterator[tuple[list[int], list[int]]]:
    """Yield the connected parts, each as its members of either side, in order."""
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
