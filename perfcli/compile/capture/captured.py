"""Holds what is taken out of Inductor while it generates code: kernels, their launches, graphs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from perfcli.compile.capture import buffers, provenance, traffic
from perfcli.compile.capture.definition import Definition
from perfcli.compile.capture.eager_operators import EagerOperator
from perfcli.compile.capture.selections import Selecting
from perfcli.model import GraphFacts, GraphObstacle, Launch, OperatorCall, Origin, RecordedGraph

WITHOUT_CPP = (
    "the C++ around kernels is not generated: kernels and launches are those of the Python wrapper"
)


@dataclass(slots=True)
class CapturedKernel:
    name: str
    definition: Definition
    origins: tuple[Origin, ...] = ()
    uses: list[traffic.Use] = field(default_factory=list)

    @property
    def operands(self) -> buffers.Operands:
        """Return what its first use works on."""
        return self.uses[0].operands if self.uses else buffers.NOTHING

    def add_origins(self, nodes: Any) -> None:
        """Add the origins of a further use: identical sources share one kernel, whose origins are
        those of all its uses."""
        known = {o.node for o in self.origins}
        self.origins += tuple(o for o in provenance.origins(nodes) if o.node not in known)

    def add_user_use(self, use: traffic.Use) -> None:
        """Add one launch of a user's kernel. Where launches of the same text differ in their sizes,
        the whole numbers of none of them stand for all."""
        if self.operands == buffers.NOTHING:
            self.uses[:1] = [use]
            return
        first = self.uses[0]
        if first.operands.scalars != use.operands.scalars:
            self.uses[0] = replace(first, operands=replace(first.operands, scalars={}))
        self.uses.append(use)


@dataclass(slots=True)
class CapturedGraph:
    """Holds one graph while it is generated and called; ``calls`` counts the calls of one step."""

    facts: GraphFacts
    kernels: dict[str, CapturedKernel] = field(default_factory=dict)
    launches: list[Launch] = field(default_factory=list)
    calls: int = 0
    back: int | None = None
    """Of a collective in a stream of its own: how many calls, right before its own, it does not
    wait for. None: it waits for all."""
    number: int | None = None
    """Inductor's own number, which forward and backward graphs of one Dynamo graph share."""
    opaque: set[str] = field(default_factory=set)
    """Kernels of another kind (CUTLASS, CuTe …): counted as externs, by name."""
    workspaces: dict[str, int] = field(default_factory=dict)
    """By the name of a node of the schedule: the bytes that its kernel is given to work in."""
    choices: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Kernels that the generated code times on the device to launch the fastest of them."""
    called: dict[tuple[str, tuple[str, ...]], OperatorCall] = field(default_factory=dict)
    """What extern operators are called with, by their name and those of their operands."""
    dynamic: bool = False
    """Whether a size of its inputs is a symbol."""
    obstacles: tuple[GraphObstacle, ...] = ()
    """What keeps it from being recorded as a CUDA graph."""
    recorded: RecordedGraph | None = None
    """What recording it comes to, where that is asked for."""
    operations: dict[str, str] = field(default_factory=dict)
    """Operation of the schedule to the kernel that computes it."""
    refusals: dict[tuple[str, str], tuple[str, tuple[Any, ...]]] = field(default_factory=dict)
    """Two nodes of the schedule to why they were not fused (a format and what goes into it), in the
    order in which the scheduler said so."""
    text: str = ""
    """The generated module's, where it is not built."""
    module: Any = None
    """The generated module, where it is built and run: its kernels are among its globals."""


@dataclass(slots=True)
class Capture:
    """Holds what has been captured so far. ``on_kernel`` is told of each new kernel at once, so
    that its compilation can overlap with the rest of the code generation."""

    on_kernel: Callable[[CapturedKernel], None] = lambda _: None
    on_graph: Callable[[CapturedGraph], None] = lambda _: None
    """A function that is told of each new graph."""
    on_code: Callable[[], None] = lambda: None
    """A function that is told when all kernels of a graph are there."""
    graphs: list[CapturedGraph] = field(default_factory=list)
    call_order: list[CapturedGraph] = field(default_factory=list)
    branches: int = 0
    """Conditionals and loops whose course only the device knows."""
    scheduled: list[tuple[Any, Any]] = field(default_factory=list)
    """What the kernels being defined are made of: scheduler nodes, and the kernel object."""
    lowering: Any = None
    """The graph that Inductor worked on last."""
    static_inputs: frozenset[int] = frozenset()
    """The inputs of that graph that always have the same address, by their numbers."""
    selected: list[Selecting] = field(default_factory=list)
    """Lists of implementations of operators that Inductor chose from."""
    exported: list[Any] = field(default_factory=list)
    """What was compiled ahead of time, each to be called like the graph that it is."""
    without_cpp: bool = False
    """Whether C++ was asked for around the kernels, and left out."""
    selecting: Selecting | None = None
    """The latest of them, until it is known which node it became."""
    leaves_unfused: bool = False
    """Whether the scheduler settles on templates that nothing was fused into."""
    hears_scheduler: bool = False
    """Whether Inductor's scheduler says why it does not fuse kernels."""
    finds_obstacles: bool = True
    """Whether it is found out what keeps graphs from being recorded as CUDA graphs; False once
    torch could not be asked."""

    eager: list[EagerOperator] = field(default_factory=list)
    """What ran outside of graphs so far, where a mode counts it."""

    def latest(self) -> str:
        """Return the graph that Inductor worked on last: if it failed, it failed there."""
        return self.graph_of(self.lowering).facts.name if self.lowering else "the first graph"

    def graph_of(self, lowering: Any) -> CapturedGraph:
        """Return the record of a ``GraphLowering``, made on first sight."""
        # A branch of a conditional or an invoked region is written into its parent's wrapper.
        if is_subgraph(lowering):
            return self.graph_of(lowering.parent)
        # Kept on the lowering itself: an id can come back once its object is gone.
        found = getattr(lowering, "_perfcli_graph", None)
        if found is None:
            direction = _direction(lowering)
            index = sum(g.facts.direction == direction for g in self.graphs)
            name = f"{direction} {index}"
            nodes = len(lowering.graph.nodes)
            found = CapturedGraph(GraphFacts(name, direction, index, nodes))
            found.number = getattr(lowering, "graph_id", None)
            lowering._perfcli_graph = found
            self.graphs.append(found)
            self.on_graph(found)
        return found

    def notes(self) -> tuple[str, ...]:
        """Return one line for each choice that only the device can make."""
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
        around = (WITHOUT_CPP,) * self.without_cpp
        return (*around, *choices, *((branches,) if self.branches else ()))

    def list_obstacles(self) -> tuple[GraphObstacle, ...] | None:
        """Return what keeps the graphs from being recorded as CUDA graphs; None where that is not
        known."""
        if not self.finds_obstacles:
            return None
        return tuple(obstacle for graph in self.graphs for obstacle in graph.obstacles)

    def list_recorded(self) -> tuple[RecordedGraph, ...]:
        """Return what recording each graph comes to, where that was asked for."""
        return tuple(graph.recorded for graph in self.graphs if graph.recorded is not None)

    def current_graph(self) -> CapturedGraph:
        """Return the record of the graph that code is generated for."""
        from torch._inductor.virtualized import V

        return self.graph_of(V.graph)

    def keep_calls(self, order: list[CapturedGraph]) -> tuple[str, ...]:
        """Leave only these calls of graphs, and what they call; return what is to be said about the
        other graphs."""
        kept = {id(graph) for graph in order}
        others = [graph for graph in self.graphs if id(graph) not in kept]
        self.call_order[:] = order
        self.graphs[:] = [graph for graph in self.graphs if id(graph) in kept]
        for graph in self.graphs:
            graph.calls = sum(each is graph for each in order)
        if not others:
            return ()
        names = ", ".join(graph.facts.name for graph in others)
        kernels = sum(len(graph.kernels) for graph in others)
        left = f"{names} ({kernels} {'kernel' if kernels == 1 else 'kernels'})"
        return (f"compiled, but not called in the last step, and left out: {left}",)

    def launch_list(self) -> list[Launch]:
        """Return the launches of one step, in order: each graph's list as often as it was
        called."""
        launches: list[Launch] = []
        starts: list[int] = []
        for graph in self.call_order:
            starts.append(len(launches))
            if graph.back is None:
                launches += graph.launches
                continue
            after = starts[max(len(starts) - 1 - graph.back, 0)]
            launches += [replace(launch, after=after) for launch in graph.launches]
        return launches


def is_subgraph(lowering: Any) -> bool:
    """Return whether it is a ``SubgraphLowering``: only these have a parent."""
    return hasattr(lowering, "parent")


def _direction(lowering: Any) -> Literal["forward", "backward", "inference"]:
    if getattr(lowering, "is_backward", False):
        return "backward"
    return "inference" if lowering.is_inference else "forward"
