"""A run whose kernels are hand-written ones: what they compute is what another run's do. Pure."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from perfcli.blobs import blob_id, pack
from perfcli.facts.occupancy import bytes_swept, lower_bound_seconds
from perfcli.handwritten.compiling import launch_facts
from perfcli.model import (
    Buffer,
    Bundle,
    Candidate,
    GraphFacts,
    KernelFacts,
    KernelFamily,
    KernelKind,
    KernelLaunch,
    Launch,
    LaunchPlan,
    Problem,
    Run,
    ScenarioProblem,
    SourceFacts,
    Target,
    Variant,
)
from perfcli.model.kernel_work import DescribedLaunch, Operand


@dataclass(frozen=True, slots=True)
class CompiledProblem:
    """Holds one of the scenario's problems, planned, compiled and described, a launch each."""

    asked: ScenarioProblem
    family: KernelFamily
    plan: LaunchPlan
    compiled: tuple[Candidate, ...]
    described: tuple[DescribedLaunch, ...]

    @property
    def name(self) -> str:
        return f"{self.asked.family}/{self.plan.variant}"

    @property
    def why(self) -> str:
        return "; ".join(filter(None, (self.plan.why, self.plan.instead_of)))


def _make_run(base: Run, answers: Sequence[CompiledProblem]) -> Bundle:
    """Return the base's question answered by these kernels, without an id.

    They get the base's FX nodes, those of the whole graph: a family computes all of it. The work
    of their launches is not counted, so that nothing is estimated of them.
    """
    blobs: dict[str, str] = {}
    kernels: list[KernelFacts] = []
    for answer in answers:
        graph = _name_graph(base, answer.asked.backward)
        kernels += _list_kernels(base, answer, graph.name, blobs)
    used = {kernel.graph for kernel in kernels}
    run = replace(
        base,
        id="",
        created="",
        variant=Variant("kernel " + " + ".join(dict.fromkeys(a.name for a in answers))),
        kernels=tuple(kernels),
        launches=tuple(Launch(kernel.graph, kernel.name) for kernel in kernels),
        graphs=tuple(replace(g, peak_memory_bytes=None) for g in base.graphs if g.name in used),
        externs=(),
        graph_breaks={},
        break_places={},
        compile_seconds={},
        compile_work=None,
        recompilations=None,
        graph_obstacles=None,
        notes=tuple(_list_notes(answers)),
        settings={},
        counters={},
        fingerprint="",
        sources={},
        weighed=False,
        estimated_with="",
    )
    return Bundle(run, blobs)


def _name_graph(run: Run, backward: bool) -> GraphFacts:
    """Return the first graph of this direction; where there is none, one that nobody compiled."""
    for graph in run.graphs:
        if (graph.direction == "backward") == backward:
            return graph
    direction = "backward" if backward else "forward"
    return GraphFacts(f"{direction} 0", "backward" if backward else "forward", 0, 0)


def _list_notes(answers: Sequence[CompiledProblem]) -> Iterator[str]:
    for answer in answers:
        yield f"hand-written kernels, {answer.name}: {answer.why}"
        if answer.asked.left_out:
            yield f"not computed by the hand-written kernels: {answer.asked.left_out}"


def _list_kernels(
    base: Run, answer: CompiledProblem, graph: str, blobs: dict[str, str]
) -> Iterator[KernelFacts]:
    origins = tuple(
        dict.fromkeys(origin for k in base.kernels if k.graph == graph for origin in k.origins)
    )
    steps = zip(answer.plan.launches, answer.compiled, answer.described, strict=True)
    for launch, candidate, described in steps:
        text, facts = launch_facts(described.source, launch.function, launch.constants)
        blobs[blob_id(text)] = pack(text)
        buffers = tuple(_list_buffers(described.operands, facts, launch))
        hides_loads = described.is_gluon and _lacks_inputs(buffers, described.operands)
        if hides_loads:
            different = {operand.name: operand for operand in described.operands}
            buffers = tuple(map(_take_as_given, different.values()))
        kernel = _make_kernel(launch, text, facts, buffers, base.target)
        if hides_loads:
            moved = sum(buffer.bytes for buffer in buffers)
            kernel = replace(kernel, source_facts=None, bytes_swept=moved)
        yield replace(
            kernel,
            graph=graph,
            origins=origins,
            candidates=(candidate,),
            sizes=_read_sizes(answer.asked.problem, launch),
            notes=(f"hand-written, {answer.name}: {answer.why}",),
        )


def _make_kernel(
    launch: KernelLaunch,
    text: str,
    facts: SourceFacts,
    buffers: tuple[Buffer, ...],
    target: Target | None,
) -> KernelFacts:
    """Return what its text and its tensors say."""
    read = sum(buffer.bytes for buffer in buffers if buffer.is_read)
    written = sum(buffer.bytes for buffer in buffers if buffer.is_written)
    sizes = {buffer.argument: buffer.bytes for buffer in buffers}
    return KernelFacts(
        name=launch.function,
        kind=_choose_kind(facts),
        language="triton",
        graph="",
        launches=1,
        origins=(),
        source=blob_id(text),
        source_hash=hashlib.sha256(text.encode()).hexdigest(),
        source_facts=facts,
        bytes_read=read,
        bytes_written=written,
        bytes_swept=bytes_swept(read + written, sizes, facts),
        lower_bound_seconds=lower_bound_seconds(read + written, target) if target else None,
        buffers=buffers,
    )


def _choose_kind(facts: SourceFacts) -> KernelKind:
    """Return the kind that Inductor would give it."""
    if not facts.reductions:
        return "pointwise"
    return "reduction" if facts.loads_in_loops else "persistent-reduction"


def _read_sizes(problem: Problem, launch: KernelLaunch) -> dict[str, int]:
    """Return the iteration space: rows, or where several programs share one, their parts of
    rows."""
    parts = max(math.prod(launch.grid) // max(problem.rows, 1), 1)
    return {"x": problem.rows * parts, "r0_": -(-problem.columns // parts)}


def _list_buffers(
    operands: Sequence[Operand], facts: SourceFacts, launch: KernelLaunch
) -> Iterator[Buffer]:
    """Yield what the kernel does with each tensor that it does not leave alone, by its source."""
    read = {a.pointer for a in facts.accesses if a.kind in ("load", "atomic")}
    written = {a.pointer for a in facts.accesses if a.kind in ("store", "atomic")}
    for operand in operands:
        loads, stores = operand.argument in read, operand.argument in written
        if loads or stores:
            yield Buffer(
                argument=operand.argument,
                name=operand.name,
                role="inplace" if loads and stores else "input" if loads else "output",
                dtype=operand.dtype,
                shape=operand.shape,
                stride=operand.stride,
                bytes=operand.bytes if stores else _sum_bytes_read(operand, facts, launch),
                graph_input=operand.is_input,
            )


def _lacks_inputs(buffers: Sequence[Buffer], operands: Sequence[Operand]) -> bool:
    """Return whether inputs are not read as far as the text says: they are, by assembly."""
    found = {buffer.name for buffer in buffers}
    return any(operand.is_input and operand.name not in found for operand in operands)


def _take_as_given(operand: Operand) -> Buffer:
    """Return what a kernel does with a tensor if its text does not say. Those in Gluon keep what
    they have loaded, in registers or shared memory: they read all of their inputs once, and write
    all else."""
    return Buffer(
        argument=operand.argument,
        name=operand.name,
        role="input" if operand.is_input else "output",
        dtype=operand.dtype,
        shape=operand.shape,
        stride=operand.stride,
        bytes=operand.bytes,
        graph_input=operand.is_input,
    )


def _sum_bytes_read(operand: Operand, facts: SourceFacts, launch: KernelLaunch) -> int:
    """Return all of the tensor, unless its loads stand outside of loops and can't be that large:
    what is looked up. A tile is no larger than all the kernel's constants together."""
    loads = [a for a in facts.accesses if a.kind == "load" and a.pointer == operand.argument]
    if any(access.depth for access in loads):
        return operand.bytes
    sizes = [v for v in launch.constants.values() if type(v) is int and v > 0]
    programs, elements = math.prod(launch.grid), math.prod(operand.shape)
    most = programs * math.prod(sizes) * len(loads)
    return operand.bytes if most >= elements else operand.bytes * most // elements
