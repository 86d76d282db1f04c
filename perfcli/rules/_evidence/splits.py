"""Finds reductions in two stages, and estimates the time that one takes with and without its
split."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from perfcli.diff.arithmetic import weigh_node
from perfcli.model import KernelFacts, Origin, Run
from perfcli.names import stem
from perfcli.rules._evidence.whole_reads import ANY_REDUCTION, reduced_elements, rows_of
from perfcli.rules._evidence.words import _is_reduction

KERNEL_SECONDS = 2.5e-6
"""What a kernel costs besides its bytes: launch, ramp, tail."""


@dataclass(frozen=True, slots=True)
class Split:
    """Names a reduction in two stages, as indices into ``Run.kernels``."""

    first: int
    second: int
    rows: int
    length: int
    """Elements that one row is reduced from, rounded up to whole chunks."""
    chunks: int


def find_splits(run: Run) -> Iterator[Split]:
    """Yield pairs of kernels of which the second reduces, per row, one partial result for each
    chunk that the first reduced."""
    reducing = [(n, k) for n, k in enumerate(run.kernels) if k.kind in ANY_REDUCTION]
    writers = {
        (kernel.graph, buffer.name): number
        for number, kernel in reducing
        for buffer in kernel.buffers
        if buffer.role != "input"
    }
    for second, two in reducing:
        read = {(two.graph, b.name) for b in two.buffers if b.is_read}
        chunks = reduced_elements(two)
        for first in sorted({writers[key] for key in read if key in writers} - {second}):
            one = run.kernels[first]
            if chunks > 1 and rows_of(one) == rows_of(two) * chunks:
                yield Split(first, second, rows_of(two), reduced_elements(one) * chunks, chunks)


def unsplit(run: Run, split: Split, first: KernelFacts) -> int | None:
    """Return the kernel that shares FX nodes with a split's first stage and reduces the same rows
    in one stage, or None where there is none."""
    for number in related_kernels(run, first):
        if _is_whole(run.kernels[number], split):
            return number
    return None


def _is_whole(kernel: KernelFacts, split: Split) -> bool:
    """Return whether a kernel reduces as many rows of the same length in one stage."""
    same_rows = kernel.kind in ANY_REDUCTION and rows_of(kernel) == split.rows
    rounding = split.length * (1 - 1 / (2 * split.chunks))
    return same_rows and rounding <= reduced_elements(kernel) <= split.length


def is_also_whole(run: Run, split: Split, other: Run, number: int) -> bool:
    """Return whether the run of a split has, beside it, as many reductions in one stage of the
    sorts of nodes that the split shares with a kernel of the other run as the other run has: then
    it is another one that is split. Names don't tell: a model that reduces once more, along another
    axis, numbers its nodes anew."""
    computed = {origin.node for origin in run.kernels[split.first].origins}
    # What is computed before it is reduced, such as a cast, may be there once for both.
    shared = {
        _sort(origin)
        for origin in other.kernels[number].origins
        if origin.node in computed and _is_reduction(origin.op) and weigh_node(origin)
    }
    graph = other.kernels[number].graph
    halves = {n for each in find_splits(run) for n in (each.first, each.second)}
    elsewhere = {o.node for n in halves for o in run.kernels[n].origins}
    here = Counter(_sort(o) for o in _whole_nodes(run, graph, split) if o.node not in elsewhere)
    there = Counter(map(_sort, _whole_nodes(other, graph, split)))
    return bool(shared) and all(here[sort] >= there[sort] for sort in shared)


def _whole_nodes(run: Run, graph: str, split: Split) -> set[Origin]:
    """Return the nodes of a graph's kernels that reduce what the split does in one stage."""
    whole = (k for k in run.kernels if k.graph == graph and _is_whole(k, split))
    return {origin for kernel in whole for origin in kernel.origins}


def _sort(origin: Origin) -> tuple[str, str]:
    return origin.op, stem(origin.node)


def related_kernels(run: Run, kernel: KernelFacts) -> list[int]:
    """Return kernels of the same graph that have FX nodes in common with this one, of this or
    another run."""
    nodes = {origin.node for origin in kernel.origins}
    return [
        number
        for number, other in enumerate(run.kernels)
        if other.graph == kernel.graph and not nodes.isdisjoint(o.node for o in other.origins)
    ]


def unsplit_seconds(run: Run, kernel_bytes: int, blocks: int) -> float | None:
    """Return lower bound for so many blocks of equal work, each of which has a multiprocessor's
    share of the bandwidth: 140 blocks on 132 multiprocessors take as long as 264."""
    if run.target is None or not blocks:
        return None
    sms = run.target.sm_count
    busy = blocks / (math.ceil(blocks / sms) * sms)
    return kernel_bytes / (run.target.bandwidth * busy)


def split_seconds(run: Run, kernel_bytes: int, more_kernels: int) -> float | None:
    """Return the same for so many bytes over all multiprocessors, in so many kernels more."""
    if run.target is None:
        return None
    return kernel_bytes / run.target.bandwidth + more_kernels * KERNEL_SECONDS


def blocks_of(kernel: KernelFacts) -> int:
    """Return blocks that a kernel starts, with the candidate that starts most of them."""
    rows = rows_of(kernel)
    return max((-(-rows // c.config.get("XBLOCK", 1)) for c in kernel.candidates), default=0)
