"""Plans the gradients of norms: which programs hold what of a row and of the weight's gradient.
Pure.

The choice follows from the device: every way to cut the rows whose registers and shared memory fit
is given the share of the memory's bandwidth that it can reach, and the best is taken. No list of
shapes decides, and columns are cut into tiles whose sum is little more than a row, whatever its
length.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import gcd

from perfcli.model import KernelLaunch, LaunchPlan, Problem, Target

from .blocks import (
    ITEM_BYTES,
    Blocks,
    _peels,
    _power_of_two,
    _round_up,
    has_mean,
    has_residual,
    step,
    vector,
)
from .forward_plan import POLLS, mark_missing

LATENCY = 1.5e-6
"""Seconds of transfers that have to be under way for memory to be busy."""
EXCHANGE = 2e-6
"""Seconds from a program's last load to the sums of the others."""
LAUNCH = 2e-6
"""Seconds that one more launch costs."""
CACHED = 0.3
"""The price of a byte from the L2 cache, where one from memory is 1."""
LINE = 64
"""Programs of a row begin at multiples of as many columns."""
OWN_REGISTERS = 36
"""Registers of a thread beside those that hold elements, as compiled for sm_90."""
MOST_TILES = 8
MOST_PROGRAMS = 8
SUM_ELEMENTS = 8192
"""Partial sums that a block of the last kernel loads at a time."""


def _registers(problem: Problem, target: Target, blocks: Blocks) -> int:
    """Return about how many registers a thread needs: the sums in fp32, x, dy and the weight in
    their own dtype, and what is on its way between them, as compiled for sm_90 without spills (24
    and 32 elements of half precision in 128 and 168 registers; with a bias's sums as well, 16 and
    24)."""
    elements = blocks.rows * blocks.tile * blocks.tiles // blocks.threads
    item = ITEM_BYTES[problem.dtype]
    read = 3 + has_residual(problem)
    own = OWN_REGISTERS + 20 * (_peels(problem) + (blocks.variant == "cooperative"))
    if target.capability != (9, 0):  # sm_80 spills 2 words, sm_100 16, where sm_90 spills none
        own += 24
    passing = 9 if item == 2 else 17
    return own + elements * (passing + 5 * has_mean(problem) + read * item) // 4


def _most_registers(target: Target, blocks: Blocks) -> int:
    """Return the registers that a thread may use if all programs are to be resident. Each quarter
    of a multiprocessor has its own registers and whole warps."""
    warps = -(-blocks.per_sm * (blocks.threads // target.warp_size) // 4)
    return min(255, target.registers_per_sm // (4 * warps * target.warp_size) // 8 * 8)


def _spacing(problem: Problem) -> int:
    """Return after how many rows one lies as another does, relative to multiples of 16 bytes."""
    wide = vector(problem)
    return wide // gcd(problem.stride, wide) if _peels(problem) else 1


def _lanes(problem: Problem) -> int:
    """Return the columns of a row, with those of its neighbours that come along."""
    return problem.columns + (vector(problem) - 1 if _peels(problem) else 0)


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
    while room and _most_registers(target, replace(blocks, per_sm=room)) < needed:
        room -= 1
    return room


def groups(problem: Problem, target: Target, blocks: Blocks) -> int:
    """Return how many rows, or tiles of rows, are under way at a time: one for each program, or
    several programs. Of rows that start anywhere, as many of each kind."""
    resident = blocks.per_sm * target.sm_count // blocks.parts
    spacing = _spacing(problem)
    return min(_items(problem, blocks), resident // spacing * spacing)


def _items(problem: Problem, blocks: Blocks) -> int:
    each = _round_up(problem.rows, _spacing(problem)) // _spacing(problem)
    return _spacing(problem) * (_round_up(each, blocks.rows) // blocks.rows)


def estimate_efficiency(problem: Problem, target: Target, blocks: Blocks) -> float:
    """Return about which share of the memory's bandwidth is reached."""
    under_way = groups(problem, target, blocks)
    if not under_way:
        return 0.0
    item, reads = ITEM_BYTES[problem.dtype], _inputs(problem)
    per_sm_bandwidth = target.bandwidth / target.sm_count
    share = blocks.per_sm * blocks.rows * _chunk(problem, blocks.parts) * item
    rounds = -(-_items(problem, blocks) // under_way)
    slots = rounds * blocks.per_sm * target.sm_count
    busy = _items(problem, blocks) * blocks.parts / slots
    ahead = max(blocks.stages - 1, 0.25) * share * reads
    flight = min(1.0, ahead / (per_sm_bandwidth * LATENCY * reads / (reads + 1)))
    told = 1.0
    if blocks.parts > 1:
        told = min(0.92, share * (reads + 1) / (EXCHANGE * per_sm_bandwidth))
    moved = (reads + 1) * problem.elements * item
    partial = 8 * (1 + has_mean(problem)) * under_way * problem.columns / moved
    waste = blocks.tile * blocks.tiles * blocks.parts / _lanes(problem) - 1
    alone = 1 - 0.04 / blocks.per_sm  # all of its warps wait for the sums of a row at once
    return busy * flight * told * alone / (1 + partial) / (1 + 0.2 * waste)


def _chunk(problem: Problem, parts: int) -> int:
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
                    blocks = Blocks("cooperative", threads, 1, threads * elements, tiles)
                    yield from _resident(problem, target, blocks)


def _resident(problem: Problem, target: Target, blocks: Blocks) -> Iterator[Blocks]:
    """Yield the blocks with each number of programs per multiprocessor, as many stages as fit and,
    where a row has several programs, as many of them as leave no multiprocessor idle."""
    for stages in (3, 2, 1):
        staged = replace(blocks, stages=stages)
        most = _most_per_sm(problem, target, staged)
        for per_sm in range(1, most + 1):
            made = replace(staged, per_sm=per_sm)
            if blocks.variant == "cooperative":
                found = _cooperative(problem, target, made)
                if found is None:
                    continue
                made = found
            yield made
        if most:
            return


def _cooperative(problem: Problem, target: Target, blocks: Blocks) -> Blocks | None:
    fewest = -(-_lanes(problem) // (blocks.tile * blocks.tiles))
    resident = blocks.per_sm * target.sm_count
    under_way = groups(problem, target, replace(blocks, parts=fewest))
    if not under_way:
        return None
    parts = max(fewest, min(resident // under_way, -(-_lanes(problem) // (4 * LINE))))
    chunk = _chunk(problem, parts)
    parts = -(-_lanes(problem) // chunk)
    return replace(blocks, parts=parts, tiles=-(-chunk // blocks.tile))


def choose(problem: Problem, target: Target, variant: str | None) -> tuple[Blocks, str] | None:
    """Return the best blocks, of ``variant`` where one is asked for, and why; None where none
    fit."""
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
    seconds = _seconds(problem, target, best_rank[0], 3 if best.parts > 1 else 2)
    if variant is None and _split_seconds(problem, target) < seconds:
        return None
    return best, (
        f"{best.per_sm} programs of {best.threads} threads per multiprocessor, "
        f"{best.parts} for each row: about {best_rank[0]:.0%} of the bandwidth"
    )


def _seconds(problem: Problem, target: Target, reached: float, launches: int) -> float:
    moved = (_inputs(problem) + 1) * problem.elements * ITEM_BYTES[problem.dtype]
    return moved / target.bandwidth / max(reached, 1e-3) + launches * LAUNCH


def _split_seconds(problem: Problem, target: Target) -> float:
    """Return about how long two launches take, of which the second reads x and dy again."""
    again = 2 * problem.elements * ITEM_BYTES[problem.dtype]
    price = CACHED if again <= target.l2_bytes / 2 else 1.0
    launches = 2 if _splits(problem, target)[1] == 1 else 3
    whole = problem.stride % vector(problem) == 0 and problem.columns % vector(problem) == 0
    reached = 0.9 if whole or price < 1 else 0.6  # rows that start anywhere: narrow loads
    return _seconds(problem, target, reached, launches) + again * price / target.bandwidth / reached


def persistent(problem: Problem, target: Target, blocks: Blocks, why: str) -> LaunchPlan:
    """Plan persistent programs, then the sum of what each of them has added up."""
    mean, residual, parts = has_mean(problem), has_residual(problem), blocks.parts
    under_way = groups(problem, target, blocks)
    given = {
        "x": True, "dy": True, "dsum": residual, "weight": True, "mean": mean, "rstd": mean,
        "dx": True, "partial": True, "words": parts > 1, "rows": True, "tiles": parts > 1,
        "eps": True,
    }  # fmt: skip
    made = step(
        problem, target, blocks, "gradient_rows", (under_way * parts, 1, 1), *_names(given),
        COLUMNS=problem.columns, STRIDE=problem.stride, CHUNK=_chunk(problem, parts),
        PARTS=parts, PADDED=_power_of_two(parts), TILE=blocks.tile, TILES=blocks.tiles,
        ROWS=blocks.rows, SPACING=_spacing(problem), VECTOR=vector(problem),
        PEEL=_peels(problem), STAGES=blocks.stages, RESIDUAL=residual, MEAN=mean,
        OPAQUE=target.vendor == "nvidia" and ITEM_BYTES[problem.dtype] == 2, POLLS=POLLS,
        READ=blocks.read, WRITE=blocks.write,
    )  # fmt: skip
    if target.vendor == "nvidia":
        made = replace(made, maxnreg=_most_registers(target, blocks))
    marked = [mark_missing(problem, target, parts)] if parts > 1 else []
    workspace = 4 * (1 + mean) * under_way * problem.columns
    workspace += 8 * problem.rows * parts if parts > 1 else 0
    steps = (*marked, made, _sum(problem, target, under_way))
    return LaunchPlan(blocks.variant, steps, why, workspace)


def _names(given: dict[str, bool]) -> tuple[str, str]:
    """Return the arguments that are there, and those that are not."""
    there = " ".join(name for name, is_there in given.items() if is_there)
    return there, " ".join(name for name, is_there in given.items() if not is_there)


def _sum(problem: Problem, target: Target, count: int) -> KernelLaunch:
    """Add the partial sums: narrow blocks, so that there are many of them."""
    mean = has_mean(problem)
    block = min(
        32 if problem.columns > 32 * target.sm_count else 16, _power_of_two(problem.columns)
    )
    rows = min(SUM_ELEMENTS // block, _power_of_two(count))
    return step(
        problem, target, Blocks("", 256), "sum_partials",
        (-(-problem.columns // block), 1 + mean, 1),
        *_names({"partial": True, "dw": True, "db": mean, "count": True}),
        COLUMNS=problem.columns, BLOCK=block, ROWS=rows, MEAN=mean,
    )  # fmt: skip


def _splits(problem: Problem, target: Target) -> tuple[Blocks, int]:
    """Return the blocks of the kernel that computes columns, and into how many parts it splits the
    rows: about two blocks for each multiprocessor, in whole lines of memory."""
    wide = vector(problem)
    rows = min(16, _power_of_two(problem.rows))
    tile = 8 * wide
    while tile < 32 * wide and -(-problem.columns // (2 * tile)) >= target.sm_count:
        tile *= 2
    across = -(-problem.columns // tile)
    tall = -(-problem.rows // rows)
    splits = max(1, min(tall // 2, -(-2 * target.sm_count // across)))
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
    threads = min(256, max(32, _power_of_two(chunk) // vector(problem)))
    sums = Blocks("split", threads, tile=min(threads * vector(problem), _power_of_two(chunk)))
    first = step(
        problem, target, sums, "gradient_sums", (problem.rows * parts, 1, 1),
        *_names({
            "x": True, "dy": True, "weight": True, "mean": mean, "rstd": mean, "words": True,
            "rows": True,
        }),
        COLUMNS=problem.columns, STRIDE=problem.stride, CHUNK=chunk, PARTS=parts, TILE=sums.tile,
        MEAN=mean,
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
        (-(-problem.columns // blocks.tile), splits, 1), *_names(given),
        COLUMNS=problem.columns, STRIDE=problem.stride, PARTS=parts, PADDED=_power_of_two(parts),
        TILE=blocks.tile, ROWS=blocks.rows, STAGES=blocks.stages, RESIDUAL=residual, MEAN=mean,
        FINAL=final,
    )  # fmt: skip
    last = [] if final else [_sum(problem, target, splits)]
    workspace = 8 * problem.rows * parts
    workspace += 0 if final else 4 * (1 + mean) * splits * problem.columns
    return LaunchPlan("split", (first, second, *last), why, workspace)
