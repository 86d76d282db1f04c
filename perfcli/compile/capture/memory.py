"""Counts the memory that a schedule needs, as Inductor estimates it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any


def estimate_memory(
    scheduler: Any, workspaces: Mapping[str, int]
) -> tuple[int, tuple[int, ...]] | None:
    """Return Inductor's own estimate (``memory.prepare_planning_info``) of the bytes that the
    schedule's buffers and freeable inputs take: the peak, and what is live at each node of the
    schedule in order. None where this torch has no estimate. ``workspaces``: by the name of a node,
    the bytes that its kernel is given to work in, which Inductor's estimate leaves out.

    Asked after code was generated: the estimate counts every buffer of the schedule, and only then
    it is known which of them live inside of a kernel and are never allocated.
    """
    try:
        from torch._inductor import memory
        from torch._inductor.virtualized import V
        from torch.utils._ordered_set import OrderedSet

        outputs = OrderedSet(V.graph.get_output_names())
        _, freeable_inputs = memory.prepare_planning_info(
            scheduler.nodes,
            scheduler.name_to_buf,
            scheduler.name_to_fused_node,
            OrderedSet(V.graph.graph_inputs.keys()),
            outputs,
        )
        inside = V.graph.removed_buffers | V.graph.inplaced_to_remove
        for name in inside & OrderedSet(scheduler.name_to_buf):
            buffer = scheduler.name_to_buf[name]
            buffer.mpi_buffer = replace(buffer.mpi_buffer, size_alloc=0, size_free=0)
        peak, live = memory.estimate_peak_memory(scheduler.nodes, freeable_inputs, outputs)
        extra = [
            sum(workspaces.get(part.get_name(), 0) for part in node.get_nodes())
            for node in scheduler.nodes
        ]
    except Exception:
        return None
    # The last number is what outlives the schedule.
    with_workspaces = [*map(sum, zip(live, extra, strict=False)), *live[len(extra) :]]
    return max(int(peak), *with_workspaces), tuple(map(int, with_workspaces))
