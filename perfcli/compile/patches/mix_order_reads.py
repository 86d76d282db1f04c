"""Limits what mix-order kernels read, for torch 2.10 to 2.12, which lack the option.

A mix-order kernel computes two reductions over the same elements, one along the rows and one down
the columns. Once it exists, Inductor fuses more nodes into it. Every further buffer is one more
load in the loop over the rows, whose sums live in registers across it: past some number they are
spilled (pytorch #179423). torch 2.13 stops at ``triton.mix_order_reduction_max_reads`` buffers
(#179494). The same question is asked here at the same place: before a mix-order kernel takes in
another node. The scheduler asks about a pair of nodes more than once, so what is counted is not a
number of kernels.

Read against torch 2.10.0, 2.11.0, 2.12.1 and 2.13.0; compiled with 2.11.0, 2.12.1 and 2.13.0.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

from perfcli.compile.patches.patching import Patching


def apply(patching: Patching, limit: int) -> None:
    """Let mix-order kernels grow to ``limit`` buffers read."""
    from torch._inductor import scheduler

    _limit_reads(patching, scheduler, limit)


def _limit_reads(patching: Patching, scheduler: Any, limit: int) -> None:
    kernel = patching.find(scheduler, "FusedMixOrderReductions")
    original = patching.find(kernel, "can_fuse_with", "self", "other")
    memory_dep = patching.find(scheduler, "MemoryDep")

    @functools.wraps(original)
    def can_fuse_with(self: Any, other: Any) -> Any:
        if _buffers_read((self, other), memory_dep) > limit:
            patching.count()
            return False
        return original(self, other)

    patching.replace(kernel, "can_fuse_with", can_fuse_with)


def _buffers_read(nodes: Iterable[Any], memory_dep: Any) -> int:
    """Return how many buffers the scheduler nodes read element by element, each counted once.
    Buffers that one of the nodes writes count as well, as in torch 2.13; dependencies that only
    order nodes do not."""
    reads = (dep for node in nodes for part in node.get_nodes() for dep in part.read_writes.reads)
    return len({dep.name for dep in reads if isinstance(dep, memory_dep)})
