"""What loads and stores ask for, line by line, against hand counts."""

# ruff: noqa: E501 (TTGIR has long lines)
from __future__ import annotations

import pytest

from perfcli.facts.work.accesses import count_access
from perfcli.facts.work.memory_accesses import MemoryAccesses, name_axes
from perfcli.facts.work.programs import run_programs
from perfcli.facts.work.ttgir import parse_module
from perfcli.model import MemoryAccess

# out[x, y] = in[y, x] of 256 x 256 floats by tiles of 32 x 32: in is read along x by the threads,
# which is its slow axis; out is written along y, its fast one.
TRANSPOSE = """
#blocked = #ttg.blocked<{{sizePerThread = [1, 1], threadsPerWarp = [32, 1], warpsPerCTA = [1, 4], order = [0, 1]}}>
#loc = loc("k.py":1:0)
#loc7 = loc("k.py":7:0)
#loc8 = loc("k.py":8:0)
module attributes {{"ttg.num-warps" = 4 : i32}} {{
  tt.func public @transpose(%in: !tt.ptr<f32>, %out: !tt.ptr<f32>, %index: !tt.ptr<i64>) attributes {{noinline = false}} {{
    %rows = arith.constant dense<256> : tensor<1x32xi32, #blocked>
    %columns = arith.constant dense<256> : tensor<32x1xi32, #blocked>
    %a = tt.make_range {{end = 32 : i32, start = 0 : i32}} : tensor<32xi32, #ttg.slice<{{dim = 1, parent = #blocked}}>>
    %b = tt.make_range {{end = 32 : i32, start = 0 : i32}} : tensor<32xi32, #ttg.slice<{{dim = 0, parent = #blocked}}>>
    %x = tt.expand_dims %a {{axis = 1 : i32}} : tensor<32xi32, #ttg.slice<{{dim = 1, parent = #blocked}}>> -> tensor<32x1xi32, #blocked>
    %y = tt.expand_dims %b {{axis = 0 : i32}} : tensor<32xi32, #ttg.slice<{{dim = 0, parent = #blocked}}>> -> tensor<1x32xi32, #blocked>
    {extra}
    %slow = arith.muli {row}, %columns : tensor<32x1xi32, #blocked>
    %s = tt.broadcast %slow : tensor<32x1xi32, #blocked> -> tensor<32x32xi32, #blocked>
    %t = tt.broadcast %y : tensor<1x32xi32, #blocked> -> tensor<32x32xi32, #blocked>
    %i = arith.addi %s, %t : tensor<32x32xi32, #blocked>
    %p = tt.splat %in : !tt.ptr<f32> -> tensor<32x32x!tt.ptr<f32>, #blocked>
    %q = tt.addptr %p, %i : tensor<32x32x!tt.ptr<f32>, #blocked>, tensor<32x32xi32, #blocked>
    %v = tt.load %q : tensor<32x32x!tt.ptr<f32>, #blocked> loc(#loc7)
    %far = arith.muli %y, %rows : tensor<1x32xi32, #blocked>
    %f = tt.broadcast %far : tensor<1x32xi32, #blocked> -> tensor<32x32xi32, #blocked>
    %u = tt.broadcast %x : tensor<32x1xi32, #blocked> -> tensor<32x32xi32, #blocked>
    %j = arith.addi %f, %u : tensor<32x32xi32, #blocked>
    %r = tt.splat %out : !tt.ptr<f32> -> tensor<32x32x!tt.ptr<f32>, #blocked>
    %w = tt.addptr %r, %j : tensor<32x32x!tt.ptr<f32>, #blocked>, tensor<32x32xi32, #blocked>
    tt.store %w, %v : tensor<32x32x!tt.ptr<f32>, #blocked> loc(#loc8)
    tt.return
  }}
}}
"""
LOADED = """%pi = tt.splat %index : !tt.ptr<i64> -> tensor<32x1x!tt.ptr<i64>, #blocked>
    %qi = tt.addptr %pi, %x : tensor<32x1x!tt.ptr<i64>, #blocked>, tensor<32x1xi32, #blocked>
    %l = tt.load %qi : tensor<32x1x!tt.ptr<i64>, #blocked>
    %m = arith.trunci %l : tensor<32x1xi64, #blocked> to tensor<32x1xi32, #blocked>"""
FLOATING = """%g = arith.sitofp %x : tensor<32x1xi32, #blocked> to tensor<32x1xf32, #blocked>
    %m = arith.fptosi %g : tensor<32x1xf32, #blocked> to tensor<32x1xi32, #blocked>"""


def count(
    extra: str = "", row: str = "%x", axes: tuple[str, ...] = ("x", "y")
) -> dict[str, MemoryAccess]:
    """The accesses of the tile by argument."""
    module = parse_module(TRANSPOSE.format(extra=extra, row=row))
    (run,) = run_programs(module, {}, (1, 1, 1), [(0, 0, 0)])
    accesses = MemoryAccesses()
    for event in run.events:
        accesses.add(event, count_access(event, module.layouts, 4), 1.0)
    return {a.argument: a for a in accesses.sum_up(module.layouts, 4, axes)}


def test_a_tile_that_is_read_along_the_slow_axis() -> None:
    """8 requests for each of 4 warps; a warp's 32 floats are in 32 sectors where 4 would do. The
    tile's rows of 128 bytes are 4 whole sectors each, so that the block uses all that comes."""
    found = count()["in"]
    assert (found.kind, found.line, found.element_bytes) == ("load", 7, 4)
    assert (found.requests, found.sectors, found.needed) == (32, 32 * 32, 32 * 4)
    assert (found.touched, found.used, found.waste) == (128, 128, 8)
    assert (found.along, found.apart, found.steps) == ("x", 1024, {"x": 1024, "y": 4})


def test_the_same_tile_written_along_the_fast_axis() -> None:
    found = count()["out"]
    assert (found.kind, found.line, found.waste) == ("store", 8, 1)
    assert (found.along, found.apart, found.steps) == ("x", 4, {"x": 4, "y": 1024})


def test_an_index_that_is_loaded_is_not_taken_as_coalesced() -> None:
    found = count(LOADED, "%m")
    assert (found["in"].indirect, found["in"].waste) == (True, None)
    assert (found["index"].indirect, found["index"].waste) == (False, 1)


def test_an_index_that_can_not_be_computed_is_unknown_and_not_coalesced() -> None:
    """Without its slow part the address would look like that of one row of 128 bytes."""
    found = count(FLOATING, "%m")["in"]
    assert (found.known, found.waste, found.steps, found.apart) == (False, None, {}, 0)


def test_axes_without_names_are_numbered() -> None:
    assert count(axes=())["in"].steps == {"axis 0": 1024, "axis 1": 4}


@pytest.mark.parametrize(
    ("lines", "names"),
    [
        (["    xindex = xoffset + tl.arange(0, XBLOCK)[:]"], ("x",)),
        (
            [
                "    yindex = yoffset + tl.arange(0, YBLOCK)[:, None]",
                "    xindex = xoffset + tl.arange(0, XBLOCK)[None, :]",
            ],
            ("y", "x"),
        ),
        (
            [
                "    xindex = xoffset + tl.arange(0, XBLOCK)[:, None]",
                "    r0_base = tl.arange(0, R0_BLOCK)[None, :]",
            ],
            ("x", "r0_"),
        ),
        (
            [  # two kernels in one that name the same axis differently
                "        xindex = xoffset + tl.arange(0, XBLOCK)[:]",
                "        yindex = yoffset + tl.arange(0, YBLOCK)[:]",
            ],
            (),
        ),
        (["    pass"], ()),
    ],
)
def test_names_of_axes(lines: list[str], names: tuple[str, ...]) -> None:
    assert name_axes("\n".join(lines)) == names
