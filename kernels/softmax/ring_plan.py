"""Prototype: cuts softmax's long rows for ``ring``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from perfcli.model import KernelLaunch, LaunchPlan, Problem, Target

from .._elements import ITEM_BYTES, vector
from .._norms import ring_plan as R
from .._norms.blocks import Blocks, _power_of_two, _round_up, words_apart
from .._norms.cuts import (
    alignments,
    halves,
    lanes_of,
    most_registers,
    peels,
    spacing_of,
    takes_vectors,
)
from .choice import BACKWARD, inputs_of, pointer

SHAPES = ((128, 2), (256, 1), (256, 2), (512, 1), (128, 4), (64, 4))
MOST_ELEMENTS = {1: 64, 2: 32}
"""Of a thread, by inputs and by programs."""


def share(
    problem: Problem, target: Target, blocks: Blocks, least: int = 2, most_slots: int = 8
) -> Blocks | None:
    lanes = lanes_of(problem, blocks.align)
    fewest = -(-lanes // (blocks.tile * blocks.tiles))
    resident = blocks.per_sm * target.sm_count
    if fewest > resident:
        return None
    count = _at_once(problem, blocks, resident // fewest)
    if not count:
        return None
    most = max(fewest, min(resident // count, -(-lanes // blocks.tile)))
    parts = R._even_parts(problem, blocks, most, max(fewest, int(R.SHARED * most)))
    chunk = R._chunk(problem, blocks, parts)
    made = replace(blocks, parts=-(-lanes // chunk), tiles=-(-chunk // blocks.tile))
    room = target.shared_bytes_per_sm // blocks.per_sm - target.reserved_shared_bytes_per_block
    room = min(room, target.shared_bytes_per_block_optin) // 128 * 128
    slots = min((room - R._scratch(made)) // slot_bytes(problem, made), most_slots)
    elements = made.tiles * vector(problem)
    if problem.operation in BACKWARD:
        kept = 2 * elements * inputs_of(problem) * ITEM_BYTES[problem.dtype] // 4
    elif problem.operation == "softmax":
        kept = elements
    else:
        kept = elements * ITEM_BYTES[problem.dtype] // 4
    if slots < least or kept + 72 > most_registers(target, made):
        return None
    return replace(made, stages=slots)


def _at_once(problem: Problem, blocks: Blocks, most: int) -> int:
    """Return how many groups of programs take rows at the same time: as many for each way in which
    rows lie, or, of programs that are too many for that, a part of these ways."""
    spacing = spacing_of(problem, blocks.align)
    if most < spacing:
        return _power_of_two(most + 1) // 2
    return min(most, _round_up(problem.rows, spacing)) // spacing * spacing


def slot_bytes(problem: Problem, blocks: Blocks) -> int:
    return inputs_of(problem) * blocks.tiles * blocks.tile * ITEM_BYTES[problem.dtype]


def candidates(problem: Problem, target: Target) -> Iterator[Blocks]:
    if not takes_vectors(problem):
        return
    seen = set()
    for align, (threads, per_sm) in product(alignments(problem), SHAPES):
        tile = threads * vector(problem)
        for tiles in range(1, 33):
            made = share(
                problem, target, Blocks("ring", threads, 1, tile, align, tiles, per_sm=per_sm)
            )
            if made is not None and made.parts <= R.MOST_PARTS and made not in seen:
                seen.add(made)
                yield made


def plan(problem: Problem, target: Target, blocks: Blocks) -> LaunchPlan:
    backward = problem.operation in BACKWARD
    scratch = R._scratch(blocks)
    resident = _at_once(problem, blocks, blocks.per_sm * target.sm_count // blocks.parts)
    count = max(resident, spacing_of(problem, blocks.align))
    element = pointer(problem)
    tensors = ("y", "dy", "dx") if backward else ("x", "out")
    arguments = {**dict.fromkeys(tensors, element), "words": "*i64", "rows": "i32"}
    constants = dict(
        COLUMNS=problem.columns,
        STRIDE=problem.stride,
        CHUNK=R._chunk(problem, blocks, blocks.parts),
        FIRST=0,
        GROUPS=count,
        PARTS=blocks.parts,
        TILES=blocks.tiles,
        WARPS=blocks.threads // 32,
        SLOTS=blocks.stages,
        SPACING=spacing_of(problem, blocks.align),
        VECTOR=vector(problem),
        ALIGN=blocks.align,
        PEEL=peels(problem, blocks),
        HALVES=halves(problem),
        LOG=problem.operation.startswith("log"),
        APART=words_apart(blocks.parts),
        SCRATCH=scratch,
        OVERLAP=target.overlaps_launches,
    )
    made = KernelLaunch(
        "gradient_ring" if backward else "forward_ring",
        (resident * blocks.parts, 1, 1),
        arguments,
        constants,
        blocks.threads // 32,
        1,
        divisible_by_16=tuple(n for n, k in arguments.items() if k.startswith("*")),
        maxnreg=most_registers(target, blocks),
        all_at_once=True,
        overlaps=target.overlaps_launches,
        shared_bytes=blocks.stages * slot_bytes(problem, blocks) + scratch,
    )
    turns = [
        replace(made, constants={**made.constants, "FIRST": f}) for f in range(0, count, resident)
    ]
    mark = R.mark_missing(problem, target, words_apart(blocks.parts))
    return LaunchPlan("ring", (mark, *turns), f"ring {blocks}")
