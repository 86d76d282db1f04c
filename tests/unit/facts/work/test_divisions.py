"""Which source lines divide indices."""

# ruff: noqa: E501 (TTGIR has long lines)
from __future__ import annotations

from perfcli.facts.binary.sass import parse_annotated
from perfcli.facts.work.divisions import find_divisions
from perfcli.facts.work.programs import run_programs
from perfcli.facts.work.timeline import _Code, trace_warp
from perfcli.facts.work.ttgir import parse_module

TEXT = """
#blocked = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
#loc = loc("k.py":1:0)
#loc2 = loc("k.py":2:0)
#loc3 = loc("k.py":3:0)
#loc4 = loc("k.py":4:0)
#loc5 = loc("k.py":5:0)
#loc6 = loc("k.py":6:0)
module attributes {"ttg.num-warps" = 4 : i32} {
  tt.func public @k(%in: !tt.ptr<f32>, %ks0: i64) attributes {noinline = false} {
    %c-8_i64 = arith.constant -8 : i64
    %by = arith.constant dense<64> : tensor<128xi64, #blocked>
    %odd = arith.constant dense<520> : tensor<128xi64, #blocked>
    %r = tt.make_range {end = 128 : i32, start = 0 : i32} : tensor<128xi32, #blocked>
    %x = arith.extsi %r : tensor<128xi32, #blocked> to tensor<128xi64, #blocked>
    %k = tt.splat %ks0 : i64 -> tensor<128xi64, #blocked>
    %x0 = arith.remsi %x, %k : tensor<128xi64, #blocked> loc(#loc2)
    %x1 = arith.divsi %x, %odd : tensor<128xi64, #blocked> loc(#loc3)
    %x2 = arith.divsi %x, %by : tensor<128xi64, #blocked> loc(#loc4)
    %n = arith.divsi %ks0, %ks0 : i64 loc(#loc5)
    %s = arith.muli %ks0, %c-8_i64 : i64
    %t = tt.splat %s : i64 -> tensor<128xi64, #blocked>
    %i = arith.addi %x, %t : tensor<128xi64, #blocked>
    %x3 = arith.remsi %i, %k : tensor<128xi64, #blocked> loc(#loc6)
    %p = tt.splat %in : !tt.ptr<f32> -> tensor<128x!tt.ptr<f32>, #blocked>
    %q = tt.addptr %p, %i : tensor<128x!tt.ptr<f32>, #blocked>, tensor<128xi64, #blocked>
    %v = tt.load %q : tensor<128x!tt.ptr<f32>, #blocked> loc(#loc6)
    tt.return
  }
}
"""
SASS = """
  // k.py:1
        /*0000*/                   MOV R1, c[0x0][0x28] ;
  // k.py:2
        /*0010*/                   I2F.U32.RP R0, R1 ;
        /*0020*/                   MUFU.RCP R0, R0 ;
        /*0030*/                   F2I.FTZ.U32.TRUNC.NTZ R3, R0 ;
        /*0040*/                   IMAD.HI.U32 R3, R3, R5, R2 ;
  // k.py:4
        /*0050*/                   SHF.R.S32.HI R4, RZ, 0x6, R2 ;
  // k.py:6
        /*0060*/                   LDG.E R6, [R4.64] ;
        /*0070*/                   EXIT ;
"""


def test_lines_that_divide_every_element() -> None:
    """By a size that only a run knows, and by 520. Not: by 64, a shift; of one number; on a line
    that loads as well, whose instructions are mixed."""
    assert find_divisions(parse_module(TEXT)) == {2, 3}


def test_their_instructions_are_counted_apart() -> None:
    module = parse_module(TEXT)
    code = _Code(parse_annotated(SASS), "k.py")
    warp = trace_warp(code, dict.fromkeys(range(1, 7), 1.0), {}, dividing=find_divisions(module))
    assert warp.total == 8
    assert warp.divided == {"conversion": 2, "special": 1, "integer": 1}


def test_a_negative_constant_has_a_minus_in_its_name() -> None:
    """The address is 8 times 3 elements before the index: it is known."""
    (run,) = run_programs(parse_module(TEXT), {"ks0": 3}, (1, 1, 1), [(0, 0, 0)])
    (event,) = run.events
    assert event.known
    assert int(event.offset.reshape(-1)[30]) == (30 - 24) * 4
