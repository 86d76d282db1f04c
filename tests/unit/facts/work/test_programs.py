"""Trip counts and addresses of programs, against what the loop says."""

# ruff: noqa: E501 (TTGIR has long lines)
from __future__ import annotations

import pytest

from perfcli.facts.work.accesses import count_access
from perfcli.facts.work.programs import _sample_programs, run_programs
from perfcli.facts.work.ttgir import UnreadableTtgir, parse_module

# for r in range(0, n, 64): load(in + pid * n + r + lanes); grid of one program per row.
LOOP = """
#blocked = #ttg.blocked<{sizePerThread = [2], threadsPerWarp = [32], warpsPerCTA = [1], order = [0]}>
#loc = loc("k.py":1:0)
#loc1 = loc("k.py":7:4)
#loc2 = loc("k.py":8:4)
module attributes {"ttg.num-warps" = 1 : i32} {
  tt.func public @rows(%in: !tt.ptr<f32>, %n: i32) attributes {noinline = false} {
    %c0 = arith.constant 0 : i32
    %c64 = arith.constant 64 : i32
    %pid = tt.get_program_id x : i32
    %row = arith.muli %pid, %n : i32
    %lanes = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32, #blocked>
    %total = scf.for %r = %c0 to %n step %c64 iter_args(%sum = %c0) -> (i32)  : i32 {
      %first = arith.addi %row, %r : i32 loc(#loc2)
      %start = tt.splat %first : i32 -> tensor<64xi32, #blocked> loc(#loc2)
      %i = arith.addi %start, %lanes : tensor<64xi32, #blocked> loc(#loc2)
      %p = tt.splat %in : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>, #blocked> loc(#loc2)
      %q = tt.addptr %p, %i : tensor<64x!tt.ptr<f32>, #blocked>, tensor<64xi32, #blocked> loc(#loc2)
      %v = tt.load %q : tensor<64x!tt.ptr<f32>, #blocked> loc(#loc2)
      scf.yield %sum : i32 loc(#loc1)
    } loc(#loc1)
    tt.return
  }
}
"""


def test_a_loop_runs_as_often_as_its_bounds_say() -> None:
    module = parse_module(LOOP)
    (run,) = run_programs(module, {"n": 1000}, (8, 1, 1), [(0, 0, 0), (7, 0, 0)])
    assert run.trips == {7: 16}  # ⌈1000 / 64⌉
    assert run.line_runs[8] == 16
    assert [event.weight for event in run.events] == [8, 8]
    first = run.events[0]
    # The middle iterations stand for all: r = 8 · 64 in program 0, and behind 7 rows in program 7.
    assert first.offset.reshape(2, -1)[:, 0].tolist() == [8 * 64 * 4, (7 * 1000 + 8 * 64) * 4]


def test_a_name_of_an_earlier_region_says_nothing_of_a_later_one() -> None:
    """Names are unique within a region: what was loaded in one loop is an index in the next."""
    first = LOOP[LOOP.index("    %total") : LOOP.index("    tt.return")]
    second = first.replace("%v =", "%w =").replace("%i =", "%v =").replace(", %i :", ", %v :")
    text = LOOP.replace("    tt.return", second.replace("%total", "%again") + "    tt.return")
    (run,) = run_programs(parse_module(text), {"n": 1000}, (8, 1, 1), [(0, 0, 0)])
    assert [event.indirect for event in run.events] == [False] * 4


def test_a_size_that_nobody_knows_is_said() -> None:
    (run,) = run_programs(parse_module(LOOP), {}, (8, 1, 1), [(0, 0, 0)])
    assert run.unknown_loops


def test_a_text_that_is_cut_off_is_refused() -> None:
    with pytest.raises(UnreadableTtgir, match="cut off"):
        parse_module(LOOP[: LOOP.index("scf.yield")])


@pytest.mark.parametrize(("total", "count"), [(1, 4), (4, 4), (1000, 4), (100_000, 48)])
def test_programs_are_spread_over_the_grid(total: int, count: int) -> None:
    found = _sample_programs((total, 1, 1), count)
    assert found[0] == (0, 0, 0)
    assert found[-1] == (total - 1, 0, 0)
    assert len(set(found)) == min(total, count)


PIPELINED = """
#blocked = #ttg.blocked<{sizePerThread = [8], threadsPerWarp = [32], warpsPerCTA = [1], order = [0]}>
#loc = loc("k.py":1:0)
#loc3 = loc("k.py":3:0)
module attributes {"ttg.num-warps" = 1 : i32} {
  tt.func public @rows(%in: !tt.ptr<bf16>, %rows: i32) attributes {noinline = false} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c4 = arith.constant 4 : i32
    %width = arith.constant dense<256> : tensor<256xi32, #blocked>
    %k = tt.make_range {end = 256 : i32, start = 0 : i32} : tensor<256xi32, #blocked>
    %p = tt.splat %in : !tt.ptr<bf16> -> tensor<256x!tt.ptr<bf16>, #blocked>
    %buffer = ttg.local_alloc : () -> !ttg.memdesc<2x256xbf16, #shared, #smem, mutable>
    scf.for %r = %c0 to %c4 step %c1  : i32 {
      %row = tt.splat %r : i32 -> tensor<256xi32, #blocked>
      %at = arith.muli %row, %width : tensor<256xi32, #blocked>
      %i = arith.addi %at, %k : tensor<256xi32, #blocked>
      %q = tt.addptr %p, %i : tensor<256x!tt.ptr<bf16>, #blocked>, tensor<256xi32, #blocked>
      %left = arith.cmpi slt, %r, %rows : i32
      %mask = tt.splat %left : i1 -> tensor<256xi1, #blocked>
      %slot = ttg.memdesc_index %buffer[%c0] : !ttg.memdesc<2x256xbf16, #shared, #smem, mutable> -> !ttg.memdesc<256xbf16, #shared, #smem, mutable>
      %token = ttg.async_copy_global_to_local %q, %slot mask %mask evictionPolicy = evict_first {contiguity = 8 : i32} : tensor<256x!tt.ptr<bf16>, #blocked> -> <256xbf16, #shared, #smem, mutable> loc(#loc3)
      %group = ttg.async_commit_group tokens %token
    }
    tt.return
  }
}
"""


@pytest.mark.parametrize(("rows", "loaded"), [(8, 4 * 512), (0, 0)])
def test_a_copy_that_a_pipelined_loop_begins_ahead_is_a_load(rows: int, loaded: int) -> None:
    """Four rows of 256 bf16 numbers; what the mask leaves out is not loaded."""
    (run,) = run_programs(parse_module(PIPELINED), {"rows": rows}, (1, 1, 1), [(0, 0, 0)])
    assert {event.kind for event in run.events} == {"load"}
    module = parse_module(PIPELINED)
    counts = [count_access(event, module.layouts, 1) for event in run.events]
    assert sum(c.useful_bytes * e.weight for c, e in zip(counts, run.events, strict=True)) == loaded


def in_kernel(*lines: str) -> str:
    """A kernel of one program per block that runs these lines."""
    body = "\n".join(f"    {line}" for line in lines)
    return f"""
#blocked = #ttg.blocked<{{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [1], order = [0]}}>
module attributes {{"ttg.num-warps" = 1 : i32}} {{
  tt.func public @k(%in: !tt.ptr<f32>, %n: i32, %m: i32) attributes {{noinline = false}} {{
{body}
    tt.return
  }}
}}
"""


LOAD = "%v = tt.load %p : tensor<32x!tt.ptr<f32>, #blocked>"
SCALAR = "%v = tt.load %in : !tt.ptr<f32>"


@pytest.mark.parametrize(
    ("lines", "name"),
    [
        (["%t = tt.descriptor_load %d[%n, %n] : !tt.tensordesc<tensor<8x8xf32>> -> tensor<8x8xf32, #blocked>"], "tt.descriptor_load"),
        (["%t = tt.make_tensor_descriptor %in, [%n], [%n] : <f32>, <tensor<8xf32>>"], "tt.make_tensor_descriptor"),
        (["ttng.async_tma_copy_global_to_local %d[%n] %s, %b, %y : !tt.ptr<i8> -> !ttg.memdesc<8xf32>"], "ttng.async_tma_copy_global_to_local"),
        (["tt.experimental_descriptor_scatter %d[%x, %n], %v : tensor<8xf32, #blocked>"], "tt.experimental_descriptor_scatter"),
        ([LOAD], "tt.load"),
        (["tt.store %p, %v : tensor<32x!tt.ptr<f32>, #blocked>"], "tt.store"),
        (["%o = tt.atomic_rmw fadd, relaxed, gpu, %p, %v : (!tt.ptr<f32>, f32) -> f32"], "tt.atomic_rmw"),
        (["%o = tt.atomic_cas relaxed, gpu, %p, %v, %v : (!tt.ptr<f32>, f32, f32) -> f32"], "tt.atomic_cas"),
        (["%o = ttg.async_copy_global_to_local %p, %s : !tt.ptr<f32> -> <f32>"], "ttg.async_copy_global_to_local"),
        (["ttg.warp_specialize(%in) {", SCALAR, "}"], "tt.load"),
        (["%o = tt.call @elsewhere(%in) : (!tt.ptr<f32>) -> f32"], "tt.call"),
    ],
)  # fmt: skip
def test_what_moves_memory_in_an_unknown_way_is_not_taken_to_move_nothing(
    lines: list[str], name: str
) -> None:
    with pytest.raises(UnreadableTtgir, match=rf"what {name} reads and writes is not known"):
        run_programs(parse_module(in_kernel(*lines)), {"n": 8}, (1, 1, 1), [(0, 0, 0)])


def test_what_stays_on_the_chip_moves_no_global_memory() -> None:
    text = in_kernel(
        "%a = ttg.local_alloc %x : (tensor<32xf32, #blocked>) -> !ttg.memdesc<32xf32>",
        "ttg.local_store %x, %a : tensor<32xf32, #blocked> -> !ttg.memdesc<32xf32>",
        "%b = ttg.local_load %a : !ttg.memdesc<32xf32> -> tensor<32xf32, #blocked>",
        "%c = ttg.local_gather %a[%i] : !ttg.memdesc<32xf32> -> tensor<32xf32, #blocked>",
        "%d = ttng.tmem_load %a : !ttg.memdesc<32xf32> -> tensor<32xf32, #blocked>",
        "%e = tt.gather %b[%i] {axis = 0 : i32} : (tensor<32xf32>, tensor<32xi32>) -> tensor<32xf32>",
    )
    (run,) = run_programs(parse_module(text), {}, (1, 1, 1), [(0, 0, 0)])
    assert run.events == []


@pytest.mark.parametrize(
    ("operation", "n", "m", "index"),
    [
        ("ceildivsi", 10, 3, 4),
        ("ceildivsi", 9, 3, 3),
        ("ceildivsi", -10, 3, -3),
        ("ceildivui", 10, 3, 4),
        ("floordivsi", 10, 3, 3),
        ("floordivsi", -10, 3, -4),
        ("divsi", -10, 3, -3),
    ],
)
def test_divisions_round_as_they_are_defined(operation: str, n: int, m: int, index: int) -> None:
    text = in_kernel(
        f"%i = arith.{operation} %n, %m : i32",
        "%p = tt.addptr %in, %i : !tt.ptr<f32>, i32",
        "%v = tt.load %p : !tt.ptr<f32>",
    )
    (run,) = run_programs(parse_module(text), {"n": n, "m": m}, (1, 1, 1), [(0, 0, 0)])
    (event,) = run.events
    assert event.offset.tolist() == [4 * index]
