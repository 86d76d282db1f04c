"""Tells whether the kernels of the head compute more than those of the base that they belong to."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from perfcli.diff.arithmetic import weigh_node
from perfcli.model import KernelFacts, Match, Run
from perfcli.names import stem


def adds_work(base: Run, head: Run, match: Match) -> bool:
    """Return whether the head's kernels of a match have ATen operators that the base's have not, or
    have more calls of one, and so have both runs. Not known, and so not, where the same model may
    have other operators: with another torch, other options or dynamic sizes, or where a graph break
    lies between the kernels."""
    ours, theirs = match.select(base, head)
    if not _decomposes_alike(base, head) or _count_graphs(theirs) > _count_graphs(ours):
        return False
    return not _list_added(ours, theirs).isdisjoint(_list_added(base.kernels, head.kernels))


def _decomposes_alike(base: Run, head: Run) -> bool:
    return (
        base.environment.torch == head.environment.torch
        and base.settings == head.settings
        and base.variant.options == head.variant.options
        and base.dynamic == head.dynamic
    )


def _count_graphs(kernels: Iterable[KernelFacts]) -> int:
    return len({kernel.graph for kernel in kernels})


def _list_added(base: Iterable[KernelFacts], head: Iterable[KernelFacts]) -> set[str]:
    """Return operators that only the head's kernels have, or of which they have more of every sort
    of node that both have: one call of ``_softmax`` is a ``sub``, an ``exp`` and a ``div``."""
    ours, theirs = _count_nodes(base), _count_nodes(head)
    return {op for op, nodes in theirs.items() if op not in ours or _are_more(nodes, ours[op])}


def _are_more(nodes: Counter[str], before: Counter[str]) -> bool:
    both = nodes.keys() & before.keys()
    return bool(both) and all(nodes[sort] > before[sort] for sort in both)


def _count_nodes(kernels: Iterable[KernelFacts]) -> Mapping[str, Counter[str]]:
    """Return how many nodes of each sort there are of each ATen operator that computes something.
    Those that move are left out: a copy in between is what makes two kernels of one. So are those
    of ``prims``, which Inductor makes of others."""
    nodes = {
        (kernel.graph, origin.op, origin.node)
        for kernel in kernels
        for origin in kernel.origins
        if origin.op.startswith("aten.") and weigh_node(origin)
    }
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for _, op, node in nodes:
        counts[op][stem(node)] += 1
    return counts
