"""Requests, lines and sectors of accesses that can be counted by hand."""

# ruff: noqa: E501 (TTGIR has long lines)
from __future__ import annotations

import pytest

from perfcli.facts.work.accesses import (
    AccessCounts,
    _count_bank_conflicts,
    _thread_map,
    count_access,
)
from perfcli.facts.work.programs import _sample_programs, run_programs
from perfcli.facts.work.ttgir import Blocked, parse_module
from perfcli.model import Grid

# 128 threads; out[i * STORE] = in[i * LOAD] for 128 elements of a block, one element per thread.
COPY = """
#blocked = #ttg.blocked<{{sizePerThread = [{per_thread}], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}}>
#loc = loc("k.py":1:0)
module attributes {{"ttg.num-warps" = 4 : i32}} {{
  tt.func public @copy(%in: !tt.ptr<{element}>, %out: !tt.ptr<{element}>, %n: i32) attributes {{noinline = false}} {{
    %size = arith.constant {block} : i32
    %by = arith.constant dense<{stride}> : tensor<{block}xi32, #blocked>
    %pid = tt.get_program_id x : i32
    %first = arith.muli %pid, %size : i32
    %range = tt.make_range {{end = {block} : i32, start = 0 : i32}} : tensor<{block}xi32, #blocked>
    %start = tt.splat %first : i32 -> tensor<{block}xi32, #blocked>
    %i = arith.addi %start, %range : tensor<{block}xi32, #blocked>
    %limit = tt.splat %n : i32 -> tensor<{block}xi32, #blocked>
    %mask = arith.cmpi slt, %i, %limit : tensor<{block}xi32, #blocked>
    %at = arith.muli %i, %by : tensor<{block}xi32, #blocked>
    %p = tt.splat %in : !tt.ptr<{element}> -> tensor<{block}x!tt.ptr<{element}>, #blocked>
    %q = tt.addptr %p, %at : tensor<{block}x!tt.ptr<{element}>, #blocked>, tensor<{block}xi32, #blocked>
    %v = tt.load %q, %mask : tensor<{block}x!tt.ptr<{element}>, #blocked>
    %r = tt.splat %out : !tt.ptr<{element}> -> tensor<{block}x!tt.ptr<{element}>, #blocked>
    %s = tt.addptr %r, %i : tensor<{block}x!tt.ptr<{element}>, #blocked>, tensor<{block}xi32, #blocked>
    tt.store %s, %v, %mask : tensor<{block}x!tt.ptr<{element}>, #blocked>
    tt.return
  }}
}}
"""


def counts(
    element: str, per_thread: int, stride: int, n: int = 1 << 20, grid: Grid = (64, 1, 1)
) -> tuple[AccessCounts, AccessCounts]:
    block = 128 * per_thread
    text = COPY.format(element=element, per_thread=per_thread, stride=stride, block=block)
    module = parse_module(text)
    (run,) = run_programs(module, {"n": n}, grid, _sample_programs(grid, 3))
    load, store = (count_access(event, module.layouts, 4) for event in run.events)
    return load, store


@pytest.mark.parametrize(
    ("element", "per_thread", "stride", "requests", "sectors", "lines", "vector_bytes"),
    [
        # 32 lanes × 4 bytes: one line of 4 sectors for each of 4 warps.
        ("f32", 1, 1, 4, 16, 4, 4),
        # 4 elements per thread, 16 bytes at once: a warp reads 512 bytes, 4 lines.
        ("f32", 4, 1, 4, 64, 16, 16),
        # bf16, 8 per thread: 16 bytes as well.
        ("bf16", 8, 1, 4, 64, 16, 16),
        # Every second element: twice the lines, no vectors.
        ("f32", 1, 2, 4, 32, 8, 4),
        # A row of 128 bytes for each lane: nothing is shared.
        ("f32", 1, 32, 4, 128, 128, 4),
        # The same address for all: one sector.
        ("f32", 1, 0, 4, 4, 4, 4),
    ],
)
def test_a_load_of_a_block(
    element: str,
    per_thread: int,
    stride: int,
    requests: int,
    sectors: int,
    lines: int,
    vector_bytes: int,
) -> None:
    load, _ = counts(element, per_thread, stride)
    assert (load.requests, load.sectors, load.lines) == (requests, sectors, lines)
    assert load.vector_bytes == vector_bytes


@pytest.mark.parametrize(
    ("element", "per_thread", "stride", "needed", "apart", "distinct_bytes"),
    [
        # All that comes is used: 16 sectors of 32 bytes are 128 floats.
        ("f32", 1, 1, 16, 4, 512),
        # 4 floats of a thread at once: its neighbour's are 16 bytes further on.
        ("f32", 4, 1, 64, 16, 2048),
        # Every 16th bfloat16: a sector comes for each, and two would hold a warp's 32.
        ("bf16", 1, 16, 8, 32, 256),
        # One element for all: 4 warps of which each needs one sector.
        ("f32", 1, 0, 4, 0, 4),
    ],
)
def test_what_a_load_needs(
    element: str, per_thread: int, stride: int, needed: int, apart: int, distinct_bytes: int
) -> None:
    load, _ = counts(element, per_thread, stride)
    assert (load.needed, load.apart, load.distinct_bytes) == (needed, apart, distinct_bytes)


def test_what_several_warps_have_is_stored_once() -> None:
    """16 elements of 4 bytes that all lanes and warps of the block hold: each warp issues the
    store, and the first one's first 16 lanes make it, of 2 sectors."""
    text = COPY.format(element="f32", per_thread=1, stride=1, block=16)
    module = parse_module(text)
    (run,) = run_programs(module, {"n": 1 << 20}, (64, 1, 1), [(0, 0, 0)])
    load, store = (count_access(event, module.layouts, 4) for event in run.events)
    assert (store.requests, store.own_requests, store.own_sectors, store.own_lines) == (4, 1, 2, 1)
    assert (load.own_requests, load.own_sectors) == (4, 8)
    assert (load.needed, store.needed) == (8, 2)


def test_masked_lanes_fetch_nothing() -> None:
    """40 of the last block's 128 elements exist: two warps, 5 sectors of 8 elements."""
    load, store = counts("f32", 1, 1, n=40, grid=(1, 1, 1))
    assert (load.requests, load.sectors, load.useful_bytes) == (2, 5, 160)
    assert (store.warp_sectors, store.partial) == (5, 0)


def test_a_sector_that_is_not_written_whole_is_partial() -> None:
    """36 elements: the fifth sector gets 4 of its 8 words."""
    _, store = counts("f32", 1, 1, n=36, grid=(1, 1, 1))
    assert (store.warp_sectors, store.partial, store.fragments) == (5, 1, 0)


def test_half_a_word_is_a_fragment() -> None:
    """33 elements of 2 bytes: two whole sectors, and one of which a single half word is written,
    which is partial; a sector with 3 half words has a broken word besides."""
    _, store = counts("bf16", 1, 1, n=35, grid=(1, 1, 1))
    assert (store.warp_sectors, store.partial, store.fragments) == (3, 1, 1)


def test_every_element_is_held_once() -> None:
    layout = Blocked((1, 4), (4, 8), (2, 2), (1, 0))
    threads = _thread_map("#b", (16, 64), (("#b", layout),), 4)
    assert threads.elements.shape == (4, 8, 32)
    assert sorted(threads.elements.reshape(-1)) == list(range(16 * 64))
    assert list(threads.elements[0, :4, 0]) == [0, 1, 2, 3]
    assert list(threads.elements[0, 0, :9]) == [0, 4, 8, 12, 16, 20, 24, 28, 64]
    assert threads.vector == 4


def test_a_small_tensor_is_held_by_many_threads() -> None:
    layout = Blocked((1,), (32,), (4,), (0,))
    threads = _thread_map("#b", (16,), (("#b", layout),), 4)
    assert threads.elements.shape == (4, 1, 32)
    assert list(threads.elements[3, 0, :17]) == [*range(16), 0]


REDUCE = """
#blocked = #ttg.blocked<{{sizePerThread = [{per_thread}, 1], threadsPerWarp = [32, 1], warpsPerCTA = [{along}, {across}], order = [0, 1]}}>
#loc = loc("k.py":1:0)
module attributes {{"ttg.num-warps" = 8 : i32}} {{
  tt.func public @sum(%x: !tt.ptr<f32>) attributes {{noinline = false}} {{
    %v = arith.constant dense<0.000000e+00> : tensor<{rows}x8xf32, #blocked>
    %s = "tt.reduce"(%v) <{{axis = 1 : i32}}> ({{
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      tt.reduce.return %c : f32
    }}) : (tensor<{rows}x8xf32, #blocked>) -> tensor<{rows}xf32, #ttg.slice<{{dim = 1, parent = #blocked}}>>
    tt.return
  }}
}}
"""


@pytest.mark.parametrize(
    ("per_thread", "along", "across", "cycles"),
    [
        # 8 warps hold parts of one sum, a thread 4 rows: lanes are 4 × 8 = 32 words apart, all in
        # one bank. 31 cycles too many for each of 4 stores and 4 loads of 8 warps.
        (4, 1, 8, 31 * 4 * 2 * 8),
        # One row for each lane: 8 words apart, 4 banks for 32 lanes: 7 cycles too many, once.
        (1, 1, 8, 7 * 1 * 2 * 8),
        # Two warps hold parts, four are for other rows: 2 words apart, 16 banks.
        (1, 4, 2, 1 * 1 * 2 * 8),
        # One warp holds all parts of a sum: nothing is exchanged.
        (1, 8, 1, 0),
    ],
)
def test_bank_conflicts_of_a_reduction(
    per_thread: int, along: int, across: int, cycles: int
) -> None:
    rows = 32 * per_thread * along
    text = REDUCE.format(per_thread=per_thread, along=along, across=across, rows=rows)
    module = parse_module(text)
    (run,) = run_programs(module, {}, (1, 1, 1), [(0, 0, 0)])
    ((reduction, weight),) = run.reductions
    assert weight == 1
    assert _count_bank_conflicts(reduction, module.layouts, 8) == cycles


def test_a_scan_is_no_reduction() -> None:
    """A scan keeps one part of each warp side by side: measured, it costs no bank conflicts."""
    text = REDUCE.format(per_thread=4, along=1, across=8, rows=128).replace("tt.reduce", "tt.scan")
    module = parse_module(text)
    (run,) = run_programs(module, {}, (1, 1, 1), [(0, 0, 0)])
    assert run.reductions == []
