"""Bytes that a user's kernel moves, against what its addresses say."""

# ruff: noqa: E501 (TTGIR has long lines)
from __future__ import annotations

import pytest

from perfcli.facts.work.moved import count_moved
from perfcli.facts.work.ttgir import parse_module
from perfcli.model import Buffer

# i = pid * 64 + lanes; store(out + i, load(in + STEP * i), i < n)
KERNEL = """
#blocked = #ttg.blocked<{{sizePerThread = [2], threadsPerWarp = [32], warpsPerCTA = [1], order = [0]}}>
#loc = loc("k.py":1:0)
#loc1 = loc("k.py":3:4)
#loc2 = loc("k.py":4:4)
module attributes {{"ttg.num-warps" = 1 : i32}} {{
  tt.func public @k(%in: !tt.ptr<f32>, %out: !tt.ptr<f32>, %n: i32) attributes {{noinline = false}} {{
    %c64 = arith.constant 64 : i32
    %step = arith.constant dense<{step}> : tensor<64xi32, #blocked>
    %pid = tt.get_program_id x : i32
    %start = arith.muli %pid, %c64 : i32
    %lanes = tt.make_range {{end = 64 : i32, start = 0 : i32}} : tensor<64xi32, #blocked>
    %begin = tt.splat %start : i32 -> tensor<64xi32, #blocked>
    %i = arith.addi %begin, %lanes : tensor<64xi32, #blocked>
    %most = tt.splat %n : i32 -> tensor<64xi32, #blocked>
    %inside = arith.cmpi slt, %i, %most : tensor<64xi32, #blocked>
    %j = arith.muli %i, %step : tensor<64xi32, #blocked>
    %p = tt.splat %in : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>, #blocked>
    %q = tt.addptr %p, %j : tensor<64x!tt.ptr<f32>, #blocked>, tensor<64xi32, #blocked>
    %v = tt.load %q, %inside : tensor<64x!tt.ptr<f32>, #blocked> loc(#loc1)
    %o = tt.splat %out : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>, #blocked>
    %r = tt.addptr %o, %i : tensor<64x!tt.ptr<f32>, #blocked>, tensor<64xi32, #blocked>
    tt.store %r, %v, %inside : tensor<64x!tt.ptr<f32>, #blocked> loc(#loc2)
    tt.return
  }}
}}
"""


def buffer(argument: str, elements: int) -> Buffer:
    role = "input" if argument == "in" else "output"
    return Buffer(argument, argument, role, "float32", (elements,), (1,), 4 * elements)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("n", "step", "read"),
    [
        (1000, 1, 4 * 1000),  # 16 blocks, the last one with 40 elements
        (1000, 2, 4 * 1000),  # every second element of the first 2000
        (1000, 0, 4 * 16),  # one element, once for each block
        (640_000, 1, 4 * 640_000),  # 10,000 blocks, of which some are looked at
        (639_990, 1, 4 * 639_990),
    ],
)
def test_elements_count_once_in_a_block(n: int, step: int, read: int) -> None:
    module = parse_module(KERNEL.format(step=step))
    buffers = (buffer("in", 1_000_000), buffer("out", n))
    assert count_moved(module, {"n": n}, (-(-n // 64), 1, 1), buffers) == (read, 4 * n)


def test_no_more_is_moved_than_a_tensor_has() -> None:
    module = parse_module(KERNEL.format(step=0))
    moved = count_moved(module, {"n": 1000}, (16, 1, 1), (buffer("in", 1), buffer("out", 1000)))
    assert moved == (4, 4000)


def test_a_pointer_to_an_unknown_tensor_says_nothing() -> None:
    module = parse_module(KERNEL.format(step=1))
    assert count_moved(module, {"n": 64}, (1, 1, 1), (buffer("in", 64),)) is None
