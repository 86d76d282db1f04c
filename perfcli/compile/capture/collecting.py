"""Turns captured kernels, and what the pool made of them, into their facts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from perfcli import units
from perfcli.blobs import blob_id, pack
from perfcli.compile.capture import traffic
from perfcli.compile.capture.buffers import correct_roles
from perfcli.compile.capture.captured import Capture, CapturedGraph, CapturedKernel
from perfcli.compile.capture.fusion_refusals import tell_refusals
from perfcli.errors import CompileFailed
from perfcli.facts.occupancy import bytes_swept, lower_bound_seconds
from perfcli.facts.source.operations import count_operations
from perfcli.model import TOO_SLOW, KernelFacts, Target

Report = Callable[[str, int, "int | None"], None]
"""A function that is told of progress: phase, done, total."""

STOPPED = "ptxas was stopped at"
"""How the note of a kernel begins that the assembler took too long for."""


def collect(
    capture: Capture, pool: Any, target: Target | None, report: Report
) -> tuple[tuple[KernelFacts, ...], dict[str, str]]:
    """Return the facts of every kernel that was captured, in the order of the graphs, and the
    packed texts that they name. Waits for the pool. Raises CompileFailed where Triton refuses a
    kernel."""
    kernels: list[KernelFacts] = []
    blobs: dict[str, str] = {}
    total = sum(len(g.kernels) for g in capture.graphs)
    for graph in capture.graphs:
        refusals = tell_refusals(graph)
        for kernel in graph.kernels.values():
            result = pool.result(kernel.definition)
            _raise_uncompiled(kernel, graph, result, target)
            blobs.update(result.compiled.blobs)
            source = kernel.definition.source
            blobs[blob_id(source)] = pack(source)
            facts = _facts(kernel, graph, result, target)
            if capture.hears_scheduler:
                facts = replace(facts, refused=refusals.get(kernel.name, {}))
            kernels.append(facts)
            report("kernels", len(kernels), total)
    return tuple(kernels), blobs


def _raise_uncompiled(
    kernel: CapturedKernel, graph: CapturedGraph, result: Any, target: Target | None
) -> None:
    """Raise CompileFailed for a kernel that Triton refuses: it would be refused on the device as
    well."""
    error = result.compiled.error
    if error:
        lines = [line for line in error.splitlines() if line.strip()]
        where = f" for {target.name}" if target else ""
        what = f"{kernel.name} of {graph.facts.name}{where}"
        raise CompileFailed(f"Triton could not compile {what}: {lines[0][:200]}", detail=error)


def _facts(
    kernel: CapturedKernel, graph: CapturedGraph, result: Any, target: Target | None
) -> KernelFacts:
    definition = kernel.definition
    use = traffic.mean(kernel.uses, result.source_facts)
    moved = None if use.read is None or use.written is None else use.read + use.written
    launches = sum(launch.name == kernel.name for launch in graph.launches)
    return KernelFacts(
        name=kernel.name,
        kind=definition.kind,
        language=definition.language,
        graph=graph.facts.name,
        launches=launches * graph.calls,
        origins=kernel.origins,
        source=blob_id(definition.source),
        source_hash=definition.source_hash,
        source_facts=result.source_facts,
        bytes_read=use.read,
        bytes_written=use.written,
        bytes_swept=bytes_swept(moved, use.arguments, result.source_facts),
        lower_bound_seconds=lower_bound_seconds(moved, target) if target else None,
        finishing_bytes=use.finishing,
        operations=count_operations(definition.source, kernel.operands.sizes),
        candidates=result.compiled.candidates,
        alternatives=result.compiled.alternatives,
        buffers=correct_roles(kernel.operands.buffers, result.source_facts),
        sizes=kernel.operands.sizes,
        dynamic_sizes=kernel.operands.dynamic_sizes,
        scalars=kernel.operands.scalars,
        unknown_sizes=kernel.operands.unknown_sizes,
        notes=tuple(
            filter(
                None,
                (
                    result.note,
                    _say_given_up(result.compiled),
                    _say_finishing(kernel, use.finishing),
                ),
            )
        ),
    )


def _say_given_up(compiled: Any) -> str:
    given_up = sum(each.error.startswith(TOO_SLOW) for each in compiled.candidates)
    if not given_up:
        return ""
    total = units.plural(len(compiled.candidates), "launch configuration")
    return (
        f"{STOPPED} {given_up} of {total} after {compiled.given_up_after:g} s: their registers and "
        "spills are not known"
    )


def _say_finishing(kernel: CapturedKernel, moved: int) -> str:
    operators = Counter(kernel.uses[0].finishing.operators)
    if not operators:
        return ""
    calls = ", ".join(f"{n} × {op}" for op, n in operators.items())
    return (
        f"each launch is followed by {calls}, which finish its results and move "
        f"{units.size(moved)}: counted in the step's bytes, not in this kernel's"
    )
