"""Finds what would keep each compiled graph from being recorded as a CUDA graph, in Inductor's own
words, whether or not recording was asked for. Nothing is recorded.

Seen with torch 2.11 to 2.13: with ``graph_partition`` (the default) ``Scheduler.should_partition``
names what is left out of the recorded parts; without it, or on the CPU,
``check_multiple_devices_or_any_cpu_nodes`` and ``get_first_incompatible_cudagraph_node`` name what
keeps the whole graph from being recorded. Inputs that a graph changes in place are looked at when
it is called (``check_for_mutation``): those that always have the same address, such as parameters,
do no harm.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from perfcli.compile.capture import provenance
from perfcli.compile.capture.operator_calls import read_tensor
from perfcli.model import GraphFacts, GraphObstacle, RecordedGraph
from perfcli.model.compilation import Effect

_MOST = 8
"""Obstacles of one kind that a graph keeps."""


def list_obstacles(lowering: Any, graph: str, static: Any) -> tuple[GraphObstacle, ...]:
    """Return what keeps a ``GraphLowering``, whose code was generated, from being recorded.
    ``static``: the numbers of its inputs that always have the same address."""
    import torch._inductor.config as inductor

    if "cuda" not in lowering.device_types:
        return ()
    found: dict[tuple[str, str], GraphObstacle] = {}
    with inductor.patch({"triton.cudagraphs": True}):
        for obstacle in (
            *_list_splits(lowering, graph),
            *_list_refusals(lowering, graph),
            *_list_mutations(lowering, graph, static),
            *_list_sizes(lowering, graph),
        ):
            found.setdefault((obstacle.effect, obstacle.location or obstacle.reason), obstacle)
    return tuple(found.values())[:_MOST]


def describe_recording(
    lowering: Any, facts: GraphFacts, static: Any, obstacles: Sequence[GraphObstacle]
) -> RecordedGraph | None:
    """Return what recording a ``GraphLowering``, whose code was generated, comes to; None where
    recording is not asked for now. ``static``: as above."""
    import torch._inductor.config as inductor

    if not inductor.triton.cudagraphs or "cuda" not in lowering.device_types:
        return None
    refused = any(obstacle.effect == "not recorded" for obstacle in obstacles)
    again = any(obstacle.effect == "recorded again" for obstacle in obstacles)
    parts = getattr(lowering, "partition_maps", None)
    inputs = [
        (number, name, value)
        for number, (name, value) in enumerate(lowering.graph_inputs.items())
        if hasattr(value, "get_size") and _is_on_device(value)
    ]
    fixed = [each for each in inputs if each[0] in static]
    moving = [each for each in inputs if each[0] not in static]
    copied = sum(_count_bytes(value) for *_, value in moving)
    changed = [each for each in fixed if each[1] in lowering.mutated_inputs]
    peak = facts.peak_memory_bytes
    return RecordedGraph(
        facts.name,
        parts=0 if refused else 1 if parts is None else len(parts),
        each_size=again,
        static=len(fixed),
        static_bytes=sum(_count_bytes(value) for *_, value in fixed),
        copied=len(moving),
        copied_bytes=copied,
        changed=tuple(_describe_changed(lowering, changed)),
        output_bytes=sum(_count_bytes(each) for each in lowering.graph_outputs),
        kept_bytes=None if peak is None or refused else copied + peak,
    )


def _is_on_device(value: Any) -> bool:
    with suppress(AttributeError, NotImplementedError):
        return bool(value.get_device().type == "cuda")
    return False


def _count_bytes(value: Any) -> int:
    """Return the bytes of a tensor, by hints where its sizes are dynamic; 0 for what is none."""
    try:
        return read_tensor(value).bytes
    except Exception:  # a number, or nothing
        return 0


def _describe_changed(lowering: Any, changed: Sequence[tuple[int, str, Any]]) -> Iterator[str]:
    """Yield ``bfloat16 [1, 8, 4096, 128] at model.py:21`` for inputs, by the line that uses them
    first."""
    nodes = [node for node in lowering.module.graph.nodes if node.op == "placeholder"]
    for number, _, value in changed:
        tensor = read_tensor(value)
        text = f"{tensor.dtype} {list(tensor.shape)}"
        users = list(nodes[number].users) if number < len(nodes) else []
        traces = (user.meta.get("stack_trace") for user in users)
        place = next((found for trace in traces if trace and
                      (found := provenance.user_line(trace))[0]), ("", ""))  # fmt: skip
        yield f"{text} at {place[0]}" if place[0] else text


def _list_splits(lowering: Any, graph: str) -> Iterator[GraphObstacle]:
    """Yield the nodes of the schedule that are left out of recorded parts."""
    import torch._inductor.config as inductor

    ask = getattr(lowering.scheduler, "should_partition", None)
    if not inductor.graph_partition or ask is None:
        return
    splits: list[GraphObstacle] = []
    for node in lowering.scheduler.nodes:
        if type(node).__name__ == "NopKernelSchedulerNode":
            continue
        reason = None
        with suppress(AssertionError, AttributeError):  # a node that torch does not ask about
            reason = ask(node)
        if reason:
            origin = next((o for o in provenance.origins(_parts(node)) if o.location), None)
            place = (origin.location, origin.code) if origin else ("", "")
            splits.append(GraphObstacle(graph, "split", _name_operator(str(reason), node), *place))
    # What is checked about sizes that values decide runs on the host, beside what made them so.
    places = dict.fromkeys(split.location for split in splits if split.location)
    for split in splits:
        if split.location in places or not places:
            yield split


def _parts(node: Any) -> Any:
    return list(getattr(node, "snodes", None) or [node])


def _name_operator(reason: str, node: Any) -> str:
    """Return the reason with the operator, where it is one that Inductor did not generate."""
    op = getattr(getattr(node, "node", None), "op_overload", None)
    return f"{reason} ({op})" if op is not None and str(op) not in reason else reason


def _list_refusals(lowering: Any, graph: str) -> Iterator[GraphObstacle]:
    """Yield what keeps the whole graph from being recorded where it is not split."""
    import torch._inductor.config as inductor
    from torch._inductor import cudagraph_utils as checks
    from torch._inductor.utils import get_first_incompatible_cudagraph_node

    devices = checks.check_multiple_devices_or_any_cpu_nodes(dict(lowering.device_node_mapping))
    if devices:
        yield _from_message(graph, devices)
    if inductor.graph_partition:
        return
    node = get_first_incompatible_cudagraph_node(lowering.module)
    if node is not None:
        place = provenance.user_line(node.meta.get("stack_trace") or "")
        reason = f"incompatible op {node.target}"
        yield GraphObstacle(graph, "not recorded", reason, *place)


def _list_mutations(lowering: Any, graph: str, static: Any) -> Iterator[GraphObstacle]:
    """Yield the inputs without a fixed address that a graph changes in place."""
    from torch._inductor import cudagraph_utils as checks

    names = list(lowering.graph_input_names)
    changed = [n for n, name in enumerate(names) if name in lowering.mutated_inputs]
    changed = [number for number in changed if number not in static]
    if changed:
        placeholders = checks.get_placeholder_info(lowering.module.graph)
        yield _from_message(graph, checks.get_mutation_stack_trace(placeholders, changed))


def _list_sizes(lowering: Any, graph: str) -> Iterator[GraphObstacle]:
    """Yield that each new size is recorded anew, or not at all, where sizes are dynamic."""
    import torch._inductor.config as inductor

    if not is_dynamic(lowering):
        return
    skipped = inductor.triton.cudagraph_skip_dynamic_graphs
    effect: Effect = "not recorded" if skipped else "recorded again"
    yield GraphObstacle(graph, effect, "dynamic sizes")


def is_dynamic(lowering: Any) -> bool:
    """Return whether a size of the inputs of a ``GraphLowering`` is a symbol."""
    import sympy  # type: ignore[import-untyped]

    for value in lowering.graph_inputs.values():
        if isinstance(value, sympy.Expr):
            return True
        sizes: Any = ()
        with suppress(AttributeError, NotImplementedError):  # a generator's state has none
            sizes = value.get_size()
        if any(getattr(size, "free_symbols", None) for size in sizes):
            return True
    return False


def _from_message(graph: str, message: str) -> GraphObstacle:
    """Return an obstacle from Inductor's message: ``skipping cudagraphs due to mutated inputs (1
    instances). Found from : …``, with a stack trace."""
    reason, _, trace = message.removeprefix("skipping cudagraphs due to ").partition(". Found from")
    return GraphObstacle(graph, "not recorded", reason.strip(), *provenance.user_line(trace))
