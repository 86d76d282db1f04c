"""Hooks the places where Inductor defines kernels: their names and texts, what they compute and
move.

Seen with torch 2.11 to 2.15.
"""

from __future__ import annotations

import functools
from typing import Any

from perfcli.compile.capture import fusion_refusals, provenance, traffic
from perfcli.compile.capture.captured import Capture, CapturedKernel, is_subgraph
from perfcli.compile.capture.definition import parse_definition
from perfcli.compile.capture.selections import note_kernel


def hook_scheduled(capture: Capture, original: Any) -> Any:
    """Wrap a backend's ``define_kernel(src, scheduled nodes, kernel)``: the only place where the
    scheduler's nodes, the kernel object and the final name are at hand together."""

    @functools.wraps(original)
    def define(self: Any, src_code: str, nodes: Any, kernel: Any = None, *rest: Any) -> Any:
        kernels = capture.current_graph().kernels
        parts = provenance.parts(nodes, kernel)
        before = len(kernels)
        # The C++ backend keeps the arguments of its kernels in a group.
        group = getattr(self, "kernel_group", None)
        capture.scheduled.append((parts, kernel or getattr(group, "args", None)))
        try:
            name = original(self, src_code, nodes, kernel, *rest)
        finally:
            capture.scheduled.pop()
        if name in kernels and len(kernels) == before:  # the same text again, other buffers
            kernels[name].add_origins(parts)
            kernels[name].uses.append(traffic.read_use(kernel))
        note_kernel(kernel, name)
        if name in kernels:
            _note_workspace(capture, nodes, kernels[name].uses[-1])
            _note_operations(capture, name, parts)
        return name

    return define


def _note_workspace(capture: Capture, nodes: Any, use: traffic.Use) -> None:
    """Keep what the kernel is given to work in with the first node that it computes: there the
    schedule's memory has to hold it."""
    from torch._inductor.virtualized import V

    size = sum(b.bytes for b in use.operands.buffers if b.role == "workspace")
    first = next((node for node in nodes if hasattr(node, "get_name")), None) if size else None
    # The schedule of a subgraph is none of its parent's, which has the record.
    if first is not None and not is_subgraph(V.graph):
        capture.current_graph().workspaces[first.get_name()] = size


def _note_operations(capture: Capture, name: str, nodes: Any) -> None:
    from torch._inductor.virtualized import V

    if not is_subgraph(V.graph):
        fusion_refusals.note_operations(capture.current_graph(), name, nodes)


def hook_definition(capture: Capture, original: Any) -> Any:
    """Wrap ``PythonWrapperCodegen.define_kernel``, which has the kernel's final name and text."""

    @functools.wraps(original)
    def define(self: Any, kernel_name: str, kernel_body: str, *rest: Any, **options: Any) -> Any:
        definition = parse_definition(kernel_body, options.get("cpp_definition"))
        graph = capture.current_graph()
        if definition is None:
            graph.opaque.add(kernel_name)
        elif kernel_name not in graph.kernels:
            nodes, kernel = capture.scheduled[-1] if capture.scheduled else (None, None)
            use = traffic.Use() if kernel is None else traffic.read_use(kernel)
            record = CapturedKernel(kernel_name, definition, uses=[use])
            if nodes is not None:
                record.origins = provenance.origins(nodes)
            graph.kernels[kernel_name] = record
            capture.on_kernel(record)
        return original(self, kernel_name, kernel_body, *rest, **options)

    return define


def hook_choice(capture: Capture, original: Any) -> Any:
    @functools.wraps(original)
    def define(self: Any, kernels: Any, *rest: Any, **options: Any) -> Any:
        name = original(self, kernels, *rest, **options)
        capture.current_graph().choices[name] = tuple(k.kernel_name for k in kernels)
        return name

    return define
