"""Prototype: cuts norms' long rows for ``forward_ring``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from perfcli.model import LaunchPlan, Problem, Target

from .._elements import ITEM_BYTES, vector
from . import ring_plan as R
from .blocks import (
    Blocks,
    _round_up,
    has_mean,
    has_residual,
    mark_missing,
    names,
    overlapping,
    step,
    words_apart,
)
from .cuts import alignments, halves, lanes_of, most_registers, peels, spacing_of, takes_vectors

SHAPES = ((64, 4), (128, 2), (256, 1), (512, 1))


def _scratch(blocks: Blocks) -> int:
    return _round_up(32 + blocks.threads + blocks.threads // 4, 128)


def slot_bytes(problem: Problem, blocks: Blocks) -> int:
    return (1 + has_residual(problem)) * blocks.tiles * blocks.tile * ITEM_BYTES[problem.dtype]


def share(problem: Problem, target: Target, blocks: Blocks) -> Blocks | None:
    lanes = lanes_of(problem, blocks.align)
    fewest = R._fewest_parts(problem, blocks)
    resident = blocks.per_sm * target.sm_count
    most = max(fewest, min(resident // blocks.groups, -(-lanes // blocks.tile)))
    parts = R._even_parts(problem, blocks, most, max(fewest, int(R.SHARED * most)))
    chunk = R._chunk(problem, blocks, parts)
    made = replace(blocks, parts=-(-lanes // chunk), tiles=-(-chunk // blocks.tile))
    room = target.shared_bytes_per_sm // blocks.per_sm - target.reserved_shared_bytes_per_block
    room = min(room, target.shared_bytes_per_block_optin) // 128 * 128
    slots = min((room - _scratch(made)) // slot_bytes(problem, made), 12)
    elements = made.tiles * vector(problem)
    each = 0.5 if halves(problem) == 2 else 1
    own = 64 + 16 * peels(problem, made) + elements * has_residual(problem) // 4
    own += 72 * R.is_mixed(problem, made)  # of 104 elements and a mean it spills 21 words
    needed = own + (1 + has_mean(problem)) * elements * each
    if slots < 3 or needed > most_registers(target, made):
        return None
    return replace(made, stages=slots)


def candidates(problem: Problem, target: Target) -> Iterator[Blocks]:
    if not takes_vectors(problem):
        return
    seen = set()
    for align, (threads, per_sm) in product(alignments(problem), SHAPES):
        tile = threads * vector(problem)
        for tiles in range(1, 33):
            blocks = Blocks("ring", threads, 1, tile, align, tiles, per_sm=per_sm)
            for count in R.ways_to_group(problem, target, blocks):
                made = share(problem, target, replace(blocks, groups=count))
                if made is not None and made.parts <= R.MOST_PARTS and made not in seen:
                    seen.add(made)
                    yield made


def plan(problem: Problem, target: Target, blocks: Blocks) -> LaunchPlan:
    residual, mean = has_residual(problem), has_mean(problem)
    there, absent = names(
        {
            "x": True,
            "residual": residual,
            "weight": True,
            "bias": mean,
            "y": True,
            "total": residual,
            "mean": mean,
            "rstd": mean,
        }
    )
    scratch = _scratch(blocks)
    made = step(
        problem,
        target,
        blocks,
        "forward_ring",
        (blocks.groups * blocks.parts, 1, 1),
        f"{there} words rows eps",
        absent,
        COLUMNS=problem.columns,
        STRIDE=problem.stride,
        CHUNK=R._chunk(problem, blocks, blocks.parts),
        GROUPS=blocks.groups,
        PARTS=blocks.parts,
        TILES=blocks.tiles,
        WARPS=blocks.threads // 32,
        SLOTS=blocks.stages,
        BEHIND=R.behind(blocks),
        SPACING=spacing_of(problem, blocks.align),
        VECTOR=vector(problem),
        ALIGN=blocks.align,
        PEEL=peels(problem, blocks),
        HALVES=halves(problem),
        RESIDUAL=residual,
        MEAN=mean,
        APART=words_apart(blocks.parts),
        SCRATCH=scratch,
        OVERLAP=target.overlaps_launches,
    )
    made = replace(
        made,
        maxnreg=most_registers(target, blocks),
        all_at_once=True,
        shared_bytes=blocks.stages * slot_bytes(problem, blocks) + scratch,
    )
    steps = [mark_missing(problem, target, words_apart(blocks.parts)), made]
    return LaunchPlan(
        "ring", overlapping(steps), f"ring {blocks}", 8 * problem.rows * words_apart(blocks.parts)
    )
