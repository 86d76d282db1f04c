"""The launches of a column sum, made of what the planner decided. Pure."""

from __future__ import annotations

from dataclasses import replace

from perfcli.model import KernelLaunch, LaunchPlan, Problem, Target

from ._column_sum_plan import (
    ITEM_BYTES,
    VECTOR_BYTES,
    Pointers,
    Splits,
    Tile,
    Tma,
    aligned_elements,
    finish_tile,
    pointer_tile,
    split_rows,
)
from ._column_sum_source import input_names

TRITON_TYPE = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}


def input_count(problem: Problem) -> int:
    return int(problem.settings.get("inputs", 1) or 0)


def pointer_plan(
    problem: Problem, target: Target, config: Pointers, why: str, instead_of: str = ""
) -> LaunchPlan:
    """Plain loads through pointers: any stride, any alignment, any device."""
    tile_rows, tile_columns = pointer_tile(problem, config)
    column_tiles = -(-problem.columns // tile_columns)
    slots = target.sm_count * config.blocks_per_sm
    splits = split_rows(problem.rows, column_tiles, tile_rows, slots)
    unit = aligned_elements(problem)
    vector = min(unit, VECTOR_BYTES // ITEM_BYTES[problem.dtype])
    sizes = {
        "rows": problem.rows,
        "column_units": problem.columns // unit,
        "stride_units": problem.stride // unit,
        "rows_per_split": splits.rows,
    }
    inputs = input_names(input_count(problem))
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


def tma_plan(problem: Problem, target: Target, tile: Tile, config: Tma, why: str) -> LaunchPlan:
    """Tiles moved by TMA, through descriptors made on the host."""
    column_tiles = -(-problem.columns // tile.columns)
    slots = target.sm_count * config.blocks_per_sm
    splits = split_rows(problem.rows, column_tiles, tile.rows, slots)
    sizes = {
        "rows": problem.rows,
        "columns": problem.columns,
        "rows_per_split": splits.rows,
    }
    inputs = input_names(input_count(problem))
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
    splits: Splits,
    problem: Problem,
    target: Target,
    why: str,
) -> LaunchPlan:
    if splits.count == 1:
        return LaunchPlan(variant, (first,), why)
    finish = finish_launch(splits.count, problem.columns, problem.dtype, target)
    return LaunchPlan(variant, (first, finish), why, splits.count * problem.columns * 4)


def finish_launch(splits: int, width: int, dtype: str, target: Target) -> KernelLaunch:
    """Adds ``splits`` rows of ``width`` fp32 partial sums, in order."""
    tile_columns = finish_tile(width, target)
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
    """Shared memory of ``num_stages`` − 1 tiles of every input, which the reduction's workspace
    comes to lie in. Without stages the workspace alone depends on Triton's layout: not known."""
    tiles = (num_stages - 1) * input_count(problem)
    return tiles * elements * ITEM_BYTES[problem.dtype] or None


def _partial_type(problem: Problem, splits: Splits) -> str:
    """One split writes the result itself; several write fp32 partial sums."""
    return TRITON_TYPE[problem.dtype] if splits.count == 1 else "fp32"


def _multiples(sizes: dict[str, int]) -> tuple[str, ...]:
    return tuple(name for name, value in sizes.items() if value % 16 == 0)


def _warps(wanted: int, elements: int, vector: int, target: Target) -> int:
    """No more than leave a thread two elements, where two can be loaded at once."""
    return max(min(wanted, elements // (min(vector, 2) * target.warp_size)), 1)
