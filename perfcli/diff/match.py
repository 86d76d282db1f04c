"""Which kernels of two runs compute the same thing.

Identical code first, then what the kernels compute: FX nodes, or operators with module and
shape where node names can't be compared. Names of kernels are the last resort: they and their
numbers change with every fusion. Every kernel of both sides ends up in exactly one match.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TypeAlias

from perfcli.diff.overlap import Groups, Work, connect
from perfcli.model import KernelFacts, Match, Relation

Kernels: TypeAlias = Sequence[KernelFacts]
Pair: TypeAlias = tuple[int, int]
KeyOf: TypeAlias = Callable[[KernelFacts], Hashable]


def match(base: Kernels, head: Kernels, nodes_agree: bool = True) -> tuple[Match, ...]:
    """Match the kernels of two runs, in base order, new kernels last.

    ``nodes_agree`` says that a node's name means the same on both sides: same torch, same graphs.
    """
    left, right = list(range(len(base))), list(range(len(head)))
    found: list[Match] = []

    def take(matches: Sequence[Match]) -> None:
        found.extend(matches)
        taken_base = {index for m in matches for index in m.base}
        taken_head = {index for m in matches for index in m.head}
        left[:] = [index for index in left if index not in taken_base]
        right[:] = [index for index in right if index not in taken_head]

    for related in (True, False) if nodes_agree else (False,):
        for method, key in (("binary", _binary), ("source", _source)):
            pairs = _equal_pairs(base, head, left, right, key, related)
            confidence = 1.0 if related or not nodes_agree else 0.9
            take([_pair(base, head, pair, method, confidence) for pair in pairs])
        if related:
            take(_overlapping(base, head, left, right, "nodes"))
    take(_overlapping(base, head, left, right, "operators"))
    take(_same_names(base, head, left, right))
    take([Match((index,), (), "gone", "none", 1.0) for index in left])
    take([Match((), (index,), "new", "none", 1.0) for index in right])
    return tuple(sorted(found, key=_order))


def _order(found: Match) -> tuple[bool, int]:
    return (not found.base, min(found.base or found.head))


def direction(kernel: KernelFacts) -> str:
    """``forward`` of ``forward 0``."""
    return kernel.graph.split(" ")[0]


# --- identical code --------------------------------------------------------------------------


def _binary(kernel: KernelFacts) -> Hashable:
    return kernel.binary_hash and (direction(kernel), kernel.binary_hash)


def _source(kernel: KernelFacts) -> Hashable:
    return (direction(kernel), kernel.source_hash)


def _nodes(kernel: KernelFacts) -> frozenset[tuple[str, str, str]]:
    return frozenset((kernel.graph, o.node, o.op) for o in kernel.origins)


def _equal_pairs(
    base: Kernels, head: Kernels, left: list[int], right: list[int], key: KeyOf, related: bool
) -> list[Pair]:
    """Pairs with an equal, known key; several with the same key by what they compute, then by
    graph, then in order. With ``related``, only those that share a node or have none."""
    buckets: dict[Hashable, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for side, (kernels, indices) in enumerate(((base, left), (head, right))):
        for index in indices:
            if key(kernels[index]):
                buckets[key(kernels[index])][side].append(index)
    return [
        pair
        for ours, theirs in buckets.values()
        if ours and theirs
        for pair in _pair_bucket(base, head, ours, theirs, related)
    ]


def _pair_bucket(
    base: Kernels, head: Kernels, ours: list[int], theirs: list[int], related: bool
) -> list[Pair]:
    pairs: list[Pair] = []
    finer_to_coarser: tuple[KeyOf, ...] = (_nodes, lambda k: k.graph, lambda k: None)
    for affinity in finer_to_coarser:
        waiting: dict[Hashable, list[int]] = defaultdict(list)
        for index in theirs:
            waiting[affinity(head[index])].append(index)
        for index in list(ours):
            partners = waiting[affinity(base[index])]
            partner = next((p for p in partners if _may(base[index], head[p], related)), None)
            if partner is not None:
                partners.remove(partner)
                ours.remove(index)
                theirs.remove(partner)
                pairs.append((index, partner))
    return pairs


def _may(ours: KernelFacts, theirs: KernelFacts, related: bool) -> bool:
    if not related or not ours.origins or not theirs.origins:
        return True
    return not _nodes(ours).isdisjoint(_nodes(theirs))


def _pair(base: Kernels, head: Kernels, pair: Pair, method: str, confidence: float) -> Match:
    ours, theirs = base[pair[0]].binary_hash, head[pair[1]].binary_hash
    differ = ours is not None and theirs is not None and ours != theirs
    return Match((pair[0],), (pair[1],), "changed" if differ else "same", method, confidence)


# --- overlapping work ------------------------------------------------------------------------

# How far a method is trusted, times how much of the work is shared.
_TRUST = {"nodes": 1.0, "operators": 0.8}


def _overlapping(
    base: Kernels, head: Kernels, left: list[int], right: list[int], method: str
) -> list[Match]:
    keys = _node_keys if method == "nodes" else _operator_keys
    groups = connect(keys(base, left), keys(head, right))
    return [_group(ours, theirs, method, shared) for ours, theirs, shared in groups]


def _node_keys(kernels: Kernels, indices: list[int]) -> Groups:
    return {index: Work(_nodes(kernels[index]), kernels[index].launches) for index in indices}


def _operator_keys(kernels: Kernels, indices: list[int]) -> Groups:
    """Operator, module and shape, numbered in order of first appearance: the second layer's
    second addition is the same on both sides whatever its node is called."""
    numbers: dict[Hashable, dict[Hashable, int]] = defaultdict(dict)
    keys: dict[int, Work] = {}
    for index in indices:
        kernel = kernels[index]
        mine = []
        for origin in kernel.origins:
            if origin.op:
                kind = (direction(kernel), origin.op, origin.module, origin.shape)
                seen = numbers[kind]
                mine.append((kind, seen.setdefault((kernel.graph, origin.node), len(seen))))
        keys[index] = Work(frozenset(mine), kernel.launches)
    return keys


def _group(ours: list[int], theirs: list[int], method: str, shared: float) -> Match:
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
