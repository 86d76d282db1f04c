"""Plans the gradients of norms: in one pass by persistent programs, or in two launches. Pure."""

from __future__ import annotations

from perfcli.model import KernelLaunch, LaunchPlan, Problem, Target

from .._elements import matrix_bytes, next_power_of_2, vector
from . import cuts, ring_plan
from .blocks import (
    Blocks,
    _round_up,
    has_mean,
    has_residual,
    names,
    overlapping,
    step,
    words_apart,
)
from .cuts import LINE, estimate_seconds, groups, peels, persistent, say_reached

SPLIT_ONCE, SPLIT_SHARE, SPLIT_MEAN = 5.5e-6, 0.19, 0.3
"""Seconds that two launches take however few rows there are, the share of the bandwidth at which
they move rows, and what a mean adds to that time: of 59 problems of 0.3 to 30 MB, two thirds within
15 percent, and all within 31 (H200, triton 3.6, 2026-11-29)."""
SUM_ELEMENTS = 8192
"""Partial sums that a block of the last kernel loads at a time."""
SUM_BLOCKS = 4
"""The blocks for each multiprocessor that this kernel has at least."""
WAYS = {
    "fused": (cuts.candidates, cuts.estimate_efficiency),
    "ring": (ring_plan.candidates, ring_plan.estimate_efficiency),
    "cluster": (ring_plan.clusters, ring_plan.estimate_efficiency),
}
"""Of each variant in one pass: every way to cut rows that fits, and which share of the bandwidth
such a way reaches."""


def backward(problem: Problem, target: Target, variant: str | None) -> LaunchPlan | None:
    """Return the launches of the best way, or of ``variant``; None where it cuts no such rows."""
    best = _best(problem, target, variant)
    if best is not None:
        blocks, reached = best
        seconds = _seconds(problem, target, best)
        enough = problem.rows >= target.sm_count
        if variant is not None or enough or seconds <= _split_seconds(problem, target):
            return fused(problem, target, blocks, say_reached(blocks, reached))
    if variant not in (None, "split"):
        return None
    why = "asked for" if variant else "few rows: sums of rows, then columns from the L2 cache"
    return split(problem, target, why)


def _best(problem: Problem, target: Target, variant: str | None) -> tuple[Blocks, float] | None:
    """Return the fastest blocks in one pass, or those of ``variant``, and about which share of the
    bandwidth they reach; None where none fit."""
    asked = [variant] if variant else ["fused", "ring"]
    if variant is None and ring_plan.clusters_pay(problem):
        asked.append("cluster")
    found = [
        (blocks, estimate(problem, target, blocks))
        for candidates, estimate in (WAYS[name] for name in asked if name in WAYS)
        for blocks in candidates(problem, target)
    ]
    return min(found, key=lambda each: _seconds(problem, target, each), default=None)


def _seconds(problem: Problem, target: Target, found: tuple[Blocks, float]) -> float:
    """Return about how long it takes; what rings and clusters reach is estimated with their
    launches."""
    blocks, reached = found
    return estimate_seconds(problem, target, reached, 2 if blocks.variant == "fused" else 0)


def _split_seconds(problem: Problem, target: Target) -> float:
    """Return about how long two launches take, of which the second reads x and dy again; from
    memory if L2 has no room for them."""
    seconds = estimate_seconds(problem, target, SPLIT_SHARE) * (1 + SPLIT_MEAN * has_mean(problem))
    again = 2 * matrix_bytes(problem)
    if again > target.l2_bytes / 2:
        seconds += again / target.bandwidth / SPLIT_SHARE
    return SPLIT_ONCE + seconds


def fused(problem: Problem, target: Target, blocks: Blocks, why: str) -> LaunchPlan:
    """Plan persistent programs, which take whole rows, share them in a ring, or are clusters, and
    then the sum of what each has added up."""
    mean = has_mean(problem)
    given = {
        "x": True, "dy": True, "dsum": has_residual(problem), "weight": True, "mean": mean,
        "rstd": mean, "dx": True, "partial": True,
    }  # fmt: skip
    shared = blocks.variant in ("ring", "cluster")
    if shared:
        count = ring_plan.partial_sums(problem, blocks)
        apart, head = ring_plan.pitch(problem, blocks), ring_plan.HEAD
        shifted = peels(problem, blocks)
        steps = ring_plan.launches(problem, target, blocks, "gradient_ring", *names(given))
    else:
        count = groups(problem, target, blocks)
        apart, head, shifted = problem.columns, 0, False
        steps = [persistent(problem, target, blocks, {**given, "rows": True, "eps": True})]
    workspace = 4 * (1 + mean) * count * apart
    workspace += 8 * problem.rows * words_apart(blocks.parts) if blocks.variant == "ring" else 0
    made = overlapping([*steps, _sum(problem, target, count, apart, head, shifted)])
    portable = split(problem, target, "without Gluon") if shared else None
    return LaunchPlan(blocks.variant, made, why, workspace, portable=portable)


def _sum(
    problem: Problem, target: Target, count: int, apart: int, head: int = 0, shifted: bool = False
) -> KernelLaunch:
    """Add partial sums, which are ``apart`` floats apart, each behind ``head`` floats; if
    ``shifted``, the first of these says how far behind them its columns begin. Blocks are as wide
    as they can be without being too few, so that each thread has many loads under way where there
    are few partial sums."""
    mean = has_mean(problem)
    fewest = SUM_BLOCKS * target.sm_count
    block = min(
        32 if problem.columns > 32 * target.sm_count else 16, next_power_of_2(problem.columns)
    )
    while (
        2 * block * next_power_of_2(count) <= SUM_ELEMENTS
        and problem.columns * (1 + mean) >= 2 * block * fewest
    ):
        block *= 2
    rows = min(SUM_ELEMENTS // block, next_power_of_2(count))
    return step(
        problem, target, Blocks("", 256), "sum_partials",
        (-(-problem.columns // block), 1 + mean, 1),
        *names({"partial": True, "dw": True, "db": mean, "count": True}),
        COLUMNS=problem.columns, PITCH=apart, HEAD=head, SHIFTED=shifted, BLOCK=block, ROWS=rows,
        MEAN=mean, OVERLAP=target.overlaps_launches,
    )  # fmt: skip


def _splits(problem: Problem, target: Target) -> tuple[Blocks, int]:
    """Return the blocks of the kernel that computes columns, and into how many parts it splits the
    rows: about two blocks for each multiprocessor, in whole lines of memory."""
    wide = vector(problem)
    rows = min(32, next_power_of_2(problem.rows))
    tile = 4 * wide
    while tile < 32 * wide and -(-problem.columns // (2 * tile)) >= 8 * target.sm_count:
        tile *= 2
    across = -(-problem.columns // tile)
    tall = -(-problem.rows // rows)
    splits = max(1, min(tall // 4, -(-2 * target.sm_count // across)))
    threads = max(32, min(256, rows * tile // wide))
    return Blocks("split", threads, rows, tile, stages=2 if tall > 2 * splits else 1), splits


def split(problem: Problem, target: Target, why: str) -> LaunchPlan:
    """Plan the sums of rows, then columns, which are read again, from the L2 cache where the
    problem is small."""
    mean, residual = has_mean(problem), has_residual(problem)
    wanted = -(-2 * target.sm_count // problem.rows)
    parts = max(1, min(wanted, -(-problem.columns // 512), 64))
    chunk = _round_up(-(-problem.columns // parts), LINE)
    parts = -(-problem.columns // chunk)
    threads = min(256, max(32, next_power_of_2(chunk) // vector(problem)))
    sums = Blocks("split", threads, tile=min(threads * vector(problem), next_power_of_2(chunk)))
    first = step(
        problem, target, sums, "gradient_sums", (problem.rows * parts, 1, 1),
        *names({
            "x": True, "dy": True, "weight": True, "mean": mean, "rstd": mean, "words": True,
            "rows": True,
        }),
        COLUMNS=problem.columns, STRIDE=problem.stride, CHUNK=chunk, PARTS=parts, TILE=sums.tile,
        MEAN=mean, OVERLAP=target.overlaps_launches,
    )  # fmt: skip
    blocks, splits = _splits(problem, target)
    final = splits == 1
    given = {
        "x": True, "dy": True, "dsum": residual, "weight": True, "mean": mean, "rstd": mean,
        "dx": True, "dw": final, "db": final and mean, "partial": not final, "words": True,
        "rows": True, "eps": True,
    }  # fmt: skip
    second = step(
        problem, target, blocks, "gradient_columns",
        (-(-problem.columns // blocks.tile), splits, 1), *names(given),
        COLUMNS=problem.columns, STRIDE=problem.stride, PARTS=parts, PADDED=next_power_of_2(parts),
        TILE=blocks.tile, ROWS=blocks.rows, STAGES=blocks.stages, RESIDUAL=residual, MEAN=mean,
        FINAL=final, OVERLAP=target.overlaps_launches,
    )  # fmt: skip
    last = [] if final else [_sum(problem, target, splits, problem.columns)]
    workspace = 8 * problem.rows * parts
    workspace += 0 if final else 4 * (1 + mean) * splits * problem.columns
    return LaunchPlan("split", overlapping([first, second, *last]), why, workspace)
