"""Hooks the places where Inductor writes launches and extern calls.

Seen with torch 2.11 to 2.15.
"""

from __future__ import annotations

import functools
from typing import Any

from perfcli.compile.capture import traffic
from perfcli.compile.capture.captured import Capture, is_subgraph
from perfcli.compile.capture.operator_calls import _find_inner_operator, _read_call
from perfcli.model import Launch


def hook_call(capture: Capture, original: Any) -> Any:
    @functools.wraps(original)
    def call(self: Any, kernel_name: str, *rest: Any, **options: Any) -> Any:
        graph = capture.current_graph()
        name, *_ = graph.choices.get(kernel_name, (kernel_name,))
        if name in graph.kernels or name in graph.opaque:
            extern = name not in graph.kernels
            launches = _launch_list(capture)
            launches.append(Launch(graph.facts.name, name, extern))
            if not extern:
                for operator in graph.kernels[name].uses[-1].finishing.operators:
                    launch = Launch(graph.facts.name, operator, extern=True, finishing=True)
                    launches.append(launch)
        return original(self, kernel_name, *rest, **options)

    return call


def hook_extern(capture: Capture, original: Any) -> Any:
    @functools.wraps(original)
    def codegen(self: Any, scheduler_node: Any) -> Any:
        from torch._inductor import ir

        node = scheduler_node.node
        if isinstance(node, ir.UserDefinedTritonKernel):
            graph = capture.current_graph()
            launches = _launch_list(capture)
            before = len(launches)
            result = original(self, scheduler_node)
            for launch in launches[before:]:
                written = graph.kernels[launch.name]
                written.add_origins(node)
                written.add_user_use(traffic.read_user_use(node))
            return result
        subgraphs = _subgraphs(node)
        if subgraphs:
            capture.branches += not isinstance(node, ir.InvokeSubgraph)
            result = original(self, scheduler_node)
            for subgraph in subgraphs:
                _launch_list(capture).extend(_body(subgraph.graph))
            return result
        if not isinstance(node, ir.MultiOutput):
            graph = capture.current_graph()
            name = _extern_name(node)
            operands, called = _read_call(name, node)
            launch = Launch(graph.facts.name, name, extern=True, operands=operands)
            if called is not None:
                graph.called[name, operands] = called
            _launch_list(capture).append(launch)
        return original(self, scheduler_node)

    return codegen


def _subgraphs(node: Any) -> list[Any]:
    """Return the graphs that an IR node calls: an invoked region, both branches, a loop's two
    parts."""
    names = ("subgraph", "true_subgraph", "false_subgraph", "cond_subgraph", "body_subgraph")
    found = [getattr(node, name, None) for name in names]
    return [s for s in found if s is not None and hasattr(s, "graph")]


def _extern_name(node: Any) -> str:
    """Return ``aten.mm.default`` where the node knows its operator, else the name in the
    wrapper."""
    overload = getattr(node, "op_overload", None)
    if overload is not None:
        return str(_find_inner_operator(node) or overload)
    name = getattr(node, "python_kernel_name", None)
    return str(name) if name else type(node).__name__


def _launch_list(capture: Capture) -> list[Launch]:
    """Return the list that the next launch goes to: a subgraph keeps its own, which is put in
    wherever the subgraph is called."""
    from torch._inductor.virtualized import V

    return _body(V.graph) if is_subgraph(V.graph) else capture.graph_of(V.graph).launches


def _body(subgraph: Any) -> list[Launch]:
    body: list[Launch] | None = getattr(subgraph, "_perfcli_launches", None)
    if body is None:
        body = subgraph._perfcli_launches = []
    return body
