"""Listens to Inductor's scheduler: why it did not make one kernel of two.

Its ``WhyNoFuse`` is told the reason of each refusal, and logs it where the log artifact ``fusion``
is on (seen with torch 2.11 and 2.13; it names both nodes as ``name1`` and ``name2``, a fused one by
all of its operations, ``op3_op4``). Without it no reason is known, and nothing fails.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from perfcli.compile.capture.captured import Capture, CapturedGraph, CapturedKernel, is_subgraph
from perfcli.compile.stand_in.device import replace_for_block

_OPERATION = re.compile(r"op\d+")


@contextmanager
def listen_to_scheduler(capture: Capture) -> Iterator[None]:
    """Note what the scheduler refuses to fuse, while the block runs."""
    from torch._inductor import scheduler

    teller: Any = getattr(scheduler, "WhyNoFuse", None)
    if teller is None or "__call__" not in vars(teller):
        yield
        return
    original = vars(teller)["__call__"]

    @functools.wraps(original)
    def tell(self: Any, reason: str, *args: Any) -> None:
        original(self, reason, *args)
        _note(capture, self, reason, args)

    capture.hears_scheduler = True
    with replace_for_block(teller, __call__=tell):
        yield


def _note(capture: Capture, why: Any, reason: str, args: tuple[Any, ...]) -> None:
    from torch._inductor.virtualized import V

    names = getattr(why, "name1", ""), getattr(why, "name2", "")
    # The operations of a subgraph have names that those of its parent have as well.
    if not all(names) or is_subgraph(V.graph):
        return
    graph = capture.current_graph()
    # Asked again with more fused to either, the scheduler may say something else: that counts.
    graph.refusals.pop(names, None)
    graph.refusals[names] = (reason, args)


def note_operations(graph: CapturedGraph, name: str, nodes: Any) -> None:
    """Note which operations of the schedule a kernel computes."""
    for node in nodes if isinstance(nodes, list | tuple) else [nodes]:
        named = node.get_name() if hasattr(node, "get_name") else ""
        graph.operations.update(dict.fromkeys(_OPERATION.findall(named), name))


def tell_refusals(graph: CapturedGraph) -> dict[str, dict[str, str]]:
    """Return for each kernel why it was not fused with others of its graph whose results it reads,
    by their names."""
    found: dict[str, dict[str, str]] = {}
    for names, (reason, args) in graph.refusals.items():
        one, two = (_find_kernel(graph, name) for name in names)
        if one and two and one != two:
            writer, reader = _order_pair(graph.kernels, one, two)
            if writer:
                found.setdefault(reader, {})[writer] = _format_reason(reason, args)
    return found


def _find_kernel(graph: CapturedGraph, name: str) -> str:
    """Return the one kernel that computes all these operations; empty where there is none."""
    found = {graph.operations.get(operation, "") for operation in _OPERATION.findall(name)}
    (kernel,) = found if len(found) == 1 else {""}
    return kernel


def _order_pair(kernels: Mapping[str, CapturedKernel], one: str, two: str) -> tuple[str, str]:
    for writer, reader in ((one, two), (two, one)):
        written, read = _names_of(kernels[writer], True), _names_of(kernels[reader], False)
        if not written.isdisjoint(read):
            return writer, reader
    return "", ""


def _names_of(kernel: CapturedKernel, written: bool) -> set[str]:
    buffers = (buffer for use in kernel.uses for buffer in use.operands.buffers)
    return {b.name for b in buffers if (b.is_written if written else b.is_read)}


def _format_reason(reason: str, args: tuple[Any, ...]) -> str:
    try:
        return reason % args
    except (TypeError, ValueError):
        return reason
