"""Kernels that another one took in without leaving a trace of their own.

The first stage of a split reduction computes the same FX nodes as the second, and both are named
by the kernel that uses their result: once all three are one, the shared nodes say nothing about
where the stages went. The buffers between them do.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace

from perfcli.diff.work import Kernels, Pieces
from perfcli.model import KernelFacts, Match, Relation

_RELATIONS: dict[tuple[bool, bool], Relation] = {
    (False, False): "changed",
    (False, True): "split",
    (True, False): "fused",
    (True, True): "regrouped",
}


def relation(base: Sequence[int], head: Sequence[int]) -> Relation:
    """What became of a group of kernels, neither side of it empty."""
    return _RELATIONS[len(base) > 1, len(head) > 1]


def absorbed(
    found: Sequence[Match], base: Kernels, head: Kernels, ours: Pieces, theirs: Pieces
) -> list[Match]:
    """The matches, with each lonely kernel of ``base`` (in no match) put to the group that reads
    what it writes, if the group's other side does all of its work."""
    matches = list(found)
    lonely = sorted(set(range(len(base))) - {n for match in found for n in match.base})
    while lonely:
        for index in lonely:
            place = _taker(index, matches, base, ours, theirs)
            if place is not None:
                matches[place] = _with(matches[place], index)
                lonely.remove(index)
                break
        else:
            break
    return matches


def swapped(matches: Sequence[Match]) -> list[Match]:
    """The same matches with both sides exchanged, but for the word that says what happened."""
    return [replace(match, base=match.head, head=match.base) for match in matches]


def _taker(
    index: int, matches: Sequence[Match], base: Kernels, ours: Pieces, theirs: Pieces
) -> int | None:
    work, written = ours[index], _written(base[index])
    for place, match in enumerate(matches):
        if match.relation == "same" or not work or not match.base or not match.head:
            continue
        done: set[Hashable] = set().union(*(theirs[n] for n in match.head))
        reads = any(not written.isdisjoint(_read(base[n])) for n in match.base)
        if reads and work <= done:
            return place
    return None


def _with(match: Match, index: int) -> Match:
    return replace(match, base=tuple(sorted((*match.base, index))))


def _written(kernel: KernelFacts) -> set[tuple[str, str]]:
    return {(kernel.graph, b.name) for b in kernel.buffers if b.is_written}


def _read(kernel: KernelFacts) -> set[tuple[str, str]]:
    return {(kernel.graph, b.name) for b in kernel.buffers if b.is_read}
