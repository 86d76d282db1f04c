"""Cuts rows among persistent programs: which of them hold what of a row, and of the weight's
gradient. Pure.

The choice follows from the device: every way to cut the rows whose registers and shared memory fit
is given the share of the memory's bandwidth that it can reach, and the best is taken. No list of
shapes decides, and columns are cut into tiles whose sum is little more than a row, whatever its
length.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import ceil, gcd

from perfcli.model import KernelLaunch, Problem, Target

from .blocks import (
    ITEM_BYTES,
    POLLS,
    Blocks,
    _peels,
    _power_of_two,
    _round_up,
    has_mean,
    has_residual,
    mark_missing,
    names,
    step,
    vector,
)

LATENCY = 1.5e-6
"""Seconds of transfers that have to be under way for memory to be busy."""
EXCHANGE = 0.4e-6
"""Seconds of a step that are not hidden where several programs share a row."""
TELLING = 0.0006
"""The share of the time that each program of a row costs, whose word all others read."""
LAUNCH = 2e-6
"""Seconds that one more launch costs."""
LINE = 64
"""Programs of a row begin at multiples of as many columns."""
REGISTERS = {
    (2, False): (36, 3.75, 1.25),
    (2, True): (52, 4.75, 1.6),
    (4, False): (30, 4.3, 0.2),
    (4, True): (58, 9.0, 0.0),
}
"""Registers of a thread by bytes of an element and whether several programs share a row: its own,
those for each element, and those for each element of a norm with a mean. Such that ptxas 12.8
spills next to nothing for sm_90, with 8 to 40 elements (20 of float32)."""
WAITING = {64: (0.0, 0.0), 128: (0.02, 0.03), 256: (0.05, 0.2), 512: (0.25, 0.35)}
"""The share of the time that programs lose whose warps wait for each other at every row, by their
threads: those with whole rows, and those that share them (H200, triton 3.6)."""
MOST_TILES = 8
MOST_PROGRAMS = 8


def _registers(problem: Problem, target: Target, blocks: Blocks) -> int:
    """Return about how many registers a thread needs without spills: for inputs and weights, the
    row before where several programs share a row, gradients' sums, and what is on its way between
    them."""
    elements = blocks.rows * blocks.tile * blocks.tiles // blocks.threads
    item = ITEM_BYTES[problem.dtype]
    own, each, each_mean = REGISTERS[item, blocks.parts > 1]
    if _peels(problem):
        own += max(12, elements // 2)
    if target.capability != (9, 0):  # sm_80 spills 2 words, sm_100 16, where sm_90 spills none
        own += 24
    if has_mean(problem):
        each += each_mean
    return own + ceil(elements * (each + has_residual(problem) * item / 4))


def most_registers(target: Target, blocks: Blocks) -> int:
    """Return the registers that a thread may use if all programs are to be resident. Each quarter
    of a multiprocessor has its own registers and whole warps."""
    warps = -(-blocks.per_sm * (blocks.threads // target.warp_size) // 4)
    return min(255, target.registers_per_sm // (4 * warps * target.warp_size) // 8 * 8)


def spacing_of(problem: Problem) -> int:
    """Return after how many rows one lies as another does, relative to multiples of 16 bytes."""
    wide = vector(problem)
    return wide // gcd(problem.stride, wide) if _peels(problem) else 1


def _lanes(problem: Problem) -> int:
    """Return the columns of a row, with those of its neighbours that come along: whole words of 16
    bytes, as a mask that ends within one makes all loads under it narrow."""
    beside = vector(problem) - 1 if _peels(problem) else 0
    return _round_up(problem.columns + beside, vector(problem))


def _inputs(problem: Problem) -> int:
    return 2 + has_residual(problem)


def _shared(problem: Problem, blocks: Blocks) -> int:
    """Return the bytes of tiles that the loop over rows fetches ahead."""
    tile = blocks.rows * blocks.tile * blocks.tiles * ITEM_BYTES[problem.dtype]
    return (blocks.stages - 1) * _inputs(problem) * tile


def _most_per_sm(problem: Problem, target: Target, blocks: Blocks) -> int:
    """Return how many programs a multiprocessor has room for."""
    if blocks.threads > target.max_threads_per_block:
        return 0
    shared = _shared(problem, blocks) + 1024 + target.reserved_shared_bytes_per_block
    if shared > target.shared_bytes_per_block_optin:
        return 0
    needed = _registers(problem, target, blocks)
    room = min(target.shared_bytes_per_sm // shared, MOST_PROGRAMS)
    room = min(room, target.max_threads_per_sm // blocks.threads)
    while room and most_registers(target, replace(blocks, per_sm=room)) < needed:
        room -= 1
    return room


def groups(problem: Problem, target: Target, blocks: Blocks) -> int:
    """Return in how many groups programs take rows: one program each, or the several of a row. Of
    rows that start anywhere, as many groups for each kind, in turns where not all are resident."""
    resident = _resident_groups(target, blocks)
    spacing = spacing_of(problem)
    if not resident:
        return 0
    return min(_items(problem, blocks), max(resident // spacing, 1) * spacing)


def _resident_groups(target: Target, blocks: Blocks) -> int:
    return blocks.per_sm * target.sm_count // blocks.parts


def _turns(problem: Problem, target: Target, blocks: Blocks) -> int:
    """Return in how many launches the groups run: programs of a row wait for each other, so that
    all of a launch are resident."""
    return -(-groups(problem, target, blocks) // _resident_groups(target, blocks))


def _items(problem: Problem, blocks: Blocks) -> int:
    each = _round_up(problem.rows, spacing_of(problem)) // spacing_of(problem)
    return spacing_of(problem) * (_round_up(each, blocks.rows) // blocks.rows)


def estimate_efficiency(problem: Problem, target: Target, blocks: Blocks) -> float:
    """Return about which share of the memory's bandwidth is reached."""
    under_way = groups(problem, target, blocks)
    if not under_way:
        return 0.0
    item, reads = ITEM_BYTES[problem.dtype], _inputs(problem)
    matrices = reads + 1
    per_sm_bandwidth = target.bandwidth / target.sm_count
    share = blocks.per_sm * blocks.rows * chunk_of(problem, blocks.parts) * item
    turns = _turns(problem, target, blocks)
    rounds = -(-_items(problem, blocks) // under_way) * turns
    slots = rounds * blocks.per_sm * target.sm_count
    busy = _items(problem, blocks) * blocks.parts / slots
    ahead = max(blocks.stages - 1, 0.25) * share * reads
    flight = min(1.0, ahead / (per_sm_bandwidth * LATENCY * reads / matrices))
    told = 1.0
    if blocks.parts > 1:
        step = share * matrices / per_sm_bandwidth
        told = step / (step + EXCHANGE) * max(1 - TELLING * blocks.parts, 0.1)
    moved = matrices * problem.elements * item
    partial = (turns - 1) * 2 * LAUNCH * target.bandwidth / moved
    partial += 8 * (1 + has_mean(problem)) * under_way * problem.columns / moved
    waste = blocks.tile * blocks.tiles * blocks.parts / _lanes(problem) - 1
    alone = 1 - 0.04 / blocks.per_sm  # all of its warps wait for the sums of a row at once
    if blocks.tile > target.warp_size * vector(problem):
        alone -= WAITING[blocks.threads][blocks.parts > 1]
    narrow = 0.97 if blocks.rows * blocks.tile < blocks.threads * vector(problem) else 1.0
    return busy * flight * told * alone * narrow / (1 + partial) / (1 + 0.2 * waste)


def chunk_of(problem: Problem, parts: int) -> int:
    """Return the columns of one of ``parts`` programs."""
    lanes = _lanes(problem)
    return lanes if parts == 1 else _round_up(-(-lanes // parts), LINE)


def candidates(problem: Problem, target: Target) -> Iterator[Blocks]:
    """Yield every way to cut the problem into persistent programs that fit the target."""
    lanes, wide = _lanes(problem), vector(problem)
    for threads in (64, 128, 256, 512):
        for elements in (wide, wide // 2):
            for tile, rows in ((threads * elements // r, r) for r in (1, 2, 4, 8, 16)):
                tiles = -(-lanes // tile)
                if tile >= LINE and tiles <= MOST_TILES:
                    yield from _resident(
                        problem, target, Blocks("fused", threads, rows, tile, tiles, read="")
                    )
            for tiles in range(2, MOST_TILES + 1):
                if lanes > threads * elements * tiles:
                    tile = threads * elements
                    blocks = Blocks("cooperative", threads, 1, tile, tiles, parts=2)
                    yield from _resident(problem, target, blocks)


def _resident(problem: Problem, target: Target, blocks: Blocks) -> Iterator[Blocks]:
    """Yield the blocks with each number of programs per multiprocessor, with as many stages as fit
    and, where a row has several programs, as many of them as leave no multiprocessor idle."""
    done = 0
    for stages in (3, 2, 1):
        staged = replace(blocks, stages=stages)
        most = _most_per_sm(problem, target, staged)
        for per_sm in range(done + 1, most + 1):
            made = replace(staged, per_sm=per_sm)
            if blocks.parts > 1:
                found = _cooperative(problem, target, made)
                if found is None:
                    continue
                made = found
            yield made
        done = max(done, most)


def _cooperative(problem: Problem, target: Target, blocks: Blocks) -> Blocks | None:
    """Return the blocks with as many programs per row as are resident for each of the groups."""
    fewest = -(-_lanes(problem) // (blocks.tile * blocks.tiles))
    resident = blocks.per_sm * target.sm_count
    under_way = min(_items(problem, blocks), resident // fewest)
    spacing = spacing_of(problem)
    if under_way > spacing:
        under_way = under_way // spacing * spacing
    elif under_way:
        under_way = -(-spacing // -(-spacing // under_way))
    else:
        return None
    parts = max(fewest, min(resident // under_way, -(-_lanes(problem) // (4 * LINE))))
    chunk = chunk_of(problem, parts)
    parts = -(-_lanes(problem) // chunk)
    return replace(blocks, parts=parts, tiles=-(-chunk // blocks.tile))


def choose(
    problem: Problem, target: Target, variant: str | None
) -> tuple[Blocks, float, str] | None:
    """Return the best blocks, of ``variant`` where one is asked for, the share of the bandwidth
    that they reach, and why; None where none fit."""
    best, best_rank = None, (0.0, 0, 0)
    for blocks in candidates(problem, target):
        if variant not in (None, blocks.variant):
            continue
        elements = blocks.rows * blocks.tile * blocks.tiles // blocks.threads
        reached = round(estimate_efficiency(problem, target, blocks), 2)
        rank = (reached, -abs(elements * ITEM_BYTES[problem.dtype] - 64), -blocks.per_sm)
        if best is None or rank > best_rank:
            best, best_rank = blocks, rank
    if best is None:
        return None
    why = (
        f"{best.per_sm} programs of {best.threads} threads per multiprocessor, "
        f"{best.parts} for each row: about {best_rank[0]:.0%} of the bandwidth"
    )
    return best, best_rank[0], why


def estimate_seconds(problem: Problem, target: Target, reached: float, launches: int) -> float:
    """Return about how long launches take that reach a share of the bandwidth."""
    matrices = _inputs(problem) + 1
    moved = matrices * problem.elements * ITEM_BYTES[problem.dtype]
    return moved / target.bandwidth / max(reached, 1e-3) + launches * LAUNCH


def persistent(
    problem: Problem, target: Target, blocks: Blocks, function: str, given: Mapping[str, bool]
) -> list[KernelLaunch]:
    """Return the launches of persistent programs: words that nobody has told yet where several
    share a row, then the programs; ``given`` says which arguments of theirs are there."""
    parts = blocks.parts
    there = {**given, "words": parts > 1, "rows": True, "tiles": parts > 1, "eps": True}
    every, turns = groups(problem, target, blocks), _turns(problem, target, blocks)
    each = -(-every // turns)
    made = step(
        problem, target, blocks, function, (each * parts, 1, 1), *names(there),
        COLUMNS=problem.columns, STRIDE=problem.stride, CHUNK=chunk_of(problem, parts),
        GROUPS=every, FIRST=0, PARTS=parts, PADDED=_power_of_two(parts), TILE=blocks.tile,
        TILES=blocks.tiles, ROWS=blocks.rows, SPACING=spacing_of(problem),
        VECTOR=vector(problem), PEEL=_peels(problem), STAGES=blocks.stages,
        RESIDUAL=has_residual(problem), MEAN=has_mean(problem), POLLS=POLLS,
        OPAQUE=target.vendor == "nvidia" and ITEM_BYTES[problem.dtype] == 2,
        READ=blocks.read, WRITE=blocks.write,
    )  # fmt: skip
    if target.vendor == "nvidia":
        made = replace(made, maxnreg=most_registers(target, blocks))
    launched = [
        replace(
            made,
            grid=(min(each, every - first) * parts, 1, 1),
            constants={**made.constants, "FIRST": first},
        )
        for first in range(0, every, each)
    ]
    return [*([mark_missing(problem, target, parts)] if parts > 1 else []), *launched]
