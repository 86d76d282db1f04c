"""The column sum's planner: tiles, splits and shared memory of one problem on one target. Pure.

The tile of the TMA kernel is nvFuser's (``reduction_outer_tma``, PR 6036): 128 × 128, halved along
the reduction first and along the columns then, until all inputs fit in shared memory. Different
here: what fits is one function, ``tma_shared_bytes``, that the check, the choice and the prediction
share; the reduction's workspace is counted; a thread's vector never gets shorter than 16 bytes,
because the number of warps shrinks with the tile.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

from perfcli.model import Problem, Target

ITEM_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}
MOST_INPUTS = 112
VECTOR_BYTES = 16
_LARGEST_TILE = (128, 128)
_SMALLEST_TILE = (16, 32)
_BARRIER_BYTES = 8
_WORKSPACE_ITEM_BYTES = 4
_FEWEST_ROWS_PER_SPLIT = 64


@dataclass(frozen=True, slots=True)
class Pointers:
    """How the pointer kernel is launched. ``rows`` × ``columns`` is one tile, before it is fitted
    to a narrow problem; ``blocks_per_sm`` are meant to be resident at the same time."""

    rows: int
    columns: int
    num_warps: int
    blocks_per_sm: int
    num_stages: int = 1
    evict: str = ""


@dataclass(frozen=True, slots=True)
class Tma:
    """How the TMA kernel is launched: ``num_stages`` − 1 tiles of every input are in flight, and
    ``blocks_per_sm`` blocks share the multiprocessor's shared memory."""

    num_stages: int
    blocks_per_sm: int
    num_warps: int = 8


@dataclass(frozen=True, slots=True)
class Tile:
    """A tile in shared memory, and what the compiled kernel takes of it per block."""

    rows: int
    columns: int
    num_warps: int
    vector: int
    """Elements next to each other that one thread reads."""
    shared_bytes: int


@dataclass(frozen=True, slots=True)
class Splits:
    """The rows are cut into ``count`` pieces of ``rows`` each; the last may be shorter."""

    count: int
    rows: int


def tma_tile(inputs: int, item_bytes: int, limit: int, config: Tma) -> Tile | None:
    """The tile for ``limit`` bytes of shared memory per block; None where not even the smallest
    fits. The only place that decides what fits."""
    rows, columns = _LARGEST_TILE
    while True:
        tile = _tile(rows, columns, inputs, item_bytes, config)
        if tile.shared_bytes <= limit:
            return tile
        if rows > _SMALLEST_TILE[0]:
            rows //= 2
        elif columns > _SMALLEST_TILE[1]:
            columns //= 2
        else:
            return None


def _tile(rows: int, columns: int, inputs: int, item_bytes: int, config: Tma) -> Tile:
    vector = VECTOR_BYTES // item_bytes
    most_warps = rows * columns // (32 * vector)
    warps = min(config.num_warps, most_warps)
    shared = tma_shared_bytes(rows, columns, inputs, item_bytes, config.num_stages, warps)
    return Tile(rows, columns, warps, vector, shared)


def tma_shared_bytes(
    rows: int, columns: int, inputs: int, item_bytes: int, num_stages: int, num_warps: int
) -> int:
    """Shared memory of the compiled kernel, in bytes per block (triton 3.6 and 3.7, sm_90).

    The loop holds ``num_stages`` − 1 tiles of each input, and one 8-byte barrier for all inputs of
    a stage. The reduction after the loop exchanges one fp32 row per warp; the tiles are dead by
    then, and Triton puts this workspace in their place: the larger of the two counts, not the sum.
    """
    loop = (num_stages - 1) * (inputs * rows * columns * item_bytes + _BARRIER_BYTES)
    workspace = num_warps * columns * _WORKSPACE_ITEM_BYTES
    return max(loop, workspace)


def shared_limit(target: Target, blocks_per_sm: int) -> int:
    """Bytes that a block may take if so many are to be resident at the same time."""
    share = target.shared_bytes_per_sm // blocks_per_sm - target.reserved_shared_bytes_per_block
    return min(target.shared_bytes_per_block_optin, share // 128 * 128)


def aligned_elements(problem: Problem) -> int:
    """The largest power of two, up to 16, that all rows start at and end at a multiple of."""
    return gcd(problem.columns, problem.stride, 16)


def pointer_tile(problem: Problem, config: Pointers) -> tuple[int, int]:
    """Rows and columns of the pointer kernel's tile: what a narrow problem lacks in columns it
    gets in rows, up to the next power of two of its rows."""
    columns = min(config.columns, max(next_power_of_2(problem.columns), 16))
    rows = config.rows * (config.columns // columns)
    return min(rows, max(next_power_of_2(problem.rows), config.rows)), columns


def split_rows(rows: int, column_tiles: int, tile_rows: int, slots: int) -> Splits:
    """Splits the reduction so that ``slots`` resident blocks finish as early as possible.

    A block's time is taken as proportional to its rows, and blocks run in waves of ``slots``; of
    equally good splits the coarsest is taken. Rows per split are a multiple of the tile.
    """
    fewest = -(-_FEWEST_ROWS_PER_SPLIT // tile_rows) * tile_rows
    most = max(min(-(-rows // fewest), 4 * slots // column_tiles + 1), 1)
    candidates = (equal_splits(rows, count, tile_rows) for count in range(1, most + 1))
    return min(candidates, key=lambda s: (-(-s.count * column_tiles // slots) * s.rows, s.count))


def equal_splits(rows: int, count: int, tile_rows: int) -> Splits:
    """At most ``count`` splits of equally many whole tiles. Made of its own result's count it gives
    the same again, so that a plan's grid says how many rows a split has."""
    per_split = -(-rows // (count * tile_rows)) * tile_rows
    return Splits(-(-rows // per_split), per_split)


def finish_tile(columns: int, target: Target) -> int:
    """Columns per block of the second kernel: as many blocks as multiprocessors, where the
    columns suffice for sectors of 64 bytes."""
    wanted = next_power_of_2(max(columns // target.sm_count, 1))
    return min(max(wanted, 16), 128)


def next_power_of_2(number: int) -> int:
    return 1 << (max(number, 1) - 1).bit_length()
