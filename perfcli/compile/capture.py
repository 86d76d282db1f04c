"""Takes every generated kernel, launch and extern call out of Inductor while it generates code.

The hooks stand at the points that all of Inductor's code generation passes (seen with torch 2.11
to 2.15): a kernel's definition in the wrapper, a kernel's call, an extern call, and the end of a
graph. Nothing is changed about what is generated.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from perfcli.compile import buffers, provenance, traffic
from perfcli.compile.definition import Definition, parse_definition
from perfcli.errors import CompileFailed
from perfcli.model import GraphFacts, Launch, Origin


@dataclass(slots=True)
class CapturedKernel:
    name: str
    definition: Definition
    origins: tuple[Origin, ...] = ()
    uses: list[traffic.Moved] = field(default_factory=list)
    """What each place that launches it moves: the same text can work on other buffers."""
    operands: buffers.Operands = buffers.NOTHING
    """Of its first use."""

    def add_origins(self, nodes: Any) -> None:
        """Identical sources share one kernel: its origins are those of all its uses."""
        known = {o.node for o in self.origins}
        self.origins += tuple(o for o in provenance.origins(nodes) if o.node not in known)


@dataclass(slots=True)
class CapturedGraph:
    """One graph while it is generated and called; ``calls`` counts the calls of one step."""

    facts: GraphFacts
    kernels: dict[str, CapturedKernel] = field(default_factory=dict)
    launches: list[Launch] = field(default_factory=list)
    calls: int = 0
    opaque: set[str] = field(default_factory=set)
    """Kernels of another kind (CUTLASS, CuTe …): counted as externs, by name."""
    choices: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Kernels that the generated code times on the device to launch the fastest of them."""


@dataclass(slots=True)
class Capture:
    """What was captured so far. ``on_kernel`` is told of each new kernel at once, so that its
    compilation can overlap with the rest of the code generation."""

    on_kernel: Callable[[CapturedKernel], None] = lambda _: None
    graphs: list[CapturedGraph] = field(default_factory=list)
    call_order: list[CapturedGraph] = field(default_factory=list)
    branches: int = 0
    """Conditionals and loops whose course only the device knows."""
    _scheduled: list[tuple[Any, Any]] = field(default_factory=list)
    _lowering: Any = None

    def latest(self) -> str:
        """The graph that Inductor worked on last: where a failure of it happened."""
        return self.graph_of(self._lowering).facts.name if self._lowering else "the first graph"

    def graph_of(self, lowering: Any) -> CapturedGraph:
        """The record of a ``GraphLowering``, made on first sight."""
        # A branch of a conditional or an invoked region is written into its parent's wrapper.
        if _is_subgraph(lowering):
            return self.graph_of(lowering.parent)
        # Kept on the lowering itself: an id can come back once its object is gone.
        found = getattr(lowering, "_perfcli_graph", None)
        if found is None:
            direction = _direction(lowering)
            index = sum(g.facts.direction == direction for g in self.graphs)
            name = f"{direction} {index}"
            nodes = len(lowering.graph.nodes)
            found = CapturedGraph(GraphFacts(name, direction, index, nodes))
            lowering._perfcli_graph = found
            self.graphs.append(found)
        return found

    def notes(self) -> tuple[str, ...]:
        """One line for each choice that only the device can make."""
        branches = (
            f"{self.branches} conditionals or loops are decided on the device: every branch is "
            "counted as run once"
        )
        choices = tuple(
            f"{graph.facts.name} chooses among {', '.join(names)} on the device: "
            f"counted as {names[0]}"
            for graph in self.graphs
            for names in graph.choices.values()
        )
        return (*choices, branches) if self.branches else choices

    def launch_list(self) -> list[Launch]:
        """The launches of one step, in order: each graph's list as often as it was called."""
        return [launch for graph in self.call_order for launch in graph.launches]


def _is_subgraph(lowering: Any) -> bool:
    """Whether it is a ``SubgraphLowering``: only these have a parent."""
    return hasattr(lowering, "parent")


def _direction(lowering: Any) -> Literal["forward", "backward", "inference"]:
    if getattr(lowering, "is_backward", False):
        return "backward"
    return "inference" if lowering.is_inference else "forward"


@contextmanager
def capturing(
    capture: Capture, finish: Callable[[Any, CapturedGraph], Any] | None
) -> Iterator[None]:
    """Hooks Inductor while the block runs.

    ``finish(lowering, graph)`` stands in for building the generated module and returns what has
    its ``call``; None leaves the real module to be built and run (on a real device).
    """
    from torch._inductor.codegen import cpp, multi_kernel, triton, wrapper
    from torch._inductor.graph import GraphLowering
    from torch._inductor.scheduler import Scheduler

    hooks: list[tuple[Any, str, Any]] = [
        (wrapper.PythonWrapperCodegen, "define_kernel", _hook_definition),
        (wrapper.PythonWrapperCodegen, "generate_kernel_call", _hook_call),
        (multi_kernel.MultiKernelState, "define_kernel", _hook_choice),
        (triton.TritonScheduling, "define_kernel", _hook_scheduled),
        (cpp.CppScheduling, "define_kernel", _hook_scheduled),
        (Scheduler, "codegen_extern_call", _hook_extern),
        (Scheduler, "codegen", _hook_schedule),
        (GraphLowering, "run", _hook_lowering),
        (GraphLowering, "_compile_to_module", functools.partial(_hook_module, finish=finish)),
    ]
    saved = []
    for owner, name, make in hooks:
        if name not in vars(owner):
            raise CompileFailed(
                f"this torch's {owner.__name__} has no {name}, which perfcli reads kernels from "
                "(tested: torch 2.11 to 2.15)"
            )
        original = vars(owner)[name]
        saved.append((owner, name, original))
        setattr(owner, name, make(capture, original))
    try:
        yield
    finally:
        for owner, name, original in saved:
            setattr(owner, name, original)


def _current_graph(capture: Capture) -> CapturedGraph:
    from torch._inductor.virtualized import V

    return capture.graph_of(V.graph)


def _launches(capture: Capture) -> list[Launch]:
    """Where the next launch goes: a subgraph keeps its own, to be put in wherever it is called."""
    from torch._inductor.virtualized import V

    return _body(V.graph) if _is_subgraph(V.graph) else capture.graph_of(V.graph).launches


def _body(subgraph: Any) -> list[Launch]:
    body: list[Launch] | None = getattr(subgraph, "_perfcli_launches", None)
    if body is None:
        body = subgraph._perfcli_launches = []
    return body


def _hook_scheduled(capture: Capture, original: Any) -> Any:
    """Around a backend's ``define_kernel(src, scheduled nodes, kernel)``: the only place where
    the scheduler's nodes, the kernel object and the final name are at hand together."""

    @functools.wraps(original)
    def define(self: Any, src_code: str, nodes: Any, kernel: Any = None, *rest: Any) -> Any:
        kernels = _current_graph(capture).kernels
        before = len(kernels)
        # The C++ backend keeps the arguments of its kernels in a group.
        group = getattr(self, "kernel_group", None)
        capture._scheduled.append((nodes, kernel or getattr(group, "args", None)))
        try:
            name = original(self, src_code, nodes, kernel, *rest)
        finally:
            capture._scheduled.pop()
        if name in kernels and len(kernels) == before:  # the same text again, other buffers
            kernels[name].add_origins(nodes)
            kernels[name].uses.append(traffic.bytes_moved(kernel))
        return name

    return define


def _hook_definition(capture: Capture, original: Any) -> Any:
    """``PythonWrapperCodegen.define_kernel``: the kernel's final name and text."""

    @functools.wraps(original)
    def define(self: Any, kernel_name: str, kernel_body: str, *rest: Any, **options: Any) -> Any:
        definition = parse_definition(kernel_body, options.get("cpp_definition"))
        graph = _current_graph(capture)
        if definition is None:
            graph.opaque.add(kernel_name)
        elif kernel_name not in graph.kernels:
            nodes, kernel = capture._scheduled[-1] if capture._scheduled else (None, None)
            record = CapturedKernel(kernel_name, definition, uses=[traffic.UNKNOWN])
            if kernel is not None:
                record.uses = [traffic.bytes_moved(kernel)]
                record.operands = buffers.operands(kernel)
            if nodes is not None:
                record.origins = provenance.origins(nodes)
            graph.kernels[kernel_name] = record
            capture.on_kernel(record)
        return original(self, kernel_name, kernel_body, *rest, **options)

    return define


def _hook_call(capture: Capture, original: Any) -> Any:
    @functools.wraps(original)
    def call(self: Any, kernel_name: str, *rest: Any, **options: Any) -> Any:
        graph = _current_graph(capture)
        name, *_ = graph.choices.get(kernel_name, (kernel_name,))
        if name in graph.kernels or name in graph.opaque:
            extern = name not in graph.kernels
            _launches(capture).append(Launch(graph.facts.name, name, extern))
        return original(self, kernel_name, *rest, **options)

    return call


def _hook_choice(capture: Capture, original: Any) -> Any:
    @functools.wraps(original)
    def define(self: Any, kernels: Any, *rest: Any, **options: Any) -> Any:
        name = original(self, kernels, *rest, **options)
        _current_graph(capture).choices[name] = tuple(k.kernel_name for k in kernels)
        return name

    return define


def _hook_extern(capture: Capture, original: Any) -> Any:
    @functools.wraps(original)
    def codegen(self: Any, scheduler_node: Any) -> Any:
        from torch._inductor import ir

        node = scheduler_node.node
        if isinstance(node, ir.UserDefinedTritonKernel):
            graph = _current_graph(capture)
            launches = _launches(capture)
            before = len(launches)
            result = original(self, scheduler_node)
            for launch in launches[before:]:
                written = graph.kernels[launch.name]
                written.add_origins(node)
                if written.operands == buffers.NOTHING:
                    written.operands = buffers.user_operands(node)
            return result
        subgraphs = _subgraphs(node)
        if subgraphs:
            capture.branches += not isinstance(node, ir.InvokeSubgraph)
            result = original(self, scheduler_node)
            for subgraph in subgraphs:
                _launches(capture).extend(_body(subgraph.graph))
            return result
        if not isinstance(node, ir.MultiOutput):
            graph = _current_graph(capture)
            name = extern_name(node)
            _launches(capture).append(Launch(graph.facts.name, name, extern=True))
        return original(self, scheduler_node)

    return codegen


def _subgraphs(node: Any) -> list[Any]:
    """The graphs that an IR node calls: an invoked region, both branches, a loop's two parts."""
    names = ("subgraph", "true_subgraph", "false_subgraph", "cond_subgraph", "body_subgraph")
    found = [getattr(node, name, None) for name in names]
    return [s for s in found if s is not None and hasattr(s, "graph")]


def extern_name(node: Any) -> str:
    """``aten.mm.default`` where the node knows its operator, else the name in the wrapper."""
    overload = getattr(node, "op_overload", None)
    if overload is not None:
        return str(overload)
    name = getattr(node, "python_kernel_name", None)
    return str(name) if name else type(node).__name__


def _hook_schedule(capture: Capture, original: Any) -> Any:
    """``Scheduler.codegen``: the schedule is final, and then which buffers live inside of kernels:
    its peak memory can be estimated."""

    @functools.wraps(original)
    def codegen(self: Any) -> Any:
        from torch._inductor.virtualized import V

        generated = original(self)
        # A subgraph's own peak is none of its parent's.
        peak = None if _is_subgraph(V.graph) else traffic.peak_memory(self)
        if peak is not None:
            graph = _current_graph(capture)
            graph.facts = replace(graph.facts, peak_memory_bytes=peak)
        return generated

    return codegen


def _hook_lowering(capture: Capture, original: Any) -> Any:
    @functools.wraps(original)
    def run(self: Any, *args: Any) -> Any:
        if not _is_subgraph(self):
            capture._lowering = self
        return original(self, *args)

    return run


def _hook_module(
    capture: Capture, original: Any, finish: Callable[[Any, CapturedGraph], Any] | None
) -> Any:
    @functools.wraps(original)
    def compile_to_module(self: Any) -> Any:
        if finish is None:
            module = original(self)
            graph = capture.graph_of(self)
            return _counted(module, capture, graph)
        if self.cpp_wrapper and "cuda" in self.device_types:
            raise CompileFailed(
                "the option cpp_wrapper runs kernels on the device while it generates code, and "
                "there is none: compare without it"
            )
        self.codegen()
        return finish(self, capture.graph_of(self))

    return compile_to_module


def _counted(module: Any, capture: Capture, graph: CapturedGraph) -> Any:
    """The real module, its ``call`` also counting."""
    call = module.call

    @functools.wraps(call)
    def counted(args: Any) -> Any:
        graph.calls += 1
        capture.call_order.append(graph)
        return call(args)

    module.call = counted
    return module
