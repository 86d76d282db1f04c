"""Plans a column sum: tiles, splits and shared memory of one problem on one target. Pure.

The tile of the TMA kernel is nvFuser's (``reduction_outer_tma``, PR 6036): 128 × 128, halved along
the reduction first and along the columns then, until all inputs fit in shared memory. Different
here: what fits is one function, ``_tma_shared_bytes``, that the check, the choice
and the prediction share; the reduction's workspace is counted; a thread's vector never gets
shorter than 16 bytes, because the number of warps shrinks with the tile.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd

from perfcli.model import KernelLaunch, LaunchPlan, Problem, Target

from .._elements import ITEM_BYTES, TRITON_TYPE, VECTOR_BYTES, next_power_of_2
from .source import _input_names

MOST_INPUTS = 112
_LARGEST_TILE = (128, 128)
_SMALLEST_TILE = (16, 32)
_BARRIER_BYTES = 8
_WORKSPACE_ITEM_BYTES = 4
_FEWEST_ROWS_PER_SPLIT = 64


@dataclass(frozen=True, slots=True)
class _Pointers:
    """Says how the pointer kernel is launched. ``rows`` × ``columns`` is one tile, before it is
    fitted to a narrow problem; ``blocks_per_sm`` are meant to be resident at the same time."""

    rows: int
    columns: int
    num_warps: int
    blocks_per_sm: int
    num_stages: int = 1
    evict: str = ""


@dataclass(frozen=True, slots=True)
class _Tma:
    """Says how the TMA kernel is launched: ``num_stages`` − 1 tiles of every input are in flight,
    and ``blocks_per_sm`` blocks share the multiprocessor's shared memory."""

    num_stages: int
    blocks_per_sm: int
    num_warps: int = 8


@dataclass(frozen=True, slots=True)
class _Tile:
    """Describes a tile in shared memory, and what the compiled kernel takes of it per block."""

    rows: int
    columns: int
    num_warps: int
    vector: int
    """Elements next to each other that one thread reads."""
    shared_bytes: int


@dataclass(frozen=True, slots=True)
class _Splits:
    """Cuts the rows into ``count`` pieces of ``rows`` each; the last may be shorter."""

    count: int
    rows: int


def _tma_tile(inputs: int, item_bytes: int, limit: int, config: _Tma) -> _Tile | None:
    """Return the tile for ``limit`` bytes of shared memory per block, or None where not even the
    smallest fits. The only place that decides what fits."""
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


def _tile(rows: int, columns: int, inputs: int, item_bytes: int, config: _Tma) -> _Tile:
    vector = VECTOR_BYTES // item_bytes
    most_warps = rows * columns // (32 * vector)
    warps = min(config.num_warps, most_warps)
    shared = _tma_shared_bytes(rows, columns, inputs, item_bytes, config.num_stages, warps)
    return _Tile(rows, columns, warps, vector, shared)


def _tma_shared_bytes(
    rows: int, columns: int, inputs: int, item_bytes: int, num_stages: int, num_warps: int
) -> int:
    """Return shared memory of the compiled kernel, in bytes per block (triton 3.6 and 3.7, sm_90).

    The loop holds ``num_stages`` − 1 tiles of each input, and one 8-byte barrier for all inputs of
    a stage. The reduction after the loop exchanges one fp32 row per warp; the tiles are dead by
    then, and Triton puts this workspace in their place: the larger of the two counts, not the sum.
    """
    loop = (num_stages - 1) * (inputs * rows * columns * item_bytes + _BARRIER_BYTES)
    workspace = num_warps * columns * _WORKSPACE_ITEM_BYTES
    return max(loop, workspace)


def _shared_limit(target: Target, blocks_per_sm: int) -> int:
    """Return bytes that a block may take if so many are to be resident at the same time."""
    share = target.shared_bytes_per_sm // blocks_per_sm - target.reserved_shared_bytes_per_block
    return min(target.shared_bytes_per_block_optin, share // 128 * 128)


def _aligned_elements(problem: Problem) -> int:
    """Return the largest power of two, up to 16, that all rows start at and end at a multiple
    of."""
    return gcd(problem.columns, problem.stride, 16)


def _pointer_tile(problem: Problem, config: _Pointers) -> tuple[int, int]:
    """Return rows and columns of the pointer kernel's tile: what a narrow problem lacks in columns
    it gets in rows, up to the next power of two of its rows, and to what an offset within a tile
    can count in 32 bits."""
    columns = min(config.columns, max(next_power_of_2(problem.columns), 16))
    rows = config.rows * (config.columns // columns)
    rows = min(rows, max(next_power_of_2(problem.rows), config.rows))
    return min(rows, last_power_of_2((2**31 - 1) // max(problem.stride, 1))), columns


def _split_rows(rows: int, column_tiles: int, tile_rows: int, slots: int) -> _Splits:
    """Split the reduction so that ``slots`` resident blocks finish as early as possible.

    A block's time is taken as proportional to its rows, and blocks run in waves of ``slots``; of
    equally good splits the coarsest is taken. Rows per split are a multiple of the tile.
    """
    fewest = -(-_FEWEST_ROWS_PER_SPLIT // tile_rows) * tile_rows
    most = max(min(-(-rows // fewest), 4 * slots // column_tiles + 1), 1)
    candidates = (equal_splits(rows, count, tile_rows) for count in range(1, most + 1))
    return min(candidates, key=lambda s: (-(-s.count * column_tiles // slots) * s.rows, s.count))


def equal_splits(rows: int, count: int, tile_rows: int) -> _Splits:
    """Return at most ``count`` splits of equally many whole tiles. Made of its own result's count
    it gives the same again, so that a plan's grid says how many rows a split has."""
    per_split = -(-rows // (count * tile_rows)) * tile_rows
    return _Splits(-(-rows // per_split), per_split)


def _finish_tile(columns: int, target: Target) -> int:
    """Return columns per block of the second kernel: as many blocks as multiprocessors, where the
    columns suffice for sectors of 64 bytes."""
    wanted = next_power_of_2(max(columns // target.sm_count, 1))
    return min(max(wanted, 16), 128)


def _input_count(problem: Problem) -> int:
    return int(problem.settings.get("inputs", 1) or 0)


def _pointer_plan(
    problem: Problem, target: Target, config: _Pointers, why: str, instead_of: str = ""
) -> LaunchPlan:
    """Plan plain loads through pointers: any stride, any alignment, any device."""
    tile_rows, tile_columns = _pointer_tile(problem, config)
    column_tiles = -(-problem.columns // tile_columns)
    slots = target.sm_count * config.blocks_per_sm
    splits = _split_rows(problem.rows, column_tiles, tile_rows, slots)
    unit = _aligned_elements(problem)
    vector = min(unit, VECTOR_BYTES // ITEM_BYTES[problem.dtype])
    sizes = {
        "rows": problem.rows,
        "column_units": problem.columns // unit,
        "stride_units": problem.stride // unit,
        "rows_per_split": splits.rows,
    }
    inputs = _input_names(_input_count(problem))
    item = TRITON_TYPE[problem.dtype]
    first = KernelLaunch(
        function=f"column_sum_pointers_{len(inputs)}",
        grid=(column_tiles, splits.count, 1),
        arguments=dict.fromkeys(inputs, f"*{item}")
        | {"partial": f"*{_partial_type(problem, splits)}"}
        | dict.fromkeys(sizes, "i32"),
        constants={
            "TILE_R": tile_rows,
            "TILE_I": tile_columns,
            "STAGES": config.num_stages,
            "UNIT": unit,
            "WHOLE_ROWS": problem.rows % tile_rows == 0,
            "WHOLE_COLUMNS": problem.columns % tile_columns == 0,
            "EVICT": config.evict,
        },
        num_warps=_warps(config.num_warps, tile_rows * tile_columns, vector, target),
        divisible_by_16=(*inputs, "partial", *_multiples(sizes)),
        shared_bytes=_pipeline_bytes(problem, tile_rows * tile_columns, config.num_stages),
    )
    made = _plan("pointers", first, splits, problem, target, why)
    return replace(made, instead_of=instead_of)


def tma_plan(problem: Problem, target: Target, tile: _Tile, config: _Tma, why: str) -> LaunchPlan:
    """Plan tiles moved by TMA, through descriptors made on the host."""
    column_tiles = -(-problem.columns // tile.columns)
    slots = target.sm_count * config.blocks_per_sm
    splits = _split_rows(problem.rows, column_tiles, tile.rows, slots)
    sizes = {
        "rows": problem.rows,
        "columns": problem.columns,
        "rows_per_split": splits.rows,
    }
    inputs = _input_names(_input_count(problem))
    item = TRITON_TYPE[problem.dtype]
    first = KernelLaunch(
        function=f"column_sum_tma_{len(inputs)}",
        grid=(column_tiles, splits.count, 1),
        arguments=dict.fromkeys(inputs, f"tensordesc<{item}[{tile.rows}, {tile.columns}]>")
        | {"partial": f"*{_partial_type(problem, splits)}"}
        | dict.fromkeys(sizes, "i32"),
        constants={"TILE_R": tile.rows, "TILE_I": tile.columns, "STAGES": config.num_stages},
        num_warps=tile.num_warps,
        divisible_by_16=("partial", *_multiples(sizes)),
        shared_bytes=tile.shared_bytes,
    )
    return _plan("tma", first, splits, problem, target, why)


def _plan(
    variant: str,
    first: KernelLaunch,
    splits: _Splits,
    problem: Problem,
    target: Target,
    why: str,
) -> LaunchPlan:
    if splits.count == 1:
        return LaunchPlan(variant, (first,), why)
    finish = finish_launch(splits.count, problem.columns, problem.dtype, target)
    return LaunchPlan(variant, (first, finish), why, splits.count * problem.columns * 4)


def finish_launch(splits: int, width: int, dtype: str, target: Target) -> KernelLaunch:
    """Add ``splits`` rows of ``width`` fp32 partial sums, in order."""
    tile_columns = _finish_tile(width, target)
    return KernelLaunch(
        function="column_sum_finish",
        grid=(-(-width // tile_columns), 1, 1),
        arguments={
            "partial": "*fp32",
            "out": f"*{TRITON_TYPE[dtype]}",
            "splits": "i32",
            "width": "i32",
        },
        constants={"TILE_R": 64, "TILE_I": tile_columns},
        num_warps=4,
        divisible_by_16=("partial", "out", *_multiples({"splits": splits, "width": width})),
    )


def _pipeline_bytes(problem: Problem, elements: int, num_stages: int) -> int | None:
    """Return shared memory of ``num_stages`` − 1 tiles of every input, which the reduction's
    workspace comes to lie in. Without stages the workspace alone depends on Triton's layout: not
    known."""
    tiles = (num_stages - 1) * _input_count(problem)
    return tiles * elements * ITEM_BYTES[problem.dtype] or None


def _partial_type(problem: Problem, splits: _Splits) -> str:
    """Return the type of partial sums: one split writes the result itself; several write fp32."""
    return TRITON_TYPE[problem.dtype] if splits.count == 1 else "fp32"


def _multiples(sizes: dict[str, int]) -> tuple[str, ...]:
    return tuple(name for name, value in sizes.items() if value % 16 == 0)


def _warps(wanted: int, elements: int, vector: int, target: Target) -> int:
    """Return no more warps than leave a thread two elements, where two can be loaded at once."""
    return max(min(wanted, elements // (min(vector, 2) * target.warp_size)), 1)


_FEW_INPUTS = 7
_MANY_INPUTS = 28
_BYTES_PER_STAGE = 48 * 1024
_MEASURED = "H200, 2026-11-22, triton 3.6.0"


def _pointers_of(problem: Problem, target: Target) -> tuple[_Pointers, str]:
    """Return how the pointer kernel is launched. Few inputs: one block per multiprocessor, as wide
    as its threads have 16-byte vectors, with three tiles of up to 48 KiB on their way to shared
    memory (cp.async). Twice the warps for half precision on sm_100, where 8 warps spill 4 words
    (262144 × 1024, 3 inputs; triton 3.7.1, not timed). Many inputs keep enough bytes in flight by
    themselves: loads into registers, narrower tiles."""
    inputs, vector = _input_count(problem), VECTOR_BYTES // ITEM_BYTES[problem.dtype]
    if _aligned_elements(problem) < vector:
        return _narrow(inputs), "rows not at multiples of 16 bytes: narrow loads (not measured)"
    if target.vendor != "nvidia":
        return _without_copies(inputs, target.warp_size * vector), "no cp.async; not measured"
    if inputs <= _FEW_INPUTS:
        rows = last_power_of_2(_BYTES_PER_STAGE // (inputs * 256 * VECTOR_BYTES))
        warps = 16 if target.capability >= (10, 0) and vector == 8 else 8
        wide = _Pointers(min(rows, 8), 256 * vector, warps, blocks_per_sm=1, num_stages=4)
        return wide, f"up to {_FEW_INPUTS} inputs: three tiles in flight ({_MEASURED})"
    if inputs <= _MANY_INPUTS:
        return _Pointers(2 * vector, 256, 8, 4), f"many inputs: loads into registers ({_MEASURED})"
    why = "very many inputs: one vector of each at a time, two spill (not measured)"
    return _Pointers(vector, 256, 8, 4), why


def _tma_of(problem: Problem, target: Target) -> tuple[_Tma, str]:
    """Return how the TMA kernel is launched. Few inputs: two tiles of each in flight; 4 to 7 of
    half precision, whose larger tiles spill (5 inputs, triton 3.7), as three smaller ones. Many:
    one, since with two such tiles Triton spills (float16, 14 to 56 inputs), and 16 inputs were 1 %
    slower."""
    inputs = _input_count(problem)
    if 4 <= inputs <= _FEW_INPUTS and ITEM_BYTES[problem.dtype] == 2:
        return _Tma(4, 3, 4), f"three small tiles of each input, three blocks ({_MEASURED})"
    if inputs <= _FEW_INPUTS:
        return _Tma(3, 1, 4), f"two tiles of each input in flight ({_MEASURED})"
    return _Tma(2, 1, 4), f"one tile of each input in flight ({_MEASURED})"


def _narrow(inputs: int) -> _Pointers:
    """Return a launch with about 32 loads per thread in flight, whatever their width."""
    loads = last_power_of_2(32 // inputs)
    side_by_side = min(loads, 4)
    return _Pointers(loads // side_by_side, 256 * side_by_side, 8, 4)


def _without_copies(inputs: int, columns_per_warp: int) -> _Pointers:
    """Return a launch with as many vectors of each input as registers take; a part of one where
    there are very many."""
    if inputs > _MANY_INPUTS:
        return _Pointers(1, 512, 4, 4)
    return _Pointers(4 if inputs <= _FEW_INPUTS else 1, 4 * columns_per_warp, 4, 4)


def last_power_of_2(number: int) -> int:
    return 1 << (max(number, 1).bit_length() - 1)
