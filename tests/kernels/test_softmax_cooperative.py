"""The cooperative softmax: the word that blocks tell one another, and the plan of parts."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from warm import WarmProcess

from perfcli.loading import registry
from perfcli.machine import targets
from perfcli.model import LaunchPlan, Problem, Target

PAIRS = [
    (0.0, 1.0),  # elements are +0.0 at most: the peak itself counts 1
    (-0.0, 1.0),
    (-math.inf, 0.0),  # nothing above −∞
    (-math.inf, math.nan),  # a maximum passes over NaN, the sum does not
    (math.inf, math.nan),
    (1.5, 2.25),
    (-3.0e38, 1.0),
    (1.0e-45, 3.0),
]
"""Statistics of parts: those whose bits are mostly 0 among them."""
STREAMED = [
    ("softmax", 3, 40768, "bfloat16", "normal"),
    ("log-softmax", 3, 24576, "float16", "minus-infinity-masked"),
    ("softmax", 2, 32768, "float16", "nan"),
    ("log-softmax", 2, 32768, "bfloat16", "infinite"),
    ("softmax", 5, 760, "bfloat16", "minus-infinity-masked"),
    ("softmax", 1, 65536, "float16", "large"),
    ("softmax-backward", 2, 17001, "bfloat16", "normal"),
    ("log-softmax-backward", 3, 9000, "float32", "normal"),
]
"""With full and masked last tiles, several parts per row and several rows per program."""
LARGE = [
    ("tiled", "bfloat16", 999424.0),
    ("tiled", "float16", 60000.0),
    ("streamed", "bfloat16", 999424.0),
    ("streamed", "float16", 60000.0),
]
"""Numbers whose products with log2(e) are rounded."""
ROWS = [("bfloat16", 5), ("float32", 3), ("float16", 2)]
H200 = targets.get("h200")
OLDER = replace(H200, capability=(8, 0))
"""Without clusters."""


def bits(number: float) -> int:
    (found,) = struct.unpack("<i", struct.pack("<f", number))
    return int(found)


@pytest.fixture(scope="module")
def found(once: Callable[..., Any], warm_process: WarmProcess) -> Any:
    program = Path(__file__).with_name("cooperative_interpreted.py")
    asked = {"pairs": PAIRS, "rows": ROWS, "streamed": STREAMED, "large": LARGE}
    return once("cooperative softmax", lambda: warm_process.interpret(program, asked))


@pytest.mark.torch
def test_a_word_is_the_peak_above_the_total_and_comes_apart_again(found: Any) -> None:
    peaks, totals = zip(*PAIRS, strict=True)
    assert found["peaks"] == [bits(peak) for peak in peaks]
    assert found["totals"] == [bits(total) for total in totals]
    expected = [(bits(peak) << 32) | (bits(total) & 0xFFFFFFFF) for peak, total in PAIRS]
    assert found["words"] == expected


@pytest.mark.torch
def test_no_word_is_the_one_of_what_is_missing(found: Any) -> None:
    assert 0 not in found["words"]


@pytest.mark.torch
def test_who_takes_over_and_who_finds_all_there_write_the_same_bits(found: Any) -> None:
    """In the interpreter the first program of a row computes for all, the others find it."""
    assert found["distinct"] == [1] * len(ROWS)


@pytest.mark.torch
def test_large_numbers_whose_products_are_rounded_count_once(found: Any) -> None:
    """Each of two is half of the row."""
    for pair in found["large"]:
        assert pair == [pytest.approx(0.5, rel=4e-3)] * 2


@pytest.mark.torch
@pytest.mark.parametrize(
    "number", range(len(STREAMED)), ids=["-".join(map(str, s)) for s in STREAMED]
)
def test_streamed_writes_the_same_bits_with_however_few_programs(found: Any, number: int) -> None:
    """Fewer than a row has parts, too."""
    _, _, columns, dtype, _ = STREAMED[number]
    seen = found["streamed"][number]
    tile = 128 * (4 if dtype == "float32" else 8)
    assert seen["chunk"] >= (2 * tile if columns > 1 << 13 else tile)
    assert seen["equal"] == [True] * 3
    assert seen["excess"] <= 1


def planned(
    rows: int,
    columns: int,
    dtype: str = "bfloat16",
    variant: str | None = None,
    stride: int = 0,
    target: Target = H200,
) -> LaunchPlan:
    problem = Problem("softmax", rows, columns, dtype, stride or None)
    return registry.family("softmax").plan(problem, target, variant)


@pytest.mark.parametrize(
    ("rows", "columns", "dtype", "target"),
    [
        (64, 131072, "bfloat16", OLDER),
        (40, 140001, "float32", OLDER),
        (8, 1048576, "float32", H200),
        (2, 1048576, "bfloat16", H200),
        (3, 700001, "float32", H200),
    ],
)
def test_few_long_rows_are_one_part_per_block(
    rows: int, columns: int, dtype: str, target: Target
) -> None:
    plan = planned(rows, columns, dtype, target=target)
    _, step = plan.launches
    parts = -(-columns // int(str(step.constants["CHUNK"])))
    assert plan.variant == "cooperative"
    assert step.grid == (rows * parts, 1, 1)
    assert rows * parts >= 2 * 132
    assert parts <= int(str(step.constants["PARTS"])) < 2 * parts
    assert plan.workspace_bytes == 8 * rows * parts


@pytest.mark.parametrize("target", [H200, OLDER], ids=["clusters", "no clusters"])
def test_few_rows_are_cooperative_from_4_mb_on(target: Target) -> None:
    """Those that are too long for clusters."""
    assert planned(1, 1048589, target=target).variant == "split"
    assert planned(2, 1048576, target=target).variant == "cooperative"
    assert planned(3, 700001, "float32", target=target).variant == "cooperative"
    assert planned(8, 1048576, target=target).variant == "cooperative"


def test_a_lane_per_thread_or_more_so_that_a_block_agrees_on_what_is_missing() -> None:
    for columns in (1, 5, 200, 760, 4097, 262157):
        for dtype in ("bfloat16", "float32"):
            _, step = planned(3, columns, dtype, "cooperative").launches
            assert int(str(step.constants["LANES"])) >= 32 * step.num_warps


def test_rows_up_to_128_kib_are_left_to_one_block() -> None:
    """Where there are no clusters."""
    assert planned(8192, 65536, target=OLDER).variant == "online"
    assert planned(8192, 65537, target=OLDER).variant == "streamed"
    assert planned(4096, 40001, "float32", target=OLDER).variant == "streamed"


def test_rows_of_more_parts_than_a_block_looks_at_are_split() -> None:
    longest = 1024 * 16384
    plan = planned(1, longest, variant="cooperative")
    assert plan.launches[-1].grid == (1024, 1, 1)
    beyond = planned(1, longest + 8, variant="cooperative")
    assert beyond.variant == "split"
    assert "more than 1024 blocks" in beyond.instead_of
    assert planned(1, longest + 8).variant == "split"


def test_rows_without_alignment_are_peeled_where_the_output_lies_alike() -> None:
    assert planned(300, 150257).launches[-1].constants["PEEL"] is True
    assert planned(300, 150257, stride=150264).launches[-1].constants["PEEL"] is False
    assert planned(1, 1048589, variant="cooperative").launches[-1].constants["PEEL"] is False
