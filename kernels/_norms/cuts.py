"""Cuts rows into tiles of persistent programs, which hold whole rows and sums of the weight's
gradient. Pure.

The choice follows from the device: every way to cut the rows whose registers and shared memory fit
is given the share of the memory's bandwidth that it can reach, and the best is taken. No list of
shapes decides, and columns are cut into tiles whose sum is little more than a row, whatever its
length.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product
from math import ceil, gcd, pow

from perfcli.model import KernelLaunch, Problem, Target

from .._elements import ITEM_BYTES, lanes_of, matrix_bytes, sector_of, vector, widest_alignment
from .blocks import (
    Blocks,
    _peels,
    _round_up,
    _rows_are_aligned,
    has_mean,
    has_residual,
    names,
    step,
)

LATENCY = 1.7e-6
"""Seconds of transfers that have to be under way for memory to be busy."""
LAUNCH = 2e-6
"""Seconds that a launch costs."""
LINE = 64
"""Tiles have at least as many columns, and programs of a row begin at multiples of as many."""
REGISTERS = {2: (60, 2.5, 8, 1.0), 4: (54, 4.0, 0, 1.0)}
"""Registers of a thread by bytes of a word's element: its own and those for each element, and what
a norm with a mean takes besides. Such that ptxas 12.8 spills next to nothing for sm_90, with 8 to
56 elements (32 of float32)."""
WAIT, BARRIER, WIDTH = 0.16e-6, 0.05e-6, 0.19e-6
"""Seconds of a round that any program waits, those of one whose warps wait for each other, and
those for each 256 of its threads."""
ELEMENT, SERIAL = 1.3e-9, 6e-9
"""Seconds for each element of a thread: for each warp of its multiprocessor, and of its own."""
MEAN_WORK = 0.35
"""What a mean adds to that work."""
OVERLAPPED = 5.8
"""The power mean of transfers and of what programs do besides, of which the longer counts."""
PARTIAL, PARTIAL_CACHED = 0.3, 2.4
"""The price of a byte of partial sums, where one of a matrix is 1: they are written when all
programs end, and read by a kernel of its own, from the L2 cache; where the cache holds the matrices
as well, those cost less."""
SHORT = 128
"""Rows of fewer vectors of 16 bytes are taken several at a time."""
MOST_TILES = 8
IDLE = 0.09
"""What lanes without a column cost, of those with one, in rows of more than two tiles and in those
that start between multiples of 16 bytes."""
ENDS, CONVERTING = 0.03, 0.03
"""What the ends of such rows cost, or float16, whose conversions take twice as long as bfloat16's;
fitted anew since (2026-11-29)."""
MOST_PROGRAMS = 8
ONCE, FITTED_BYTES = 9e-6, 800e6
"""Seconds that programs of several rows take once if these are in several warps, which wait for
each other whenever weights are put in order and sums of columns added up (3 to 20: rmsnorm-backward
2000 × 1001 bfloat16 in 4 rows of a warp 19.4 µs, in one 9.9; layernorm-residual-backward in 8 rows
of a warp 32.1, in one 12.8; H200, 2026-11-29); and the bytes moved by the problems that all other
constants were fitted to, which include what these take once."""
SHARED_SECTORS = 0.07
"""What it costs that tiles begin within sectors, which two of them read and write (layernorm and
rmsnorm 9309 × 14408 and 14416 bfloat16: 88.5 and 91.3, 91.7 and 95.2 %, H200, 2026-11-28)."""


def _registers(problem: Problem, target: Target, blocks: Blocks) -> int:
    """Return about how many registers a thread needs without spills: for inputs and weights,
    gradients' sums, and what is on its way between them."""
    elements = _elements(blocks)
    own, each, own_mean, each_mean = REGISTERS[4 // halves(problem)]
    if peels(problem, blocks):
        own += max(8, elements * 3 // 2 - 20)
    if target.capability != (9, 0):  # sm_80 spills 2 words, sm_100 16, where sm_90 spills none
        own += 24
    if target.capability >= (10, 0):  # with 64 elements 58 words
        own += max(elements - 48, 0)
    if has_mean(problem):
        own += own_mean
        each += each_mean
    return own + ceil(elements * (each + has_residual(problem)))


def _elements(blocks: Blocks) -> int:
    """Return the elements of a thread."""
    return blocks.rows * blocks.tile * blocks.tiles // blocks.threads


def most_registers(target: Target, blocks: Blocks) -> int:
    """Return the registers that a thread may use if all programs are to be resident. Each quarter
    of a multiprocessor has its own registers and whole warps."""
    warps = -(-blocks.per_sm * (blocks.threads // target.warp_size) // 4)
    return min(255, target.registers_per_sm // (4 * warps * target.warp_size) // 8 * 8)


def takes_vectors(problem: Problem) -> bool:
    """Return whether all rows are read 16 bytes at a time."""
    return _peels(problem) or _rows_are_aligned(problem)


def alignments(problem: Problem) -> tuple[int, ...]:
    """Return from which multiples of elements a row's lanes may be counted, in which all of its
    matrices lie alike: sectors of memory, and vectors unless all rows start at sectors; 1 where
    rows are not read in vectors."""
    wide, sector = vector(problem), sector_of(problem)
    if not takes_vectors(problem):
        return (1,)
    if widest_alignment(problem) < sector:
        return (wide,)
    return (sector, wide) if problem.stride % sector else (sector,)


def peels(problem: Problem, blocks: Blocks) -> bool:
    """Return whether rows start between the places from which lanes are counted."""
    return problem.stride % blocks.align != 0


def spacing_of(problem: Problem, align: int) -> int:
    """Return after how many rows one lies as another does."""
    return align // gcd(problem.stride, align)


def shares_sectors(problem: Problem, blocks: Blocks) -> bool:
    """Return whether tiles begin within sectors of memory."""
    sector = sector_of(problem)
    return bool(problem.stride % sector and blocks.align % sector)


def inputs_of(problem: Problem) -> int:
    """Return how many matrices are read."""
    return 2 + has_residual(problem)


def _shared(problem: Problem, blocks: Blocks) -> int:
    """Return the bytes of tiles that the loop over rows fetches ahead."""
    tile = blocks.rows * blocks.tile * blocks.tiles * ITEM_BYTES[problem.dtype]
    return (blocks.stages - 1) * inputs_of(problem) * tile


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
    while room and not _have_registers(target, replace(blocks, per_sm=room), needed):
        room -= 1
    return room


def _have_registers(target: Target, blocks: Blocks, needed: int) -> bool:
    """Return whether a thread has as many registers as it needs, and some more where it has not all
    that it may have: those that are estimated to fit exactly spilled up to 48 bytes, and reached 59
    to 80 percent of a copy where others reached 90 to 95 (rmsnorm-backward 169040 × 794)."""
    most = most_registers(target, blocks)
    return needed <= (most if most == 255 else most - 8)


def groups(problem: Problem, target: Target, blocks: Blocks) -> int:
    """Return how many programs take rows; of rows that start anywhere, as many for each kind."""
    spacing = spacing_of(problem, blocks.align)
    resident = max(blocks.per_sm * target.sm_count // spacing, 1) * spacing
    return min(_items(problem, blocks), resident)


def _items(problem: Problem, blocks: Blocks) -> int:
    spacing = spacing_of(problem, blocks.align)
    each = _round_up(problem.rows, spacing) // spacing
    return spacing * (_round_up(each, blocks.rows) // blocks.rows)


def estimate_efficiency(problem: Problem, target: Target, blocks: Blocks) -> float:
    """Return about which share of the bandwidth is reached: a round of programs, a row each, lasts
    as long as its transfers or as what a program does besides, waiting included. The constants fit
    341 launches of 60 problems, half of them within 3 percent (H200, triton 3.6, 2026-11-28)."""
    under_way = groups(problem, target, blocks)
    item, reads = ITEM_BYTES[problem.dtype], inputs_of(problem)
    matrices = reads + 1
    per_sm_bandwidth = target.bandwidth / target.sm_count
    share = blocks.per_sm * blocks.rows * lanes_of(problem, blocks.align) * item
    slots = -(-_items(problem, blocks) // under_way) * blocks.per_sm * target.sm_count
    busy = _items(problem, blocks) / slots
    ahead = max(blocks.stages - 1, 0.25) * share * reads
    flight = min(1.0, ahead / (per_sm_bandwidth * LATENCY * reads / matrices))
    moves = share * matrices / per_sm_bandwidth
    waits = _seconds_besides(problem, target, blocks)
    round_ = pow(pow(moves, OVERLAPPED) + pow(waits, OVERLAPPED), 1 / OVERLAPPED)
    partial = share_of_partials(problem, target, under_way)
    idle = blocks.tile * blocks.tiles / lanes_of(problem, blocks.align) - 1
    idle *= IDLE * (blocks.tiles > 2 or peels(problem, blocks))
    converting = CONVERTING * (problem.dtype == "float16")
    besides = idle + max(ENDS * _peels(problem), converting)
    besides += SHARED_SECTORS * shares_sectors(problem, blocks)
    reached = busy * flight * moves / round_ / (1 + partial) / (1 + besides)
    moved = moved_bytes(problem)
    once = ONCE * _waits_across_warps(target, blocks) * _beyond_fit(moved)
    return reached / (1 + once * reached * target.bandwidth / moved)


def _waits_across_warps(target: Target, blocks: Blocks) -> bool:
    return blocks.rows > 1 and blocks.threads > target.warp_size


def share_of_partials(problem: Problem, target: Target, count: int) -> float:
    """Return about how much longer ``count`` partial sums make it, of the time of transfers."""
    moved = moved_bytes(problem)
    price = PARTIAL if moved > target.l2_bytes else PARTIAL_CACHED
    return price * 8 * (1 + has_mean(problem)) * count * problem.columns / moved


def _seconds_besides(problem: Problem, target: Target, blocks: Blocks) -> float:
    """Return how long a round takes a program without its transfers."""
    warps = blocks.per_sm * (blocks.threads // target.warp_size)
    elements = blocks.rows * lanes_of(problem, blocks.align) / blocks.threads
    work = elements * (warps * ELEMENT + SERIAL) * (1 + MEAN_WORK * has_mean(problem))
    waits = WAIT + WIDTH * blocks.threads / 256
    return work + waits + BARRIER * (blocks.threads > target.warp_size)


def candidates(problem: Problem, target: Target) -> Iterator[Blocks]:
    """Yield every way to cut the problem into persistent programs that fit the target."""
    wide = vector(problem)
    every = (32, 64, 128, 256, 512)
    for align, threads in product(alignments(problem), every):
        if threads < target.warp_size:
            continue
        lanes = lanes_of(problem, align)
        several = (2, 4, 8, 16) if lanes < SHORT * wide else ()
        for tile, rows in ((threads * wide // r, r) for r in (1, *several)):
            tiles = -(-lanes // tile)
            if tile >= LINE and tiles <= MOST_TILES:
                blocks = Blocks("fused", threads, rows, tile, align, tiles)
                yield from _resident(problem, target, blocks)


def _resident(problem: Problem, target: Target, blocks: Blocks) -> Iterator[Blocks]:
    """Yield the blocks with each number of programs per multiprocessor, with as many stages as
    fit."""
    done = 0
    for stages in (3, 2, 1):
        staged = replace(blocks, stages=stages)
        most = _most_per_sm(problem, target, staged)
        for per_sm in range(done + 1, most + 1):
            yield replace(staged, per_sm=per_sm)
        done = max(done, most)


def say_reached(blocks: Blocks, reached: float) -> str:
    """Return why the blocks were chosen."""
    what = "blocks" if blocks.variant == "cluster" else "programs"
    return (
        f"{blocks.per_sm} {what} of {blocks.threads} threads per multiprocessor, "
        f"{blocks.parts} for each row: about {reached:.0%} of the bandwidth"
    )


def estimate_seconds(problem: Problem, target: Target, reached: float, launches: int = 0) -> float:
    """Return about how long it takes to move all matrices at this share of the bandwidth;
    ``launches``: how many launches to add, as far as the share does not include them."""
    moved = moved_bytes(problem)
    seconds = moved / target.bandwidth / max(reached, 1e-3)
    return seconds + launches * LAUNCH * _beyond_fit(moved)


def moved_bytes(problem: Problem) -> int:
    """Return the bytes of all matrices that are read and written."""
    return (inputs_of(problem) + 1) * matrix_bytes(problem)


def _beyond_fit(moved: int) -> float:
    """Return the share of fixed costs that the fitted constants do not include: nearly all in tiny
    problems, and none from ``FITTED_BYTES`` on."""
    return max(0.0, 1 - moved / FITTED_BYTES)


def halves(problem: Problem) -> int:
    """Return the elements of a word: two of half precision where all rows can be read 16 bytes
    wide."""
    return 2 if takes_vectors(problem) and ITEM_BYTES[problem.dtype] == 2 else 1


def persistent(
    problem: Problem, target: Target, blocks: Blocks, given: Mapping[str, bool]
) -> KernelLaunch:
    """Return the launch of persistent programs; ``given`` says which arguments are there."""
    count = groups(problem, target, blocks)
    made = step(
        problem, target, blocks, "gradient_rows", (count, 1, 1), *names(given),
        COLUMNS=problem.columns, STRIDE=problem.stride, GROUPS=count,
        TILE=blocks.tile, TILES=blocks.tiles, ROWS=blocks.rows,
        SPACING=spacing_of(problem, blocks.align), VECTOR=vector(problem), ALIGN=blocks.align,
        PEEL=peels(problem, blocks), HALVES=halves(problem), STAGES=blocks.stages,
        RESIDUAL=has_residual(problem), MEAN=has_mean(problem),
        OPAQUE=target.vendor == "nvidia" and ITEM_BYTES[problem.dtype] == 2,
        OVERLAP=target.overlaps_launches, READ=blocks.read, WRITE=blocks.write,
    )  # fmt: skip
    if target.vendor == "nvidia":
        made = replace(made, maxnreg=most_registers(target, blocks))
    return made
