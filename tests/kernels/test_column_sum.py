"""The column sum's planner, pure, and its kernels through Triton's interpreter."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from warm import WarmProcess

from perfcli.errors import PerfcliError
from perfcli.loading import registry
from perfcli.machine import targets
from perfcli.model import KernelFamily, Problem, Target

planner: Any = import_module("perfcli.kernels.column_sum.plan")
column_sum: Any = import_module("perfcli.kernels.column_sum").column_sum

H200 = targets.get("h200")
FAMILY = registry.load_declared("kernels", "column-sum", KernelFamily)
EVERY = [(n, item) for n in range(1, planner.MOST_INPUTS + 1) for item in (4, 2)]


# nvFuser's own table (reduction_outer_tma at 2f60a736) where its reserve of shared memory does not
# change the tile: one tile of each input in flight, all of a multiprocessor's shared memory.
@pytest.mark.parametrize(
    ("inputs", "item_bytes", "rows", "columns"),
    [
        (1, 4, 128, 128),
        (3, 4, 128, 128),
        (4, 4, 64, 128),
        (7, 4, 64, 128),
        (8, 4, 32, 128),
        (15, 4, 16, 128),
        (28, 4, 16, 128),
        (29, 4, 16, 64),
        (57, 4, 16, 32),
        (112, 4, 16, 32),
        (7, 2, 128, 128),
        (8, 2, 64, 128),
        (29, 2, 16, 128),
        (112, 2, 16, 64),
    ],
)
def test_tiles_shrink_along_the_reduction_first(
    inputs: int, item_bytes: int, rows: int, columns: int
) -> None:
    limit = H200.shared_bytes_per_block_optin
    tile = planner._tma_tile(inputs, item_bytes, limit, planner._Tma(2, 1))
    assert tile is not None
    assert (tile.rows, tile.columns) == (rows, columns)


@pytest.mark.parametrize("stages", [2, 3, 4])
def test_what_is_planned_fits_with_its_workspace_and_is_no_vector_of_one(stages: int) -> None:
    limit = H200.shared_bytes_per_block_optin
    config = planner._Tma(stages, 1)
    for inputs, item in EVERY:
        tile = planner._tma_tile(inputs, item, limit, config)
        smallest = (stages - 1) * (inputs * 16 * 32 * item + 8)
        assert (tile is None) == (smallest > limit), (inputs, item)
        if tile is None:
            continue
        tiles = (stages - 1) * inputs * tile.rows * tile.columns * item
        assert tiles < tile.shared_bytes <= limit
        assert tile.shared_bytes >= tile.num_warps * tile.columns * 4  # one fp32 row per warp
        assert tile.vector * item == 16
        assert tile.rows * tile.columns >= tile.num_warps * 32 * tile.vector


def test_the_reduction_alone_can_need_more_than_the_tiles() -> None:
    # 8 warps × 32 columns × 4 bytes, against one 16 × 32 tile of half precision
    assert planner._tma_shared_bytes(16, 32, 1, 2, 2, 8) == 1024 + 8
    assert planner._tma_shared_bytes(16, 32, 1, 2, 2, 16) == 16 * 32 * 4


def test_every_number_of_inputs_has_a_tma_plan() -> None:
    for inputs, item in EVERY:
        problem = column_sum(65536, 4096, inputs, "float32" if item == 4 else "float16")
        plan = FAMILY.plan(problem, H200, "tma")
        assert plan.variant == "tma", (inputs, item, plan.instead_of)
        assert (plan.launches[0].shared_bytes or 0) <= H200.shared_bytes_per_block_optin


@pytest.mark.parametrize("rows", [1, 7, 64, 263, 4097, 65536, 262145])
@pytest.mark.parametrize("tile_rows", [1, 8, 16, 128])
@pytest.mark.parametrize("column_tiles", [1, 3, 32, 512])
def test_splits_hold_whole_tiles_and_every_row_once(
    rows: int, tile_rows: int, column_tiles: int
) -> None:
    splits = planner._split_rows(rows, column_tiles, tile_rows, slots=264)
    assert splits.rows % tile_rows == 0
    assert (splits.count - 1) * splits.rows < rows <= splits.count * splits.rows
    assert planner.equal_splits(rows, splits.count, tile_rows) == splits


def test_splits_fill_the_device_in_one_wave() -> None:
    # 4 column tiles on 132 multiprocessors: 33 splits of 1985.9 rows, rounded up to tiles of 8
    assert planner._split_rows(65536, 4, 8, slots=132) == planner._Splits(33, 1992)


def test_more_inputs_never_get_a_larger_tile() -> None:
    limit = H200.shared_bytes_per_block_optin
    for item in (2, 4):
        tiles = [planner._tma_tile(n, item, limit, planner._Tma(2, 1)) for n in range(1, 113)]
        areas = [tile.rows * tile.columns for tile in tiles if tile]
        assert all(later <= earlier for earlier, later in pairwise(areas))


@pytest.mark.parametrize("stride", [1 << 20, 1 << 23, (1 << 24) + 8, (1 << 31) - 8])
@pytest.mark.parametrize("columns", [3, 8, 64])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_offsets_within_a_tile_have_32_bits(stride: int, columns: int, dtype: str) -> None:
    """Of a few columns of a large matrix a tile has many rows."""
    (first, *_) = FAMILY.plan(column_sum(4096, columns, 1, dtype, stride), H200, None).launches
    assert int(str(first.constants["TILE_R"])) * stride < 1 << 31


def small(target: Target) -> Target:
    return replace(target, shared_bytes_per_block_optin=48 * 1024)


@pytest.mark.parametrize(
    ("problem", "target", "words"),
    [
        (column_sum(64, 50257, 1, "bfloat16"), H200, "100514 bytes apart; pad them"),
        (column_sum(64, 4096), targets.get("a100"), "compute capability 9.0"),
        (column_sum(64, 4096, 112), small(H200), "112 inputs do not fit in 49152 bytes"),
    ],
)
def test_tma_falls_back_and_says_why(problem: Problem, target: Target, words: str) -> None:
    plan = FAMILY.plan(problem, target, "tma")
    assert plan.variant == "pointers"
    assert plan.instead_of.startswith("tma: ")
    assert words in plan.instead_of


@pytest.mark.parametrize(
    ("problem", "variant", "words"),
    [
        (column_sum(8, 8, 113), None, "expected 1 to 112 inputs, found 113"),
        (column_sum(8, 8, 0), None, "expected 1 to 112 inputs, found 0"),
        (column_sum(8, 8, 1, "float64"), None, "expected a dtype of bfloat16"),
        (column_sum(8, 8, row_stride=4), None, "expected rows at least 8 elements apart"),
        (column_sum(8, 8, row_stride=1 << 31), None, r"less than 2\^31, found 2147483648"),
        (column_sum(8, 8), "atomic", "no variant 'atomic'"),
        (replace(column_sum(8, 8), operation="softmax"), None, "expected the operation"),
    ],
)
def test_bad_requests_are_refused(problem: Problem, variant: str | None, words: str) -> None:
    with pytest.raises(PerfcliError, match=words):
        FAMILY.plan(problem, H200, variant)


def test_bytes_and_flops_are_counted_by_hand() -> None:
    problem = column_sum(100, 10, 3, "bfloat16")
    assert FAMILY.moved_bytes(problem) == (3 * 100 * 10 + 10) * 2
    assert FAMILY.flops(problem) == 3000


def test_nothing_to_add_launches_nothing() -> None:
    assert FAMILY.plan(column_sum(0, 128), H200, None).launches == ()
    assert FAMILY.plan(column_sum(128, 0), H200, None).launches == ()


def quick(number: int) -> bool:
    """Cases of up to 2^15 elements in two dtypes: the boundary set is for ``kernels check``."""
    problem = FAMILY.cases[number].problem
    elements = problem.elements * int(str(problem.settings["inputs"]))
    return elements <= 1 << 15 and problem.dtype != "float16"


@pytest.mark.torch
def test_kernels_agree_with_float64(warm_process: WarmProcess) -> None:
    numbers = [n for n in range(len(FAMILY.cases)) if quick(n)]
    runner = Path(__file__).with_name("cases_interpreted.py")
    found = dict(zip(numbers, warm_process.interpret(runner, "column-sum", numbers), strict=True))
    assert len(numbers) > 10
    assert {variant for _, variant, _ in found.values()} == {"pointers", "tma"}
    assert {n: f for n, f in found.items() if f[0] != "right"} == {}
