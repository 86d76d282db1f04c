"""Joins what a trace observed with the kernels that sources tell of, and makes a run of both."""

from __future__ import annotations

import re
from collections.abc import Sequence
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
    kernels = _make_kernels(observed.works, target)
    names = dict.fromkeys(work.graph for work in observed.works if work.graph)
    run = Run(
        id="",
        created="",
        scenario=SCENARIO,
        params={},
        mode="training" if any(n.startswith("backward") for n in names) else "forward",
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
        kernels=tuple(kernels),
        launches=tuple(_list_launches(observed)),
        graphs=tuple(_describe_graph(name) for name in names),
        externs=tuple(_count_externs(observed.works)),
        observed=observed,
    )
    return Bundle(run, {})


def _make_kernels(works: Sequence[ObservedWork], target: Target | None) -> list[KernelFacts]:
    return [_make_kernel(work, target) for work in works if work.generated]


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
    threads = 1
    for size in work.block:
        threads *= size
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


def _count_externs(works: Sequence[ObservedWork]) -> list[ExternCall]:
    sorts: dict[tuple[str, str], list[ObservedWork]] = {}
    for work in works:
        if not work.generated:
            sorts.setdefault((_name_operator(work), work.graph), []).append(work)
    return [
        ExternCall(
            op,
            graph,
            sum(work.launches for work in some),
            traced_seconds=sum(work.typical_seconds for work in some),
        )
        for (op, graph), some in sorts.items()
    ]


def _describe_graph(name: str) -> GraphFacts:
    word, _, number = name.partition(" ")
    return GraphFacts(name, "backward" if word == "backward" else "forward", int(number), 0)
