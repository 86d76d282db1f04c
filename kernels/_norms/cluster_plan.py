"""Cuts long rows of norms among the blocks of persistent clusters (see ``cluster``). Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from math import ceil, pow

from perfcli.model import KernelLaunch, Problem, Target

from .._clusters import (
    BARRIER_BYTES,
    ISSUE_SECONDS,
    mailbox_bytes,
    share_registers,
    sizes,
    why_none,
)
from .._elements import (
    ITEM_BYTES,
    MORE_REGISTERS,
    lanes_of,
    row_bytes,
    rows_lie_alike,
    vector,
    widest_alignment,
    without_gap,
)
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

WARPS = (2, 4, 8, 16)
"""Of a block."""
PARTS_OF_TWO_WARPS, TILES_OF_TWO_WARPS = 8, range(6, 10)
"""The most blocks of two warps that share a row, and their tiles. Others were up to 7 percent
slower than fewer blocks of more warps, which the estimate does not see (layernorm 1480 × 90711
bfloat16 in 16 of them 90 percent of a copy, in 8 of four warps 96; 14223 × 9437 in 4, of 5 tiles,
92, in 2 of four warps 99)."""
SLOTS = (1, 2)
"""Rows of a block on their way to shared memory."""
MOST_TILES = 13
"""More were slower than larger clusters or blocks, up to 15 percent, or spilled."""
REGISTERS, REGISTERS_HALF, REGISTERS_RESIDUAL, REGISTERS_MANY = 60, 72, 24, 8
"""Of a thread apart from its words, without spills, which are slow here: shared memory leaves L1
little room (ptxas 12.8, sm_90). With a residual and with ``MOST_TILES`` it takes more."""
LINE = 128
"""Bytes at multiples of which slots begin in shared memory, as in ``cluster``."""
SHARE = 0.87
"""Of the bandwidth, that is reached if nothing else takes time."""
LOAD_SECONDS, ELEMENT_SECONDS, TELLING_SECONDS = 0.77e-6, 7.5e-9, 2.1e-9
"""How long a block waits for its part of a row if one is on its way, in half of which two are; and
for each element of a thread and each warp of the cluster, which tells all others what it found."""
INSTRUCTIONS, EACH, EACH_MEAN = 370, 3.0, 7.6
"""Instructions of a thread for a row, for each of its elements, and for those of half precision of
which there is a mean."""
SMOOTHNESS = 3.4
"""How sharply the longest of these decides, and the transfers."""
NEIGHBOURS = 18
"""Multiprocessors among which the blocks of a cluster have to find room (a GPC of an H200 whose
multiprocessors all work); what is left over runs nothing."""
ALONE = 0.015
"""What it costs that a multiprocessor has one such block; of several, their share of it."""
UNDER_WAY, BEYOND = 90e3, 0.021
"""Bytes of rows that a multiprocessor has under way from which on more of them are slower, and what
each 100 KB more cost.

All constants from ``SHARE`` on fit 459 launches of 54 problems of 256 MiB: those that they put
first take 0.5 percent more time than the best on average, and 2.1 at most (H200, triton 3.6,
2026-11-29). Problems between 8 and 256 MiB were not timed."""
MANY_ROUNDS = 4
"""Rows of a cluster from which on it hardly matters that some have one more than others."""
FEW_THREADS, FEW_TILES, FEW_REGISTERS = 256, 6, 128
"""Of blocks of which a multiprocessor has one, where there are few rows: their tiles, at most, one
less with a residual, and one less where registers hold less; and registers with which two of them
fit if clusters do not find room otherwise."""


def why_not(problem: Problem, target: Target) -> str:
    """Return why clusters cannot do it; "" if they can."""
    if reason := why_none(target):
        return reason
    if not rows_lie_alike(problem, vector(problem)):
        return "rows of input and output do not lie alike"
    if not any(ways(problem, target)):
        return f"a row of {problem.columns} {problem.dtype} is too long for a cluster"
    return ""


def choose(problem: Problem, target: Target) -> tuple[Blocks, float]:
    """Return the best way to cut rows among clusters, and about which share of the bandwidth it
    reaches."""
    return max(ways(problem, target), key=lambda each: each[1])


def few(problem: Problem, target: Target) -> Blocks | None:
    """Return blocks for a few rows: as many for each as there are multiprocessors for it, if its
    threads have two tiles then. None if they would have many, or if there are too many rows for two
    blocks each."""
    problem = without_gap(problem)
    align = _alignment(problem)
    most = FEW_TILES - has_residual(problem) - (target.capability != (9, 0))
    fitting = [n for n in sizes(target) if problem.rows * n <= target.sm_count]
    if not fitting or why_not(problem, target):
        return None
    lanes, wide = lanes_of(problem, align), FEW_THREADS * vector(problem)
    parts = max((n for n in fitting if lanes > n * wide), default=fitting[0])
    tiles = -(-lanes // (parts * wide))
    if tiles > most:
        return None
    return Blocks(
        "cluster", FEW_THREADS, tile=parts * wide, align=align, tiles=tiles, parts=parts, per_sm=1,
        most_registers=FEW_REGISTERS,
    )  # fmt: skip


def ways(problem: Problem, target: Target) -> Iterator[tuple[Blocks, float]]:
    """Yield ways to cut rows that keep them in registers, and the weights in shared memory, each
    with about which share of the bandwidth it reaches."""
    problem = without_gap(problem)
    align = _alignment(problem)
    for parts, warps, slots in product(sizes(target), WARPS, SLOTS):
        threads = warps * target.warp_size
        tile = threads * parts * vector(problem)
        tiles = -(-lanes_of(problem, align) // tile)
        kept = Blocks(
            "cluster", threads, tile=tile, align=align, tiles=tiles, parts=parts, stages=slots
        )
        shared = shared_bytes(problem, kept)
        if warps == WARPS[0] and (parts > PARTS_OF_TWO_WARPS or tiles not in TILES_OF_TWO_WARPS):
            continue
        if tiles > MOST_TILES or shared > target.shared_bytes_per_block_optin:
            continue
        room = min(
            target.shared_bytes_per_sm // (shared + target.reserved_shared_bytes_per_block),
            target.max_threads_per_sm // threads,
            target.max_blocks_per_sm,
        )
        for per_sm in range(1, room + 1):
            registers = share_registers(target, threads * per_sm)
            if registers < needed_registers(problem, target, kept):
                break
            found = replace(kept, per_sm=per_sm, most_registers=registers)
            yield found, estimate_efficiency(problem, target, found)


def needed_registers(problem: Problem, target: Target, blocks: Blocks) -> int:
    """Return about how many registers a thread needs without spills."""
    own = REGISTERS_HALF if ITEM_BYTES[problem.dtype] == 2 else REGISTERS
    own += MORE_REGISTERS * (target.capability != (9, 0))
    own += REGISTERS_MANY * (blocks.tiles == MOST_TILES)
    return own + REGISTERS_RESIDUAL * has_residual(problem) + 4 * blocks.tiles


def shared_bytes(problem: Problem, blocks: Blocks, queue: bool = True) -> int:
    """Return the shared memory of a block: weights, with ``queue`` also rows that are on their
    way, and mailboxes."""
    warps, halves = blocks.threads // 32, 4 // ITEM_BYTES[problem.dtype]
    tile = warps * 512
    kept = tile
    if not _rows_are_aligned(problem):
        kept = 16 * (warps * 32 + blocks.align // halves // 4 + 1)
    kept = _round_up(blocks.tiles * kept * (1 + has_mean(problem)), LINE)
    slots = queue * blocks.stages * blocks.tiles * tile * (1 + has_residual(problem))
    mailboxes = (1 + queue) * mailbox_bytes(warps, blocks.parts) + queue * BARRIER_BYTES
    return _round_up(kept + slots + mailboxes, LINE)


def estimate_efficiency(problem: Problem, target: Target, blocks: Blocks) -> float:
    """Return about which share of the bandwidth is reached."""
    residual, warps = has_residual(problem), blocks.threads / target.warp_size
    moved = 2 * (1 + residual) * row_bytes(problem) / blocks.parts
    transfers = moved * target.sm_count / target.bandwidth
    elements = blocks.tiles * vector(problem)
    half = ITEM_BYTES[problem.dtype] == 2
    instructions = INSTRUCTIONS + (EACH + EACH_MEAN * (half and has_mean(problem))) * elements
    waits = LOAD_SECONDS / blocks.stages + ELEMENT_SECONDS * elements
    waits += TELLING_SECONDS * blocks.parts * warps
    fitting = NEIGHBOURS * blocks.per_sm // blocks.parts * blocks.parts
    busy = fitting / (NEIGHBOURS * blocks.per_sm)
    besides = instructions * warps / 4 * ISSUE_SECONDS / busy, waits / blocks.per_sm / busy
    longest = transfers / SHARE, *besides
    took = pow(sum(pow(each, SMOOTHNESS) for each in longest), 1 / SMOOTHNESS)
    rows_under_way = 1 + blocks.stages * (1 + residual)
    under_way = blocks.per_sm * blocks.tiles * blocks.threads * 16 * rows_under_way
    beyond = BEYOND * max(0.0, under_way - UNDER_WAY) / 1e5
    reached = transfers / took / (1 + ALONE / blocks.per_sm + beyond)
    rounds = problem.rows / clusters_at_once(target, blocks)
    return reached * rounds / ceil(rounds) if 0 < rounds < MANY_ROUNDS else reached


def clusters_at_once(target: Target, blocks: Blocks) -> int:
    """Return how many clusters a device has room for, if nothing is left over."""
    return max(1, blocks.per_sm * target.sm_count // blocks.parts)


def _alignment(problem: Problem) -> int:
    """Return from which multiples of elements lanes are counted: from a row's own start if it is
    aligned, so that weights need no shift."""
    return vector(problem) if _rows_are_aligned(problem) else widest_alignment(problem)


def launches(problem: Problem, target: Target, blocks: Blocks) -> list[KernelLaunch]:
    """Return the launches: where there are more rows than clusters at a time, the counter from
    which these take rows is set to zero first."""
    problem = without_gap(problem)
    clusters = clusters_at_once(target, blocks)
    queue = problem.rows > clusters
    tensors, absent = pointers(problem)
    given, missing = names({"words": queue})
    overlaps = target.overlaps_launches
    # A cluster takes its first rows at once, and a few rows are not to go to a few clusters.
    slots = blocks.stages if problem.rows >= (blocks.stages + 1) * clusters else 1
    made = step(
        problem, target, blocks, "norm_cluster", (min(clusters, problem.rows), 1, 1),
        f"{tensors} {given} rows eps", f"{absent} {missing}",
        COLUMNS=problem.columns, STRIDE=problem.stride, TILES=blocks.tiles,
        WARPS=blocks.threads // 32, BLOCKS=blocks.parts, VECTOR=vector(problem),
        ALIGN=blocks.align, PEEL=not _rows_are_aligned(problem),
        HALVES=4 // ITEM_BYTES[problem.dtype], RESIDUAL=has_residual(problem),
        MEAN=has_mean(problem), QUEUE=queue, SLOTS=slots, KEEP=blocks.read, DROP=blocks.write,
        OVERLAP=overlaps,
    )  # fmt: skip
    made = replace(
        made,
        cluster=blocks.parts,
        maxnreg=blocks.most_registers,
        shared_bytes=shared_bytes(problem, replace(blocks, stages=slots), queue),
        overlaps=overlaps,
    )
    if not queue:
        return [made]
    clear = step(
        problem, target, Blocks("", 32), "fill_words", (1, 1, 1), "words word_count",
        WORD=0, BLOCK=1, AWAITS=overlaps, OVERLAP=overlaps,
    )  # fmt: skip
    return [clear, made]
