"""Cuts long rows of norms among the blocks of persistent clusters (see ``cluster``). Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from perfcli.model import KernelLaunch, Problem, Target

from .._elements import ITEM_BYTES, lanes_of, vector, widest_alignment, without_gap
from .blocks import (
    Blocks,
    _round_up,
    _rows_are_aligned,
    has_mean,
    has_residual,
    names,
    pointers,
    step,
)

BLOCKS, PORTABLE = (2, 4, 8, 16), 8
WARPS = (4, 8, 16)
PAIR_BYTES, BARRIER_BYTES = 8, 16
OWN_REGISTERS = 44
STEP = 8
MOST_REGISTERS = 255
RESERVED, LINE = 1024, 128


def ways(problem: Problem, target: Target) -> Iterator[Blocks]:
    """Yield ways to cut rows that keep them in registers."""
    problem = without_gap(problem)
    wide, align = vector(problem), widest_alignment(problem)
    most = BLOCKS[-1] if target.capability == (9, 0) else PORTABLE
    for blocks, warps in product((n for n in BLOCKS if n <= most), WARPS):
        threads = warps * target.warp_size
        tile = threads * blocks * wide
        tiles = -(-lanes_of(problem, align) // tile)
        kept = Blocks("cluster", threads, tile=tile, align=align, tiles=tiles, parts=blocks)
        needed = registers(problem, kept)
        shared = shared_bytes(problem, kept)
        if needed > MOST_REGISTERS or shared > target.shared_bytes_per_block_optin:
            continue
        allowed = needed + -needed % STEP
        per_sm = min(
            target.registers_per_sm // (threads * allowed),
            target.shared_bytes_per_sm // (shared + RESERVED),
            target.max_threads_per_sm // threads,
            target.max_blocks_per_sm,
        )
        for count in range(1, per_sm + 1):
            room = target.registers_per_sm // (threads * count) // STEP * STEP
            yield replace(kept, per_sm=count, most_registers=min(room, MOST_REGISTERS))


def registers(problem: Problem, blocks: Blocks) -> int:
    return OWN_REGISTERS + 4 * blocks.tiles


def shared_bytes(problem: Problem, blocks: Blocks, queue: bool = True) -> int:
    warps, halves = blocks.threads // 32, 4 // ITEM_BYTES[problem.dtype]
    tile = warps * 512
    if _peels(problem):
        tile = 4 * 4 * (warps * 32 + blocks.align // halves // 4 + 1)
    kept = _round_up(blocks.tiles * tile * (1 + has_mean(problem)), LINE)
    mailbox = blocks.parts * warps * PAIR_BYTES + BARRIER_BYTES
    mailboxes = (1 + queue) * mailbox + BARRIER_BYTES * queue
    slot = queue * blocks.tiles * warps * 512 * (1 + has_residual(problem))
    return _round_up(kept + slot + mailboxes, LINE)


def _peels(problem: Problem) -> bool:
    return not _rows_are_aligned(problem)


def cluster(problem: Problem, target: Target, blocks: Blocks) -> list[KernelLaunch]:
    problem = without_gap(problem)
    clusters = blocks.per_sm * target.sm_count // blocks.parts
    queue = problem.rows > clusters
    tensors, absent = pointers(problem)
    given, missing = names({"words": queue})
    made = step(
        problem, target, blocks, "norm_cluster", (min(clusters, problem.rows), 1, 1),
        f"{tensors} {given} rows eps", f"{absent} {missing}",
        COLUMNS=problem.columns, STRIDE=problem.stride, TILES=blocks.tiles,
        WARPS=blocks.threads // 32, BLOCKS=blocks.parts, VECTOR=vector(problem),
        ALIGN=blocks.align, PEEL=_peels(problem), HALVES=4 // ITEM_BYTES[problem.dtype],
        RESIDUAL=has_residual(problem), MEAN=has_mean(problem), QUEUE=queue, KEEP=blocks.read,
        DROP=blocks.write, OVERLAP=target.overlaps_launches,
    )  # fmt: skip
    made = replace(
        made, cluster=blocks.parts, maxnreg=blocks.most_registers or None,
        shared_bytes=shared_bytes(problem, blocks, queue),
    )  # fmt: skip
    if not queue:
        return [made]
    fill = step(
        problem, target, Blocks("", 32), "fill_words", (1, 1, 1), "words word_count",
        WORD=0, BLOCK=1, AWAITS=target.overlaps_launches, OVERLAP=target.overlaps_launches,
    )  # fmt: skip
    return [fill, made]
