"""Joins what a trace observed with the kernels that sources tell of, and makes a run of both."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from perfcli import __version__
from perfcli.facts.occupancy import occupancy
from perfcli.model import (
    Bundle,
    Candidate,
    Environment,
    ExternCall,
    GraphFacts,
    KernelFacts,
    KernelKind,
    Launch,
    Observed,
    ObservedWork,
    Run,
    Target,
    Variant,
)

SCENARIO = "imported"

_KIND = re.compile(r"triton_([a-z]+)_")
_KINDS: dict[str, KernelKind] = {
    "poi": "pointwise",
    "red": "reduction",
    "per": "persistent-reduction",
    "tem": "template",
    "for": "combo",
}
"""What Inductor calls its kernels (``torch/_inductor/codegen/triton.py``)."""


def make_run(observed: Observed, target: Target | None, name: str) -> Bundle:
    """Return a run of what a trace alone tells. ``name`` says where it is from."""
    graphs = _list_graphs(observed)
    run = Run(
        id="",
        created="",
        scenario=SCENARIO,
        params={},
        mode="training" if any(g.direction == "backward" for g in graphs) else "forward",
        dynamic=False,
        device="cuda",
        target=target,
        variant=Variant(name),
        environment=Environment(
            torch="unknown",
            triton=None,
            python="",
            ptxas=None,
            platform="",
            perfcli=__version__,
            gpu=observed.device or None,
            driver=observed.facts.get("driver"),
        ),
        kernels=tuple(_make_kernel(work, target) for work in observed.works if work.generated),
        launches=tuple(_list_launches(observed)),
        graphs=graphs,
        externs=tuple(_count_externs(observed.works)),
        observed=observed,
    )
    return Bundle(run, {})


def join_sources(sources: Bundle, observed: Observed, name: str) -> Bundle:
    """Return the run of sources with what a trace observed of it: of their kernels those that the
    trace launched, each with the configuration that ran, and those whose source is not there."""
    run = sources.run
    pairs = _pair(observed.works, run.kernels)
    graphs = _name_graphs(observed.works, pairs, run.kernels)
    works = tuple(
        replace(work, graph=run.kernels[pairs[place]].graph)
        if place in pairs
        else replace(work, graph=graphs.get(work.graph, work.graph))
        for place, work in enumerate(observed.works)
    )
    observed = replace(observed, works=works)
    kernels = [
        _join_kernel(run.kernels[pairs[place]], work)
        if place in pairs
        else _make_kernel(work, run.target)
        for place, work in enumerate(works)
        if work.generated
    ]
    mine = [work for work in works if work.generated]
    order = {kernel.name: place for place, kernel in enumerate(run.kernels)}
    kernels.sort(key=lambda kernel: order.get(kernel.name, len(order)))
    joined = replace(
        run,
        variant=Variant(name),
        environment=replace(run.environment, gpu=observed.device or run.environment.gpu),
        kernels=tuple(kernels),
        launches=tuple(_list_launches(observed)) if len(pairs) < len(mine) else run.launches,
        externs=tuple(_join_externs(run.externs, works)),
        notes=(*run.notes, *_describe_join(pairs, mine, run.kernels)),
        observed=observed,
    )
    return Bundle(joined, sources.blobs)


# --- kernels whose sources are known --------------------------------------------------------------


def _pair(works: Sequence[ObservedWork], kernels: Sequence[KernelFacts]) -> dict[int, int]:
    """Return for works of generated kernels the kernel that each is, as indices: by name and
    direction, and in order where several have that name."""
    waiting: dict[tuple[str, str], list[int]] = {}
    for number, kernel in reversed(list(enumerate(kernels))):
        waiting.setdefault((kernel.name, _direction(kernel.graph)), []).append(number)
    pairs: dict[int, int] = {}
    for strict in (True, False):
        for place, work in enumerate(works):
            if not work.generated or place in pairs:
                continue
            keys = [k for k in waiting if k[0] == work.name and waiting[k]]
            if strict:
                keys = [k for k in keys if k[1] == _direction(work.graph)]
            if keys:
                pairs[place] = waiting[keys[0]].pop()
    return pairs


def _direction(graph: str) -> str:
    """Return ``backward`` of ``backward 0``; a graph for inference runs forward."""
    word = graph.partition(" ")[0]
    return "forward" if word == "inference" else word


def _name_graphs(
    works: Sequence[ObservedWork], pairs: Mapping[int, int], kernels: Sequence[KernelFacts]
) -> dict[str, str]:
    """Return what the trace's graphs are called in the sources: as most of their kernels are."""
    votes: dict[str, Counter[str]] = {}
    for place, number in pairs.items():
        votes.setdefault(works[place].graph, Counter())[kernels[number].graph] += 1
    return {graph: counts.most_common(1)[0][0] for graph, counts in votes.items() if graph}


_LEAST_REGISTERS = 16
"""What the driver reports for a kernel that needs fewer (H200, CUDA 13.0)."""


def _join_kernel(kernel: KernelFacts, work: ObservedWork) -> KernelFacts:
    """Return a kernel with what was observed of it. Of its configurations only the one that ran is
    kept, where it can be told."""
    shaped = [c for c in kernel.candidates if _has_shape(c, work)]
    ran = [c for c in shaped if _count_registers(c) == work.registers]
    # Another compiler gives it other registers: the only one of its shape is still the one.
    found = ran[:1] or (shaped if len(shaped) == 1 else [])
    return replace(
        kernel,
        launches=work.launches,
        candidates=tuple(found) or kernel.candidates,
        alternatives=() if found else kernel.alternatives,
        grid=work.grid,
        traced_seconds=work.typical_seconds,
        notes=(*kernel.notes, *_describe_registers(kernel, found, work)),
    )


def _has_shape(candidate: Candidate, work: ObservedWork) -> bool:
    """Return whether a configuration has as many threads and as much shared memory as what ran."""
    threads = candidate.num_warps * 32 == math.prod(work.block)
    return threads and work.shared_bytes in (None, candidate.shared_bytes)


def _count_registers(candidate: Candidate) -> int | None:
    registers = candidate.registers
    return None if registers is None else max(registers, _LEAST_REGISTERS)


def _describe_registers(
    kernel: KernelFacts, found: Sequence[Candidate], work: ObservedWork
) -> Iterator[str]:
    """Yield what ran that was not compiled here."""
    if not kernel.candidates or work.registers is None:
        return
    if not found:
        yield f"which configuration ran can't be told: it had {work.registers} registers"
    elif _count_registers(found[0]) != work.registers:
        yield (f"it ran with {work.registers} registers; compiled here it has {found[0].registers}")


def _describe_join(
    pairs: Mapping[int, int], works: Sequence[ObservedWork], kernels: Sequence[KernelFacts]
) -> Iterator[str]:
    """Yield what the trace and the sources do not have in common."""
    if len(pairs) < len(works):
        missing = len(works) - len(pairs)
        yield f"generated kernels of the trace without a source here: {missing} of {len(works)}"
    if len(pairs) < len(kernels):
        idle = len(kernels) - len(pairs)
        yield f"kernels of the sources that the trace does not launch: {idle} of {len(kernels)}"


# --- kernels that only a trace tells of -----------------------------------------------------------


def _make_kernel(work: ObservedWork, target: Target | None) -> KernelFacts:
    """Return a kernel of which nothing is known but what the trace says."""
    kind = _KIND.match(work.name)
    return KernelFacts(
        name=work.name,
        kind=_KINDS.get(kind[1], "other") if kind else "user",
        language="triton",
        graph=work.graph,
        launches=work.launches,
        origins=(),
        source="",
        source_hash="",
        source_facts=None,
        candidates=tuple(_make_candidates(work, target)),
        grid=work.grid,
        traced_seconds=work.typical_seconds,
        notes=("imported from a trace: its source is not known",),
    )


def _make_candidates(work: ObservedWork, target: Target | None) -> list[Candidate]:
    """Return the launch configuration that ran, as far as the trace knows it."""
    threads = math.prod(work.block)
    if work.registers is None or not work.block or not threads:
        return []
    warps = -(-threads // (target.warp_size if target else 32))
    ran = Candidate({}, warps, 0, registers=work.registers, shared_bytes=work.shared_bytes)
    if target is None or work.shared_bytes is None:
        return [ran]
    known = occupancy(target, work.registers, work.shared_bytes, warps)
    return [
        replace(
            ran,
            blocks_per_sm=known.blocks_per_sm,
            occupancy=known.fraction,
            occupancy_limit=known.limit,
        )
    ]


def _list_launches(observed: Observed) -> list[Launch]:
    """Return the launches of one step, in order."""
    ordered = (observed.works[number] for number in observed.order)
    return [
        Launch(
            work.graph, work.name if work.generated else _name_operator(work), not work.generated
        )
        for work in ordered
    ]


def _name_operator(work: ObservedWork) -> str:
    """Return ``aten.mm`` of ``aten::mm``; the kernel's label where no operator is known."""
    return work.operator.replace("::", ".") if work.operator else work.label


def _join_externs(externs: Sequence[ExternCall], works: Sequence[ObservedWork]) -> list[ExternCall]:
    """Return the library operators that sources name, with their times, and those that only the
    trace has."""
    found = {(extern.op, _direction(extern.graph)): extern for extern in _count_externs(works)}
    joined = []
    for extern in externs:
        op = _plain_operator(extern.op)
        seen = found.pop((op, _direction(extern.graph)), None) or found.pop((op, ""), None)
        joined.append(replace(extern, traced_seconds=seen.traced_seconds) if seen else extern)
    return [*joined, *found.values()]


def _plain_operator(op: str) -> str:
    """Return ``aten.mm`` of ``extern_kernels.mm`` and of ``torch.ops.aten.mm.default``."""
    parts = op.removeprefix("torch.ops.").replace("::", ".").split(".")
    return ".".join(["aten" if parts[0] == "extern_kernels" else parts[0], *parts[1:2]])


def _count_externs(works: Sequence[ObservedWork]) -> list[ExternCall]:
    sorts: dict[tuple[str, str], list[ObservedWork]] = {}
    for work in works:
        if not work.generated:
            sorts.setdefault((_name_operator(work), work.graph), []).append(work)
    return [
        ExternCall(
            op, graph, _count_calls(some), traced_seconds=sum(work.typical_seconds for work in some)
        )
        for (op, graph), some in sorts.items()
    ]


def _count_calls(works: Sequence[ObservedWork]) -> int:
    """Return how often a step calls the operator that launched these; where no operator is known,
    how often it launches them."""
    if any(work.calls is None for work in works):
        return sum(work.launches for work in works)
    return max(round(sum(work.calls or 0.0 for work in works)), 1)


def _list_graphs(observed: Observed) -> tuple[GraphFacts, ...]:
    names = dict.fromkeys(work.graph for work in observed.works if work.graph)
    return tuple(
        GraphFacts(name, "backward" if _direction(name) == "backward" else "forward", number, 0)
        for number, name in enumerate(names)
    )
