"""Hand-made comparisons with estimated times."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from handmade import candidate, digest, kernel, run

from perfcli.diff.compare import compare
from perfcli.model import (
    Comparison,
    EstimatedChange,
    GroupEstimate,
    KernelFacts,
    LaunchWork,
    Run,
    StepEstimate,
    TimeEstimate,
    TimeVerdict,
    Traffic,
    WarpWork,
)

MICRO = 1e-6


def step(*seconds: float | None, externs: int = 0) -> StepEstimate:
    kernels = tuple(
        None if each is None else TimeEstimate(each, each / 1.2, each * 1.2) for each in seconds
    )
    total = sum(each or 0.0 for each in seconds)
    return StepEstimate(total, total / 1.2, total * 1.2, kernels, (None,) * externs)


def runs() -> Comparison:
    """A kernel that changed, one that is new and spills, one that is the same."""
    base = [kernel("triton_red_fused_mul_4", "1"), kernel("triton_poi_fused_kept_1", "9")]
    head = [
        kernel("triton_red_fused_mul_add_4", "1", stack=64),
        kernel("triton_poi_fused_kept_1", "9"),
        kernel("triton_poi_fused_new_2", "12"),
    ]
    return compare(run(base, id="base", peak=10**8), run(head, id="head", peak=10**8))


def estimated(
    verdict: TimeVerdict,
    low: float,
    high: float,
    base: float = 40.0,
    head: float = 60.0,
    missing: tuple[str, ...] = (),
) -> Comparison:
    """The changed kernel takes ``base`` and ``head`` microseconds, the new one 10, the kept one
    50."""
    comparison = runs()
    places = {group.match.relation: n for n, group in enumerate(comparison.groups)}
    ours = step(base * MICRO, 50 * MICRO)
    theirs = step(head * MICRO, 50 * MICRO, 10 * MICRO)
    groups = [
        GroupEstimate(places["changed"], base * MICRO, head * MICRO),
        GroupEstimate(places["new"], 0.0, 10 * MICRO),
    ]
    groups.sort(key=lambda g: -abs(g.head - g.base))
    ratio = None if missing else theirs.seconds / ours.seconds
    edges = (None, None) if missing else (low, high)
    change = EstimatedChange(
        ours, theirs, verdict, ratio, edges[0], edges[1], tuple(groups), missing
    )
    return replace(comparison, estimate=change)


def work(blocks: int = 4096, sectors: float = 1024.0) -> LaunchWork:
    """Blocks of four warps that each load and store so many sectors of 32 bytes, whole lines."""
    lines = sectors / 4
    traffic = Traffic(
        requests=lines, lines=lines, load_sectors=sectors, new_sectors=sectors,
        store_requests=lines, store_sectors=sectors, warp_store_sectors=sectors,
        block_store_sectors=sectors, touched={"in_ptr0": sectors}, swept={"in_ptr0": 1.0},
    )  # fmt: skip
    warp = WarpWork({"fp32": 8 * lines, "lsu": 2 * lines}, 20 * lines, lines / 4, 0.0, 400, 8, 8)
    return LaunchWork((blocks, 1, 1), 4, traffic, warp, warp)


def weighed_kernel(name: str, *nodes: str, blocks: int = 4096, **more: Any) -> KernelFacts:
    """A kernel whose work was counted: it reads and writes 32 kB in each block."""
    moved = blocks * 1024 * 32
    config = candidate(
        blocks_per_sm=8, work=work(blocks), binary_hash=digest("binary " + more.get("text", name))
    )
    return kernel(
        name, *nodes, read=moved, written=moved, candidates=(config,), sizes={"x": blocks}, **more
    )


def weighed_run(*kernels: KernelFacts, **more: Any) -> Run:
    return run(kernels, weighed=True, **more)
