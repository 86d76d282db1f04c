"""Keeps fusions from reading more than so many bytes at once, for torch 2.10 and later.

What one kernel reads has to be in memory at the same time. Added one by one, the terms of a running
sum can be freed one by one; fused into one kernel, the additions save reads and writes of the sum
and need all of its terms at once. ``realize_acc_reads_size_threshold`` (#157563) limited that in
two places: while lowering, an operation that reads as much is stored, not computed into the next
one; and the scheduler refuses to fuse what would read more. The second half is gone since torch
2.10: the scheduler fuses again what lowering kept apart.

With this patch one number limits both. Buffers that stay in memory anyway, such as a graph's
inputs, do not count, and a fusion that reads no more than one of its parts alone is not refused:
torch 2.9 counted and refused both.

Read against torch 2.9.1, 2.10.0, 2.11.0, 2.12.1, 2.13.0 and 2.15.0; compiled with 2.11.0 and
2.13.0.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

from perfcli.compile.patches.patching import Patching


def apply(patching: Patching, limit: int) -> None:
    """Store what reads ``limit`` bytes or more, and fuse nothing that would read more than that."""
    from torch._inductor import choices, graph, ir, scheduler, utils

    memory_dep = patching.find(scheduler, "MemoryDep")
    stays = patching.find(utils, "is_nonfreeable_buffers")
    patching.find(graph.GraphLowering, "get_dep_size_hint")
    fuses = patching.find(
        choices.InductorChoices, "can_fuse", *("scheduler", "node1", "node2", "shared_data_score")
    )
    enough = patching.find(
        ir.StorageBox, "has_accumulated_enough_reads_by_size", "self", "threshold"
    )
    is_full = patching.find(ir.StorageBox, "has_exceeded_max_reads", "self")

    @functools.wraps(is_full)
    def has_exceeded_max_reads(self: Any) -> bool:
        return is_full(self) or (isinstance(self.data, ir.Pointwise) and enough(self, limit))

    @functools.wraps(fuses)
    def can_fuse(scheduler: Any, node1: Any, node2: Any, shared_data_score: Any) -> bool:
        if not fuses(scheduler, node1, node2, shared_data_score):
            return False
        if _accumulates(node1, node2):
            patching.count()
            return False
        return True

    def _accumulates(node1: Any, node2: Any) -> bool:
        """Return whether both together would read more than the limit, and more than each does."""
        from torch._inductor.virtualized import V

        def weigh(reads: Iterable[Any], written: Any = frozenset()) -> int:
            sizes = {
                dep.name: V.graph.get_dep_size_hint(dep)
                for dep in reads
                if isinstance(dep, memory_dep) and dep.name not in written and not stays(dep)
            }
            return sum(sizes.values())

        ours, theirs = node1.read_writes, node2.read_writes
        written = {dep.name for dep in (*ours.writes, *theirs.writes)}
        together = weigh((*ours.reads, *theirs.reads), written)
        return together > max(limit, weigh(ours.reads), weigh(theirs.reads))

    patching.replace(ir.StorageBox, "has_exceeded_max_reads", has_exceeded_max_reads)
    patching.replace(choices.InductorChoices, "can_fuse", staticmethod(can_fuse))
