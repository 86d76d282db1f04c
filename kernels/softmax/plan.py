"""Plans which kernels compute a problem: what a row takes, against what the device has of it.

A row is read once where it fits into the registers of one block or several, as long as enough
bytes are under way; or twice, if L2 still holds it the second time.
"""

from __future__ import annotations

from dataclasses import replace

from perfcli import units
from perfcli.errors import PerfcliError
from perfcli.model import LaunchPlan, Problem, Target

from .._clusters import REGISTER_STEP, share_registers
from .._elements import ITEM_BYTES, MORE_REGISTERS, VECTOR_BYTES, matrix_bytes, row_bytes, vector
from . import cluster_plan
from .choice import (
    BACKWARD,
    KIB,
    LOSS,
    LOSS_GRADIENT,
    PARTS_PER_BLOCK,
    STATISTIC_BYTES,
    TELLING,
    WORD_BYTES,
    Choice,
    _chunks_of,
    _padded_bytes,
    _padded_count,
    inputs_of,
    is_aligned,
    is_congruent,
    policies,
)
from .launches import BACKWARD_LAUNCHES, FORWARD_LAUNCHES, grid_of_gradient

LATENCY = 0.8e-6
"""Seconds from a load to its data, in memory that is busy."""
OVERLAP = 2
"""As many bytes as the memory delivers in that time are under way twice: a block that reduces or
writes loads nothing."""
FREE_REGISTERS, VECTOR_REGISTERS = 40, 5
"""Registers of a thread apart from what it keeps, and for each vector that it keeps; with fewer,
launches spill (Triton 3.6, sm_90)."""
RESIDENT = 3
"""Blocks per multiprocessor from which more of them help no more: while one writes, two load."""
MOST_VECTORS = 16
"""The most vectors that a thread keeps, of all inputs."""
LOSS_FREE_REGISTERS, LOSS_VECTOR_REGISTERS = 16, 4
"""The same of cross-entropy, which does not use a second time what it keeps. ptxas takes what it is
given: with 128 registers for 15 vectors, a multiprocessor has 4 blocks of 4 warps, with 80 it has
6."""
FEW_VECTORS, FEW_WITHIN_WARPS, FEW_THREADS = 10, 8, 256
"""Vectors of each thread beyond which cross-entropy, which waits for nothing it writes, takes more
threads, and the most threads that it takes for that: its rows come twice as fast as softmax's, and
every thread more costs instructions (H200, 2026-11-29, percent of a copy: 54605 × 2458 bfloat16
with 5 vectors of each of 64 threads, which spilled, 89, with 10 of 32 96; 10468 × 12822 with 13 of
128 96, with 7 of 256 98)."""
ALONE_FROM = 1.5
"""Rows of a warp are alone in their blocks where as many blocks as a multiprocessor takes have so
many times under way what memory needs (cross-entropy 52925 × 2536 float16 98 instead of 97 %, 77718
× 1727 bfloat16 97 instead of 96, but 123362 × 1088 float16 88 instead of 97)."""
SHORTEST = 512
"""Row bytes below which a warp would have no vector for each lane: blocks take padded rows."""
SHORT = 2 * KIB
"""Padded row bytes up to which blocks of padded rows take several: of shorter blocks, a
multiprocessor holds too few."""
SHARING_THREADS = 128
"""Threads up to which rows share a block: a multiprocessor holds too few shorter blocks, and starts
them too slowly."""
LOSS_PART_VECTORS = 6
"""Vectors of each thread of a part of cross-entropy (823 × 163272 bfloat16 95 instead of 93 % with
16, 332 × 202368 float32 97 instead of 96, H200, 2026-11-29)."""
LOSS_TILES, LOSS_THREADS = 4, 128
"""Vectors, at most, and threads of a part of the gradient of cross-entropy."""
L2_SHARE = 0.28
"""The share of L2 that rows under way, one per multiprocessor, may take where they are read again:
97 % of a copy at rows of 128 KiB (H200: 0.28) but 84 % at 256 KiB (0.56)."""
SPLIT_FROM = 32 * KIB
"""Row bytes from which few rows are shared by many blocks."""
FEW_PER_SM = 3
"""Rows for each multiprocessor up to which they are few enough for clusters."""
FEW_CLUSTERS_FROM = 16 * KIB
"""The same where blocks are in clusters, but for cross-entropy: 4 × 8192 bfloat16 3.9 instead of
4.5 µs, 32 × 16384 4.5 instead of 8.1 (`split`), 300 × 16384 8.2 instead of 9.6 (H200,
2026-11-29)."""
FEW_COOPERATIVE_FROM = 4_000_000
"""Bytes of a few rows from which blocks that keep parts are better than `split`, which reads twice:
9.3 against 10.3 µs at 2 × 1048576 bf16, 10.4 against 13.8 at 3 × 700001 fp32, but 10.0 against 9.5
at 1 × 1048589 bf16 (the same day)."""
MOST_PARTS = 1024
"""The most parts of a row: so many words a block looks at."""
STREAM_WARPS, STREAM_BLOCKS = 4, 4
"""Warps of a block that keeps parts, and the most blocks per multiprocessor of a streamed grid:
half of what their threads keep is one part, half the next."""
LEAST_STREAM_BLOCKS = 3
"""Of the longest parts, in the registers of the devices that are known."""
STREAM_REGISTERS = 4
"""Registers for each vector that a thread of a streamed grid keeps: as many as it has words."""
STEP_TILES = 6.0
"""What a step of a multiprocessor's blocks costs beyond their tiles, in tiles: telling, and
waiting."""
CHUNK_TILES = 2
"""Tiles of a chunk of `split`, at most, unless there would be too many chunks."""


def choose(problem: Problem, target: Target, variant: str) -> Choice:
    """Return how the variant computes this problem on this device."""
    return _CHOICES[variant](problem, target)


def _threads(target: Target, tile_bytes: int, vectors: int) -> int:
    """Return threads for a tile: as many as load it with so many vectors each, within limits."""
    wanted = tile_bytes // (VECTOR_BYTES * vectors)
    return max(32, min(wanted, target.max_threads_per_block))


def _warps(target: Target, threads: int) -> int:
    return max(1, threads // target.warp_size)


def _cached(problem: Problem, target: Target) -> Choice:
    row = _padded_bytes(problem)
    tile = row if row > SHORT else max(SHORT, 2 * row) * inputs_of(problem)
    far = max(1, 2**31 // max(problem.stride, 1))  # offsets within a block have 32 bits
    tile = min(tile, row * (1 << far.bit_length() - 1))
    found = _lanes(problem, target) if row > SHORT else None
    threads = found or _threads(target, tile, 2 // inputs_of(problem))
    vectors = tile // VECTOR_BYTES // threads * inputs_of(problem)
    recompute = "no"
    if vectors > MOST_VECTORS // 2 and problem.dtype != "float32":
        recompute = "opaque" if target.vendor == "nvidia" else "yes"
    return Choice(
        "cached",
        _warps(target, threads),
        tile // ITEM_BYTES[problem.dtype],
        rows=tile // row,
        recompute=recompute,
        why=f"rows of {row} bytes, {tile // row} to a block",
    )


def _under_way(target: Target) -> float:
    """Return the bytes that a multiprocessor has to have under way."""
    return OVERLAP * LATENCY * target.bandwidth / target.sm_count


def keep_rows(problem: Problem, target: Target, threads: int) -> Choice:
    """Return rows that so many threads keep, several in a block where they are few."""
    rows = 1 if _are_alone(problem, target, threads) else max(1, SHARING_THREADS // threads)
    tiles = -(-_vectors(problem) // threads)
    blocks = _blocks(problem, target, threads * rows, tiles)
    keep, drop = policies(problem, target)
    return Choice(
        "tiled",
        _warps(target, threads * rows),
        threads * rows * vector(problem),
        rows=rows,
        tiles=tiles,
        maxnreg=share_registers(target, max(1, blocks) * threads * rows)
        if target.vendor == "nvidia"
        else None,
        assembly=target.vendor == "nvidia",
        keep=keep,
        drop=drop,
        why=f"a row in {units.plural(tiles, 'vector')} of each of {threads} threads",
    )


def _are_alone(problem: Problem, target: Target, threads: int) -> bool:
    """Return whether rows of cross-entropy, which a warp keeps, have blocks of their own."""
    most = target.max_blocks_per_sm * row_bytes(problem)
    enough = most >= ALONE_FROM * _under_way(target)
    return problem.operation == LOSS and threads == target.warp_size and enough


def _lanes(problem: Problem, target: Target) -> int | None:
    """Return threads that keep a row; None where there is room for less than two such rows on a
    multiprocessor."""
    inputs, vectors = inputs_of(problem), _vectors(problem)
    found = {}
    for threads in (16, 32, 64, 128, 256, 512, 1024):
        tiles = -(-vectors // threads)
        blocks = _blocks(problem, target, threads, tiles)
        if (
            tiles * inputs <= MOST_VECTORS
            and blocks >= 2
            and threads <= target.max_threads_per_block
            and threads >= (target.warp_size if problem.operation != LOSS else 2 * vector(problem))
        ):
            found[threads] = tiles, blocks
    if not found:
        return None
    if problem.rows <= target.sm_count:  # nothing else hides what a row waits for
        return max((t for t, (tiles, _) in found.items() if tiles >= 2), default=min(found))
    if problem.operation == LOSS:
        warp = target.warp_size
        most = {
            t: FEW_VECTORS if t >= warp else FEW_WITHIN_WARPS for t in found if t <= FEW_THREADS
        }
        few = [t for t, most_tiles in most.items() if found[t][0] <= most_tiles]
        return min(few or found)

    def rank(threads: int) -> tuple[float, int, int, int]:
        """Put those first that have enough bytes under way, then those of which enough are there,
        then those whose tiles are the fullest."""
        tiles, blocks = found[threads]
        enough = min(blocks * vectors * VECTOR_BYTES * inputs / _under_way(target), 1.0)
        return enough, min(blocks, RESIDENT), round(8 * vectors / (tiles * threads)), threads

    return max(found, key=rank)


def _vectors(problem: Problem) -> int:
    return max(1, -(-row_bytes(problem) // VECTOR_BYTES))


def _blocks(problem: Problem, target: Target, threads: int, tiles: int) -> int:
    """Return blocks per multiprocessor whose threads keep so many vectors of each input."""
    registers = FREE_REGISTERS + VECTOR_REGISTERS * tiles * inputs_of(problem)
    if problem.operation == LOSS:
        registers = LOSS_FREE_REGISTERS + LOSS_VECTOR_REGISTERS * tiles
        registers += -registers % REGISTER_STEP  # which are fewer than needed if rounded down
    registers += MORE_REGISTERS * (target.capability >= (10, 0))
    by_registers = int(target.registers_per_sm // (threads * registers))
    return min(by_registers, target.max_threads_per_sm // threads, target.max_blocks_per_sm)


def _tiled(problem: Problem, target: Target) -> Choice:
    if problem.operation == LOSS_GRADIENT:
        return keep_parts(problem, target, LOSS_THREADS, _loss_tiles(problem, target))
    threads = _lanes(problem, target)
    if threads is None:
        raise PerfcliError(
            f"tiled keeps a row in one block, {problem.columns} {problem.dtype} are too many: use "
            "online, or streamed"
        )
    return keep_rows(problem, target, threads)


def _loss_tiles(problem: Problem, target: Target) -> int:
    """Return as many vectors of each thread, up to ``LOSS_TILES``, as leave no multiprocessor idle;
    one where all others do."""

    def blocks(tiles: int) -> int:
        return grid_of_gradient(problem, keep_parts(problem, target, LOSS_THREADS, tiles))[0]

    busy = (tiles for tiles in range(LOSS_TILES, 1, -1) if blocks(tiles) >= target.sm_count)
    return next(busy, 1)


def _write_parts(parts: int, tiles: int) -> str:
    return f"{units.plural(parts, 'part')} of a row, {units.plural(tiles, 'vector')} of each thread"


def keep_parts(problem: Problem, target: Target, threads: int, most: int) -> Choice:
    """Return parts of rows, of at most so many vectors of each thread, or whole rows if those of
    one warp are enough."""
    vectors = _vectors(problem)
    if vectors <= target.warp_size * most:
        return keep_rows(problem, target, target.warp_size)
    parts = -(-vectors // (threads * most))
    tiles = -(-vectors // (threads * parts))
    keep, drop = policies(problem, target)
    return Choice(
        "tiled",
        _warps(target, threads),
        threads * vector(problem),
        chunk=threads * vector(problem) * tiles,
        tiles=tiles,
        assembly=target.vendor == "nvidia",
        keep=keep,
        drop=drop,
        why=_write_parts(parts, tiles),
    )


def _walk(problem: Problem, target: Target, variant: str) -> Choice:
    """Return how one block reads a row twice: in two steps or more, so that what it reads first
    is read again soon; with so many threads that few other rows are under way meanwhile."""
    row = max(row_bytes(problem) if variant == "peeled" else _padded_bytes(problem), 1 * KIB)
    loss = problem.operation == LOSS
    half = 1 << (row // 2).bit_length() - 1
    few = 1 if problem.operation in BACKWARD else 4
    threads = _threads(target, min(half, 8 * KIB) if loss else half, few)
    vectors = max(1, min(half // (VECTOR_BYTES * threads), 2 * few if few > 1 else 4))
    return Choice(
        variant,
        _warps(target, threads),
        threads * vectors * vector(problem),
        keep="" if loss else "evict_last",
        drop="" if loss else "evict_first",
        why=f"rows of {row_bytes(problem)} bytes, read again from L2",
    )


def _split(problem: Problem, target: Target) -> Choice:
    if problem.operation == LOSS:
        return _balanced_parts(problem, target)
    gradient = problem.operation == LOSS_GRADIENT
    row = _padded_bytes(problem)
    step = 4 * KIB if gradient else 8 * KIB  # by 8 KiB of forward rows, 16 warps; else 4 and 8
    step = max(32 * VECTOR_BYTES, min(step, row))
    vectors = 1 if problem.operation not in BACKWARD else 2
    threads = _threads(target, step, vectors)
    tile = threads * vectors * vector(problem)
    count = -(-problem.columns // (CHUNK_TILES * tile))
    fewest = -(-problem.columns // (tile * MOST_CHUNKS))
    tiles = max(-(-problem.columns // (tile * count)), fewest)
    return Choice(
        "split",
        _warps(target, threads),
        tile,
        chunk=tile * tiles,
        keep="" if gradient else "evict_last",
        drop="" if gradient else "evict_first",
        why=f"{count} chunks of a row",
    )


def _balanced_parts(problem: Problem, target: Target) -> Choice:
    """Return parts that need not tell one another anything."""
    threads = STREAM_WARPS * 32
    tiles_of_row = -(-_vectors(problem) // threads)
    most = LOSS_PART_VECTORS
    if tiles_of_row > most * PARTS_PER_BLOCK:  # all parts of a row are added up by one block
        most = MOST_VECTORS
    count = -(-tiles_of_row // most)
    tiles = -(-tiles_of_row // count)
    keep, _ = policies(problem, target)
    return Choice(
        "split",
        _warps(target, threads),
        threads * vector(problem),
        chunk=threads * vector(problem) * tiles,
        assembly=target.vendor == "nvidia",
        overlap=target.overlaps_launches,
        keep=keep,
        why=_write_parts(-(-tiles_of_row // tiles), tiles),
    )


def _shared(problem: Problem, target: Target, variant: str) -> Choice:
    """Return parts of rows. They are as long as registers allow, or as little shorter as makes
    the steps of all programs the fewest tiles in all."""
    threads = STREAM_WARPS * 32
    tiles_of_row = max(1, -(-row_bytes(problem) // (VECTOR_BYTES * threads)))
    most = MOST_VECTORS // inputs_of(problem)

    def blocks(tiles: int) -> int:
        """Return blocks per multiprocessor, whose threads keep two parts."""
        registers = FREE_REGISTERS + STREAM_REGISTERS * 2 * tiles * inputs_of(problem)
        return max(1, min(target.registers_per_sm // (threads * registers), STREAM_BLOCKS))

    def cost(tiles: int) -> float:
        """Return tiles that a multiprocessor has to do, one after the other."""
        parts = -(-tiles_of_row // tiles)
        if parts > MOST_PARTS:
            return float("inf")
        steps = -(-problem.rows * parts // (blocks(tiles) * target.sm_count))
        return steps * (blocks(tiles) * tiles + STEP_TILES)

    tiles = min(range(most, 0, -1), key=cost)
    streamed = variant == "streamed"
    return Choice(
        variant,
        _warps(target, threads),
        threads * vector(problem),
        chunk=threads * vector(problem) * tiles,
        programs=blocks(tiles) * target.sm_count if streamed else 0,
        maxnreg=share_registers(target, blocks(tiles) * threads)
        if streamed and target.vendor == "nvidia"
        else None,
        assembly=target.vendor == "nvidia",
        overlap=target.overlaps_launches,
        keep="evict_last" if streamed else "",
        drop="evict_first" if streamed else "",
        why=_write_parts(-(-tiles_of_row // tiles), tiles)
        + (f", {blocks(tiles)} blocks per multiprocessor" if streamed else ""),
    )


def _three_pass(problem: Problem, target: Target) -> Choice:
    threads = _threads(target, min(8 * KIB, max(_padded_bytes(problem), 512)), 1)
    return Choice("three-pass", _warps(target, threads), threads * vector(problem), why="baseline")


_CHOICES = {
    "cached": _cached,
    "tiled": _tiled,
    "online": lambda problem, target: _walk(problem, target, "online"),
    "peeled": lambda problem, target: _walk(problem, target, "peeled"),
    "split": _split,
    "cooperative": lambda problem, target: _shared(problem, target, "cooperative"),
    "streamed": lambda problem, target: _shared(problem, target, "streamed"),
    "cluster": cluster_plan.choose,
    "three-pass": _three_pass,
}


def fastest(problem: Problem, target: Target) -> str:
    """Return the variant for a problem of this shape."""
    return "cluster" if _takes_clusters(problem, target) else _without_clusters(problem, target)


def _takes_clusters(problem: Problem, target: Target) -> bool:
    """Return whether each row has a cluster: it is too long for one block, or there are too few
    rows for a block each."""
    few = problem.rows <= FEW_PER_SM * target.sm_count
    least = SPLIT_FROM if problem.operation == LOSS else FEW_CLUSTERS_FROM
    long = row_bytes(problem) >= least and (few or _lanes(problem, target) is None)
    return long and not cluster_plan.why_not(problem, target)


def _without_clusters(problem: Problem, target: Target) -> str:
    """Return the variant where there are no clusters, or none is needed."""
    if problem.operation == LOSS_GRADIENT:
        return "tiled" if is_congruent(problem) else "split"
    row = row_bytes(problem)
    if row < SHORTEST:
        return "cached"
    if not is_congruent(problem):
        return "online"
    loss, shareable = problem.operation == LOSS, not _not_shared(problem)
    if row >= SPLIT_FROM and problem.rows <= target.sm_count // 2:
        many_bytes = matrix_bytes(problem) >= FEW_COOPERATIVE_FROM
        return "cooperative" if many_bytes and shareable and not loss else "split"
    if _lanes(problem, target) is not None:
        return "tiled"
    if loss:
        return "split"
    if is_aligned(problem) and _is_read_again(problem, target):
        return "online"
    if shareable:
        return "cooperative" if _not_streamed(problem, target) else "streamed"
    return "online" if is_aligned(problem) else "peeled"


def _is_read_again(problem: Problem, target: Target) -> bool:
    """Return whether L2 holds whole tiles until they are read again."""
    under_way = inputs_of(problem) * row_bytes(problem) * target.sm_count
    whole = problem.columns % _walk(problem, target, "online").tile == 0
    return whole and under_way <= L2_SHARE * target.l2_bytes


def _part_bytes(problem: Problem) -> int:
    """Return the most bytes of a row, of one input, that a block keeps as a part."""
    return STREAM_WARPS * 32 * VECTOR_BYTES * (MOST_VECTORS // inputs_of(problem))


def _not_shared(problem: Problem) -> str:
    """Return why blocks cannot share a row's parts."""
    if not is_congruent(problem):
        return (
            f"rows {problem.stride} apart are not aligned as those of the output, which are "
            f"{problem.columns} apart"
        )
    if row_bytes(problem) > MOST_PARTS * _part_bytes(problem):
        return f"a row of {problem.columns} {problem.dtype} takes more than {MOST_PARTS} blocks"
    return ""


def _not_streamed(problem: Problem, target: Target) -> str:
    """Return why a persistent grid cannot do it."""
    at_once = LEAST_STREAM_BLOCKS * target.sm_count
    if row_bytes(problem) > at_once * _part_bytes(problem):
        return (
            f"a row of {problem.columns} takes more than the {at_once} blocks there are at a time"
        )
    return ""


def possible(problem: Problem, target: Target, variant: str) -> tuple[str, str]:
    """Return the variant to use, and why it is not the one asked for.

    Raises:
        PerfcliError: the rows do not fit into a block's registers.
    """
    if variant == "cached":
        most = target.max_threads_per_block * CACHED_BYTES_PER_THREAD[inputs_of(problem)]
        if _padded_bytes(problem) > most:
            raise PerfcliError(
                f"cached holds rows of up to {most // ITEM_BYTES[problem.dtype]} {problem.dtype} "
                f"in registers, found {problem.columns}: use online, or split"
            )
    if variant in ("peeled", "tiled") and not is_congruent(problem):
        return "online", f"{variant}: {_not_shared(problem)}"
    if variant == "cluster" and (reason := cluster_plan.why_not(problem, target)):
        other, further = possible(problem, target, _without_clusters(problem, target))
        return other, f"cluster: {reason}{further and '; '}{further}"
    if variant == "streamed" and (reason := _not_streamed(problem, target)):
        other, further = possible(problem, target, "cooperative")
        return other, f"streamed: {reason}{further and '; '}{further}"
    if variant in TELLING and (reason := _not_shared(problem)):
        return "split", f"{variant}: {reason}"
    return variant, ""


OPERATIONS = {
    "softmax": "y = exp(x − max x) / Σ exp(x − max x)",
    "log-softmax": "y = x − max x − log Σ exp(x − max x)",
    "cross-entropy": "lse = log Σ exp(x); loss = lse − x[target]; loss = 0 where target = −100",
    "softmax-backward": "dx = y × (dy − Σ y × dy)",
    "log-softmax-backward": "dx = dy − exp(y) × Σ dy",
    "cross-entropy-backward": "dx = (exp(x − lse) − [column = target]) × dloss",
}
ALL = tuple(OPERATIONS)
_NO_LOSS = tuple(name for name in ALL if not name.startswith(LOSS))
VARIANT_OPERATIONS = {
    "three-pass": ("softmax", "log-softmax", "cross-entropy"),
    "online": ALL,
    "cached": tuple(name for name in ALL if name != LOSS_GRADIENT),
    "tiled": ALL,
    "cooperative": _NO_LOSS,
    "streamed": _NO_LOSS,
    "cluster": tuple(name for name in ALL if name != LOSS_GRADIENT),
    "split": ALL,
    "peeled": ALL,
}
MOST_COLUMNS = 2**31 - 2**18
"""Columns are counted in 32 bits, and a loop goes at most one tile beyond them."""
MOST_CHUNKS = 65535
"""Blocks along the second dimension of a grid (CUDA C++ Programming Guide)."""
CACHED_BYTES_PER_THREAD = {1: 128, 2: 32}
"""The bytes of one input that a thread can hold, in a block of as many threads as there can be, by
the number of inputs. Compiled for sm_90 by Triton 3.6: 32 warps have 64 registers per thread, and
128 bytes of a row in half precision take all of them where the exponentials are computed twice;
more spills."""


def plan(problem: Problem, target: Target, variant: str | None = None) -> LaunchPlan:
    """Return how this problem is computed on this target.

    Raises:
        PerfcliError: no variant can do it, or not the one asked for.
    """
    check(problem, variant)
    if problem.rows == 0 or problem.columns == 0:
        return LaunchPlan(variant or "cached", (), "nothing to compute")
    wanted, instead_of = possible(problem, target, variant or fastest(problem, target))
    made = plan_of(problem, choose(problem, target, wanted), instead_of)
    if wanted == "cluster":
        other, _ = possible(problem, target, _without_clusters(problem, target))
        return replace(made, portable=plan_of(problem, choose(problem, target, other)))
    return made


def plan_of(problem: Problem, choice: Choice, instead_of: str = "") -> LaunchPlan:
    table = BACKWARD_LAUNCHES if problem.operation in BACKWARD else FORWARD_LAUNCHES
    return LaunchPlan(
        variant=choice.variant,
        launches=table[choice.variant](problem, choice),
        why=f"{choice.variant}, {choice.warps} warps, tiles of {choice.tile}: {choice.why}",
        workspace_bytes=workspace(problem, choice),
        instead_of=instead_of,
    )


def check(problem: Problem, variant: str | None) -> None:
    """Check whether the request makes sense at all."""
    if problem.operation not in OPERATIONS:
        known = ", ".join(OPERATIONS)
        raise PerfcliError(f"no operation {problem.operation!r} of softmax; known: {known}")
    if problem.dtype not in ITEM_BYTES:
        known = ", ".join(ITEM_BYTES)
        raise PerfcliError(f"expected a dtype of {known}, found {problem.dtype}: convert the input")
    if not 0 <= problem.columns <= MOST_COLUMNS:
        raise PerfcliError(
            f"expected 0 to {MOST_COLUMNS} columns, found {problem.columns}: reshape to more rows"
        )
    if problem.rows > 1 and not problem.columns <= problem.stride < 2**31:
        raise PerfcliError(
            f"expected rows {problem.columns} or more elements apart, found {problem.stride}: "
            "call contiguous() first"
        )
    if problem.columns == 0 and problem.rows > 0 and problem.operation.startswith(LOSS):
        raise PerfcliError("cross-entropy expected one class or more, found none: no target is one")
    if variant is not None:
        _check_variant(problem, variant)


def _check_variant(problem: Problem, variant: str) -> None:
    if variant not in VARIANT_OPERATIONS:
        known = ", ".join(VARIANT_OPERATIONS)
        raise PerfcliError(f"no variant {variant!r} of softmax; known: {known}")
    if problem.operation not in VARIANT_OPERATIONS[variant]:
        able = ", ".join(v for v, can in VARIANT_OPERATIONS.items() if problem.operation in can)
        raise PerfcliError(f"{variant} cannot do {problem.operation}: use one of {able}")


def workspace(problem: Problem, choice: Choice) -> int:
    """Return bytes of the statistics of chunks and of whole rows; the gradient has one of them, the
    forward two, the gradient of cross-entropy none. In one launch: of words, a chunk's statistics
    each."""
    if not choice.chunk or problem.operation == LOSS_GRADIENT:
        return 0
    if choice.variant in TELLING:
        return problem.rows * _chunks_of(problem, choice) * WORD_BYTES
    arrays = 1 if problem.operation in BACKWARD else 2
    count = _padded_count(problem.rows * (_chunks_of(problem, choice) + 1))
    return arrays * count * STATISTIC_BYTES
