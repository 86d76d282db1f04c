"""Chooses blocks for rows that are read forward, or for a variant that was asked for. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import gcd, inf

from perfcli.errors import PerfcliError
from perfcli.model import Problem, Target

from .._elements import (
    ITEM_BYTES,
    MORE_REGISTERS,
    VECTOR_BYTES,
    matrix_bytes,
    next_power_of_2,
    row_bytes,
    vector,
)
from .._eviction import LAST, policies, sizes_of_l2
from . import cluster_plan
from .blocks import (
    PAST_L1,
    TILED,
    Blocks,
    _chunk_columns,
    _peels,
    _round_up,
    _rows_are_aligned,
    family,
    has_mean,
    has_residual,
    padded_columns,
    registers,
)

KIB = 1024


@dataclass(frozen=True, slots=True)
class _Entry:
    """Says with which blocks rows of up to ``row_bytes`` are computed."""

    row_bytes: int
    blocks: Blocks
    source: str


FULL_TILE: tuple[_Entry, ...] = (
    _Entry(1 * KIB, Blocks("full-tile", threads=64, rows=4), "32768 × 512: 99.1 %"),
    _Entry(2 * KIB, Blocks("full-tile", threads=64), "32768 × 1024: 99.3 %"),
    _Entry(4 * KIB, Blocks("full-tile", threads=128, read=LAST), "32768 × 2048: 101.8 %"),
    _Entry(8 * KIB, Blocks("full-tile", threads=256, rows=2, read=LAST), "32768 × 4096: 101.3 %"),
)
"""Blocks of that variant where it is asked for."""
RESIDUAL: tuple[_Entry, ...] = (
    _Entry(4 * KIB, Blocks("full-tile", threads=256, read=LAST), "32768 × 2048: 100.8 %"),
    _Entry(16 * KIB, Blocks("full-tile", threads=512, read=LAST), "32768 × 8192: 101.3 %"),
    _Entry(
        32 * KIB,
        Blocks("register-tiled", threads=1024, read=LAST),
        "as without a residual: 32768 × 16384: 101.7 %",
    ),
    _Entry(
        64 * KIB,
        Blocks("register-tiled", threads=512, tile=8192, read=LAST),
        "as without a residual: 16384 × 32768: 100.8 %",
    ),
)
"""A second input needs registers of its own: at 65536 columns 1024 threads spill 22 words."""
LEAST_FILLED, OF_WIDEST = 0.8, 0.9
"""The share of a block's lanes that have a column, below which smaller blocks are faster where rows
start between multiples of 16 bytes, and that of blocks of 1024 threads (rmsnorm-residual 14223 ×
9437 bfloat16 in two tiles of these: 82 %; 9309 × 14419: 94 %, and 97 in eight of 256)."""


def _part(tiles: int, most_registers: int) -> Blocks:
    """Return blocks that keep so many vectors of 16 bytes per thread of a long row."""
    return Blocks("cooperative", 128, tiles=tiles, most_registers=most_registers)


_OF_TWELVE = {_part(9, 72): 1.0, _part(10, 80): 0.985, _part(12, 96): 0.97}
PARTS = {_part(8, 64): 1.0, **_OF_TWELVE}
"""Blocks that keep parts of long rows, with as many registers as ptxas needs without spilling
(where rows start between multiples of 16 bytes, it spills up to 14 bytes), and how fast they are
relative to each other where rows fill them, in 15 problems of 19220 to 261648 columns. Blocks of
256 threads are 4 to 10 percent slower, and of 64 threads as fast (H200, triton 3.6,
2026-11-28)."""
SHIFTED_PARTS = {_part(8, 80): 0.99, **_OF_TWELVE}
"""The same of rows with a mean that start between multiples of 16 bytes (layernorm 3766 × 35642
bfloat16: 84 % with 8 vectors in 64 registers, 90 with 9, 88 with 10 or 12; 968 × 138775: 83 with 8
in 64 registers, 86 with 8 in 80)."""
PARTS_WITH_RESIDUAL = {
    _part(7, 96): 1.0,
    _part(6, 88): 0.99,
    _part(8, 104): 0.985,
    _part(5, 80): 0.985,
    _part(4, 72): 0.985,
}
"""The same of rows and their residuals, all of which are loaded before any is added (layernorm
2234 × 60094 bfloat16: 87 % with 6 vectors in 80 registers, 93 with 6 in 88 or 7 in 96; 968 ×
138775: 86 with 8 in 96 registers, 91 with 8 in 112, 92 with 7 in 96; H200, 2026-11-29)."""
FEW = Blocks("cooperative", threads=256)
"""Blocks of a few long rows (64 × 131072: 71.7 %)."""
FEW_PART_BYTES = 32 * KIB
"""What each of them keeps of a row at most."""
LEAST_PART_BYTES = 16 * KIB

ONE_BLOCK_BYTES = 64 * KIB
"""Row bytes beyond which each of a few rows has several blocks."""
PAST_L1_FROM = 8 * KIB
"""Row bytes: of shorter rows, L1 holds weights for all ways in which they start."""
CLUSTER_FROM, SHIFTED_FROM, WIDEST_FROM = 32 * KIB, 11 * KIB, 112 * KIB + 1
"""Row bytes from which rows are cut among clusters, which keep weights, though one block could keep
them: those of layer norm and those of RMS norm that start between multiples of 16 bytes, without a
residual; those of layer norm that start so, whose weights take longest from L2; and those of RMS
norm that take more than seven tiles of 1024 threads (H200, 2026-11-29, bfloat16, percent of a copy,
one block and a cluster: layernorm 8192 × 28672 99.3 and 99.7, with a residual 97.1 and 100.4; 12000
× 11003 with a residual 99.5 and 97.7; rmsnorm 6710 × 20003 97.7 and 99.0, 9309 × 14419 99.7 and
98.5; layernorm 23000 × 5835 95.8 and 97.9, 26000 × 5163 96.1 and 95.2, 12000 × 5593 float32 97.2
and 98.3; rmsnorm 2247 × 59752 in one block 93.3, 2410 × 55711 in a cluster 100.4)."""
BLOCKS_PER_SM = 2
"""Fewer blocks than this per multiprocessor leave some of its bandwidth unused."""
MOST_PARTS = 1024
SHORT_ELEMENTS = 1024
"""Padded columns up to which a block takes several rows: a multiprocessor starts blocks too slowly
for one of each row (16384 × 256 bfloat16: 11.4 against 4.1 µs; 262144 × 512: 83 against 104 %)."""
SHORT_SHARE = 32
"""Elements of each of its threads, of all its rows."""
BUSY_BLOCKS = 12
"""Blocks per multiprocessor from which more rows to a block are better than more blocks."""
SMALL_BYTES, UNSHIFTED_BYTES = 8 << 20, 2 << 20
"""Bytes of a matrix up to which time is what a row waits for rather than what memory moves; and of
rows that start between multiples of 16 bytes, for each byte of the widest loads that all of them
allow, up to which a launch that shifts the weights costs more than narrow loads do (H200,
2026-11-29: rmsnorm 374 × 700 bfloat16 4.0 instead of 5.5 µs, layernorm 838 × 5002 9.8 instead of
16.6)."""
MOST_NARROW = 12
"""Narrow loads of a thread, beyond which a few long rows have several blocks each, and these load
them in vectors if they would need more, too."""
SMALL_TILES = 5
SMALL_SHARE, ODD_SHARE = 0.3, 0.05
"""Tiles of a row in a small problem, at most; and the share of the device's threads up to which
rows take more of them, also where they start between multiples of 16 bytes (``ODD_SHARE``): of 77
problems of 0.5 to 8 MiB, what is chosen is 2 percent slower on average than the fastest of 15 to 43
ways, and 11 at most."""
TILE_ELEMENTS = 8
"""Elements per thread of a tile: one 16-byte load of half precision, two of fp32 (with one, ptxas
12.8 spills two words of 8192 columns)."""


def _entry(table: tuple[_Entry, ...], problem: Problem) -> _Entry | None:
    """Return the first whose rows are long enough; None past the last."""
    return next((e for e in table if row_bytes(problem) <= e.row_bytes), None)


def _describe_entry(found: _Entry) -> str:
    return f"rows up to {found.row_bytes // KIB} KiB: {found.source}"


def _fit(problem: Problem, blocks: Blocks) -> Blocks:
    """Return the blocks with tiles of eight elements per thread, and no more threads than wide
    loads."""
    if blocks.variant not in TILED:
        loads = blocks.rows * padded_columns(problem) // vector(problem)
        tile = min(blocks.tile, padded_columns(problem))
        return replace(blocks, threads=min(blocks.threads, max(32, loads)), tile=tile)
    share = _chunk_columns(problem, blocks.parts)
    threads = min(blocks.threads, max(32, next_power_of_2(-(-share // TILE_ELEMENTS))))
    tile = blocks.tile or threads * TILE_ELEMENTS
    return replace(blocks, threads=threads, tile=tile, tiles=-(-share // tile))


def _forward_choice(problem: Problem, target: Target, clusters: bool = True) -> tuple[Blocks, str]:
    """Return blocks for a problem, and why these; without ``clusters``, such as need none."""
    blocks, why = _forward_blocks(problem, target, clusters)
    return _with_policies(problem, target, blocks), why


def _with_policies(problem: Problem, target: Target, blocks: Blocks) -> Blocks:
    """Return the blocks with what caches are to keep, if L2 does not hold the matrices.

    Inputs of large problems are read as if they were needed again, and outputs written as if they
    were not, which is worth up to 4 points of a copy (H200, 2026-11-29, bfloat16, percent of a
    copy: rmsnorm 32768 × 4096 100 and 102, 12000 × 11003 97.5 and 98.9, with a residual 97 and 101,
    layernorm 8192 × 16384 95.5 and 96.7; by clusters that keep weights, 968 × 138775 94 and 96).
    There are two exceptions, both without a residual and without clusters. Parts of rows are read
    as usual (layernorm 968 × 138775 87 instead of 86). Rows of layer norm that start between
    multiples of 16 bytes take their weights from L2 in turn with themselves: from
    ``PAST_L1_FROM`` bytes on they are read past L1, which then keeps weights (12000 × 11003 94
    instead of 93, 14223 × 9437 94.3 instead of 93.1), and shorter ones as usual.
    """
    matrices = 2 * (1 + has_residual(problem))
    cluster = blocks.variant == "cluster"
    if not (cluster or blocks.variant in TILED) or sizes_of_l2(problem, target, matrices) <= 1:
        return blocks
    read, write = policies(problem, target, matrices)
    if cluster:
        return replace(blocks, read=read, write=write)
    if not has_residual(problem) and blocks.parts > 1:
        read = ""
    elif not has_residual(problem) and has_mean(problem) and _peels(problem):
        long = target.vendor == "nvidia" and row_bytes(problem) >= PAST_L1_FROM
        read = PAST_L1 if long else ""
    return replace(blocks, read=read, write=write)


def _forward_blocks(problem: Problem, target: Target, clusters: bool) -> tuple[Blocks, str]:
    if (short := _short(problem, target)) is not None:
        return short, f"short rows, {short.rows} to a block"
    if clusters and _few_rows(problem, target):  # in parts they are as fast if a thread has more
        found = cluster_plan.few(problem, target)
        if found is not None:
            return found, f"few rows, a cluster of {found.parts} blocks for each"
    if (cached := _of_small_problem(problem, target)) is not None:
        if cached.parts > 1:
            return cached, _describe_parts(problem, target, cached)
        return cached, "a small problem: few tiles of each thread"
    return _of_large_problem(problem, target, clusters)


def _of_large_problem(problem: Problem, target: Target, clusters: bool) -> tuple[Blocks, str]:
    """Return blocks for a problem that takes as long as memory moves it."""
    few = _few_rows(problem, target)
    clusters = clusters and not cluster_plan.why_not(problem, target)
    if clusters and not few and row_bytes(problem) >= _clusters_from(problem):
        return _cluster(problem, target)
    if not few and has_residual(problem) and not has_mean(problem):
        found = _with_residual(problem, target)
        if found is not None:
            return found
    elif not few:
        smallest = _smallest(problem, target)
        if smallest is not None:
            return smallest, SMALLEST
    if clusters and not few:
        return _cluster(problem, target)
    blocks = _cooperative(problem, target)
    return blocks, _describe_parts(problem, target, blocks)


def _clusters_from(problem: Problem) -> float:
    """Return the bytes of rows from which on clusters are faster, if one block could keep them."""
    if has_mean(problem):
        shifts = _peels(problem) and not has_residual(problem)
        return SHIFTED_FROM if shifts else CLUSTER_FROM
    if has_residual(problem):
        return inf
    return CLUSTER_FROM if _peels(problem) else WIDEST_FROM


def _cluster(problem: Problem, target: Target) -> tuple[Blocks, str]:
    blocks, reached = cluster_plan.choose(problem, target)
    why = f"a row in {blocks.parts} blocks of {blocks.threads} threads, {blocks.per_sm} of them "
    return blocks, f"{why}on a multiprocessor: about {reached:.0%} of the bandwidth"


def _describe_parts(problem: Problem, target: Target, blocks: Blocks) -> str:
    kind = "few" if _few_rows(problem, target) else "long"
    return f"{kind} rows, {blocks.parts} blocks for each"


SMALLEST = "the smallest blocks that hold a row in few tiles"


def _with_residual(problem: Problem, target: Target) -> tuple[Blocks, str] | None:
    """Return blocks for rows of RMS norm and their residuals; None for longer rows."""
    found = _entry(RESIDUAL, problem)
    if found is None:
        return None
    blocks = found.blocks
    if blocks.variant == "register-tiled" and _peels(problem):
        blocks = replace(blocks, variant="peeled")
    blocks = _fit(problem, blocks)
    least = OF_WIDEST if blocks.threads == 1024 else LEAST_FILLED
    idle = blocks.variant == "peeled" and _share_filled(problem, blocks) < least
    if idle or _is_narrow(problem, target, blocks):
        smallest = _smallest(problem, target)
        if smallest is not None:
            return smallest, SMALLEST
    return blocks, _describe_entry(found)


def _is_narrow(problem: Problem, target: Target, blocks: Blocks) -> bool:
    """Return whether blocks would load rows element by element that ``peeled`` loads 16 bytes wide,
    and more of them than the device has room for at a time: fewer are not worth a launch that
    shifts the weights."""
    many = problem.rows * blocks.threads >= target.sm_count * target.max_threads_per_sm
    return many and blocks.variant == "full-tile" and _peels(problem)


def _short(problem: Problem, target: Target) -> Blocks | None:
    """Return blocks of several rows where there are many short ones; None for all others, and for
    rows that start between multiples of 16 bytes, which only ``peeled`` loads so wide.

    A mean's two reductions wait twice, and rows of SHORT_ELEMENTS that L2 does not hold are better
    off in blocks of their own, but for those of half precision that leave much of a warp's last
    tile empty: two of them share a warp (H200, 2026-11-29: layernorm 236299 × 568 float16 99
    instead of 89 percent of a copy, 250000 × 536 96 instead of 84). Of rows that L2 holds, two or
    more share the fewest threads that keep them (the same day: rmsnorm 2048 × 512 bfloat16 4.4 µs
    instead of 4.9, layernorm 4096 × 1024 8.4 instead of 9.3).
    """
    padded, threads = padded_columns(problem), 64
    blocks = BUSY_BLOCKS * target.sm_count
    beyond = sizes_of_l2(problem, target, 1) > 1
    if padded > SHORT_ELEMENTS or problem.rows < blocks or not _rows_are_aligned(problem):
        return None
    if has_mean(problem) and beyond and padded == SHORT_ELEMENTS:
        tile = target.warp_size * vector(problem)
        filled = problem.columns / _round_up(problem.columns, tile)
        half = ITEM_BYTES[problem.dtype] == 2
        return Blocks("full-tile", 32, rows=2) if half and filled < LEAST_FILLED else None
    if not beyond:
        threads, blocks = max(32, 2 * padded // SHORT_SHARE), blocks // 2
    rows = 1
    while 2 * rows * padded <= SHORT_SHARE * threads and problem.rows >= 2 * rows * blocks:
        rows *= 2
    return Blocks("full-tile", threads, rows=rows)


def _of_small_problem(problem: Problem, target: Target) -> Blocks | None:
    """Return blocks for rows of a small problem, each of which waits for little; None for larger
    problems and longer rows."""
    size = matrix_bytes(problem)
    if size > SMALL_BYTES:
        return None
    wide = gcd(vector(problem), problem.columns, problem.stride) * ITEM_BYTES[problem.dtype]
    odd = problem.rows > 1 and wide < VECTOR_BYTES
    peels = _peels(problem) and (problem.rows == 1 or size > UNSHIFTED_BYTES * wide)
    found = _in_one_block(problem, target, "peeled" if peels else "register-tiled", odd)
    if _few_rows(problem, target):
        if found and row_bytes(problem) > ONE_BLOCK_BYTES:
            found = None
        if odd and not peels and (found is None or _loads(problem, found, wide) > MOST_NARROW):
            parts = _of_few(problem, target, LEAST_PART_BYTES * wide // VECTOR_BYTES)
            narrow = _loads(problem, parts, wide) <= MOST_NARROW
            return replace(parts, narrow=True) if narrow else found
    if found is None or (odd and peels):
        return found
    share = problem.rows * found.threads / (target.sm_count * target.max_threads_per_sm)
    if has_mean(problem) and found.tiles > 3 and share >= SMALL_SHARE:
        return found
    return _early(problem, found, target.registers_per_sm // found.threads)


def _loads(problem: Problem, blocks: Blocks, wide: int) -> int:
    """Return how often a thread loads so many bytes of a row."""
    elements = blocks.tile * blocks.tiles // blocks.threads
    return elements * ITEM_BYTES[problem.dtype] // wide


def _in_one_block(problem: Problem, target: Target, variant: str, odd: bool) -> Blocks | None:
    """Return blocks that keep a row in few tiles of as few threads as make up a share of what the
    device has room for; None if a row is too long."""
    room = target.sm_count * target.max_threads_per_sm
    found = None
    for threads in (32, 64, 128, 256, 512, 1024):
        tile = threads * vector(problem)
        tiles = -(-problem.columns // tile)
        if target.warp_size <= threads <= target.max_threads_per_block and tiles <= SMALL_TILES:
            found = Blocks(variant, threads, tile=tile, tiles=tiles)
            share = problem.rows * threads / room
            if share >= (ODD_SHARE if odd else SMALL_SHARE) or tiles <= 1 + odd:
                break
    return found


def _smallest(problem: Problem, target: Target) -> Blocks | None:
    """Return the smallest blocks that hold a row in few tiles; None for longer rows.

    Many blocks that wait on their own keep more under way than few large ones, the more so where a
    row needs two sums; a thread's tiles and what it needs besides fit 64 registers, those of a
    residual as well, which are on their way at the same time. Threads that most of a row's tiles
    leave idle cost more than larger tiles do (layernorm 127949 × 1049: 76 % in three of 64
    threads, 97 in five of 32; rmsnorm 13772 × 9746: 84 in three of 512, 100 in five of 256). With
    fewer rows than the device has room for, blocks are larger.
    """
    wide, variant = vector(problem), "peeled" if _peels(problem) else "register-tiled"
    room = target.sm_count * target.max_threads_per_sm
    for threads, most_tiles, most_registers in _sizes(problem, problem.rows * 256 < room):
        tiles = -(-problem.columns // (threads * wide))
        few = problem.rows * threads < room
        narrow = few and (tiles > 2 or threads < 128) and threads < 512
        if narrow or tiles > most_tiles:
            continue
        blocks = Blocks(
            variant, threads, tile=threads * wide, tiles=tiles, most_registers=most_registers
        )
        blocks = _with_registers(target, blocks)
        return _early(problem, blocks, most_registers) if few else _two_rows(problem, blocks)
    return None


def _with_registers(target: Target, blocks: Blocks) -> Blocks:
    """Return the blocks with the registers that their threads may have on this target, if they are
    limited: more than for sm_90, unless that leaves a multiprocessor room for one such block."""
    more = blocks.most_registers + MORE_REGISTERS
    if blocks.most_registers == 0 or target.capability == (9, 0):
        return blocks
    if 2 * blocks.threads * more > target.registers_per_sm:
        return blocks
    return replace(blocks, most_registers=more)


def _sizes(problem: Problem, few: bool) -> tuple[tuple[int, int, int], ...]:
    """Return threads of a block, the most tiles that it keeps, and the most registers of a thread
    (0: any), from the smallest blocks on that a row is tried in; ``few``: in one of many threads
    rather than in several blocks.

    A mean waits twice, and rows that start between multiples of 16 bytes find their weights in the
    L2 cache: more tiles of fewer threads are faster then (H200, 2026-11-28, bfloat16, percent of a
    copy: layernorm 14223 × 9437 in five tiles of 256 threads 87, ten of 128 92; 9309 × 14408 in
    four of 512 92, eight of 256 98; layernorm-residual 6984 × 19220 in two blocks 86, ten of 256
    94 to 96; rmsnorm 9309 × 14419 in four of 512 93, eight of 256 97; 2026-11-29: layernorm
    31866 × 4212 in five of 128 96, nine of 64 98; 60760 × 2209 in five of 64 with 96 registers 91,
    with any number 97, 48000 × 2801 in six 94 and 96; 12000 × 11003 in six of 256 88, eleven of 128
    92, with a residual in three of 512 91, six of 256 96; 5752 × 23336 in six of 512 94, twelve of
    256 98). A row of RMS norm that starts at 16 bytes is faster in one block of 512 or 1024 threads
    than in several blocks (5752 × 23336 102 instead of 98.5, 2672 × 50240 102 instead of 99, 2048 ×
    65536 97.6 instead of 96.1).
    """
    mean, peels = has_mean(problem), _peels(problem)
    usual: tuple[tuple[int, int, int], ...]
    if has_residual(problem):
        most = 5 if mean else 4
        usual = (32, 4, 0), (64, most, 0), (128, most, 0), (256, 5, 0)
        if peels and mean and not few:
            return *usual, (256, 6, 80), (512, 4, 64), (256, 10, 112)
        if peels and not mean:
            usual = *usual, (256, 8, 96)
        return *usual, (512, 4, 64), (1024, 4, 64)
    most = 7 if mean or peels else 5
    usual = (32, most, 0), (64, most, 0), (128, most, 0)
    if mean and peels:
        usual = (
            (32, most, 0),
            (64, 6, 0),
            (64, 11, 96),
            (128, most, 0),
            (128, 11, 96),
            (128, 12, 104),
        )
        usual = *usual, (256, 7, 0), (256, 10, 96)
        return usual if not few else (*usual, (512, most, 64))
    if mean:
        return *usual, (128, 10, 96), (256, 7, 0), (256, 12, 96), (512, 7, 64)
    if peels:
        return *usual, (256, 7, 0), (256, 8, 80), (512, 5, 0)
    return *usual, (256, most, 0), (512, most, 0), (512, 8, 64), (1024, 8, 64)


def _two_rows(problem: Problem, blocks: Blocks) -> Blocks:
    """Return the blocks such that they take two rows that lie alike, and so need the same weights,
    where that is faster: where a row's own are most of what it loads, and where a multiprocessor
    starts blocks too slowly for one of each row (rmsnorm 251816 × 533 bfloat16 98 instead of 83 %,
    layernorm 91 instead of 81; layernorm 43338 × 3097 97 instead of 94, 9309 × 14419 88 instead of
    84)."""
    mean = has_mean(problem)
    if blocks.variant != "peeled" or has_residual(problem):
        return blocks
    if mean and blocks.tiles in (7, 8) and blocks.threads > 32:
        return replace(blocks, rows=2, most_registers=128)
    if blocks.threads == 32 and blocks.tiles <= 3 + mean:
        return replace(blocks, rows=2, most_registers=80 if blocks.tiles <= 3 else 96)
    return blocks


def _early(problem: Problem, blocks: Blocks, most_registers: int) -> Blocks:
    """Return the blocks such that they load weights from the start, where registers hold them;
    0: any number of them."""
    early = replace(blocks, early=True)
    return early if not most_registers or registers(problem, early) <= most_registers else blocks


def _few_rows(problem: Problem, target: Target) -> bool:
    return problem.rows < target.sm_count and row_bytes(problem) > 2 * LEAST_PART_BYTES


def _cooperative(problem: Problem, target: Target) -> Blocks:
    """Return at least two programs per row: what its length needs, and more where there are few
    rows."""
    if not _few_rows(problem, target):
        found = [(fill(problem, kept), reached) for kept, reached in parts_of(problem).items()]
        best = max(found, key=lambda each: _share_filled(problem, each[0]) * each[1])[0]
        return _with_registers(target, best)
    return _of_few(problem, target, LEAST_PART_BYTES)


def _of_few(problem: Problem, target: Target, least_bytes: int) -> Blocks:
    """Return blocks for parts of few rows, of so many bytes at least unless there are as many of
    them as the device has room for."""
    parts = max(2, -(-row_bytes(problem) // FEW_PART_BYTES))
    wanted = BLOCKS_PER_SM * target.sm_count
    while (
        problem.rows * parts < wanted
        and row_bytes(problem) // parts > least_bytes
        and parts < MOST_PARTS
    ):
        parts *= 2
    parts = -(-problem.columns // _chunk_columns(problem, parts))  # none without a column
    return _fit(problem, replace(FEW, parts=parts))


def parts_of(problem: Problem) -> Mapping[Blocks, float]:
    """Return the blocks that may keep parts of a row, and how fast they are."""
    if has_residual(problem):
        return PARTS_WITH_RESIDUAL
    return SHIFTED_PARTS if has_mean(problem) and _peels(problem) else PARTS


def fill(problem: Problem, kept: Blocks) -> Blocks:
    """Return the blocks with as many parts as a row needs."""
    tile = kept.threads * vector(problem)
    parts = max(2, -(-problem.columns // (kept.tiles * tile)))
    tiles = -(-_chunk_columns(problem, parts) // tile)
    return replace(kept, tile=tile, tiles=tiles, parts=parts)


def _share_filled(problem: Problem, blocks: Blocks) -> float:
    """Return which share of what blocks can keep are columns of the row."""
    return problem.columns / (blocks.parts * blocks.tiles * blocks.tile)


def _forward_of(problem: Problem, target: Target, variant: str) -> Blocks:
    """Return the blocks of a variant that was asked for by name."""
    if variant == "cooperative":
        return _with_policies(problem, target, _cooperative(problem, target))
    if variant == "cluster":
        if reason := cluster_plan.why_not(problem, target):
            raise PerfcliError(f"{family(problem)}: cluster: {reason}: use cooperative")
        return _with_policies(problem, target, _cluster(problem, target)[0])
    threads = _usual_threads(problem)
    if variant in TILED:
        return _with_policies(problem, target, _fit(problem, Blocks(variant, threads)))
    tile = min(padded_columns(problem), vector(problem) * threads)
    if variant == "two-read":
        return Blocks(variant, min(threads, max(32, tile // vector(problem))), tile=tile, read=LAST)
    if variant == "split":
        tile = min(tile, 256 * vector(problem))
        return Blocks(variant, 256, tile=tile, parts=_split_parts(problem, target))
    found = _entry(FULL_TILE, problem)
    blocks = replace(found.blocks, variant=variant) if found else Blocks(variant, min(threads, 512))
    if variant == "tma":
        stages = 2 if row_bytes(problem) > 32 * KIB else 3
        blocks = replace(blocks, stages=stages, per_sm=2)
    return _fit(problem, blocks)


def _usual_threads(problem: Problem) -> int:
    """Return the threads for a row in one block: 16 to 64 elements of half precision per thread."""
    size = row_bytes(problem)
    return next(
        t for t, most in ((128, 8), (256, 16), (512, 64), (1024, size)) if size <= most * KIB
    )


def _split_parts(problem: Problem, target: Target) -> int:
    """Return chunks of a split row: enough for eight blocks per multiprocessor, none under 4
    KiB."""
    wanted = -(-8 * target.sm_count // max(problem.rows, 1))
    most = max(1, -(-row_bytes(problem) // (4 * KIB)))
    return max(min(2, most), min(wanted, most, MOST_PARTS))
