"""Finds kernels that another one took in without leaving a trace of their own.

The first stage of a split reduction computes the same FX nodes as the second, and both are named
by the kernel that uses their result: once all three are one, the shared nodes say nothing about
where the stages went. The buffers between them do.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace
from typing import TypeAlias

from perfcli.diff.work import Kernels, Pieces
from perfcli.model import KernelFacts, Match, Relation

_Place: TypeAlias = tuple[str, str]
"""A graph, and the name of a buffer there."""

_RELATIONS: dict[tuple[bool, bool], Relation] = {
    (False, False): "changed",
    (False, True): "split",
    (True, False): "fused",
    (True, True): "regrouped",
}


def relation(base: Sequence[int], head: Sequence[int]) -> Relation:
    """Return what became of a group of kernels, neither side of it empty."""
    return _RELATIONS[len(base) > 1, len(head) > 1]


def absorb(
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


def swap_sides(matches: Sequence[Match]) -> list[Match]:
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
