"""The work of a launch, joined of index arithmetic and machine code, against hand counts."""

# ruff: noqa: E501 (TTGIR has long lines)
from __future__ import annotations

import pytest

from perfcli.facts.binary.sass import parse_annotated
from perfcli.facts.work.launch_work import work_of
from perfcli.facts.work.timeline import _Code, _widths_of, trace_warp
from perfcli.facts.work.ttgir import parse_module

from .test_programs import LOOP

# The loop of LOOP, unrolled twice: two loads of two floats under way, then both are used.
SASS = """
  // k.py:1
        /*0000*/                   MOV R1, c[0x0][0x28] ;
.L_x_0:
  // k.py:8
        /*0010*/                   LDG.E.64 R4, desc[UR4][R2.64] ;
        /*0020*/                   LDG.E.64 R6, desc[UR4][R2.64+0x100] ;
        /*0030*/                   FADD R8, R4, R6 ;
  // k.py:7
        /*0040*/                   ISETP.NE.AND P0, PT, R0, RZ, PT ;
        /*0050*/               @P0 BRA `(.L_x_0) ;
  // k.py:1
        /*0060*/                   EXIT ;
"""


def test_a_looped_kernel() -> None:
    work = work_of(parse_module(LOOP), parse_annotated(SASS), "k.py", (8, 1, 1), {"n": 1024})
    assert work.blocks == 8
    # A row of 1024 floats: 16 trips of one warp, each 256 bytes: 2 lines, 8 sectors.
    assert work.traffic.requests == 16
    assert work.traffic.lines == 32
    assert work.traffic.load_sectors == 128
    assert work.traffic.touched == {"in": 128}
    # 16 iterations of the source are 8 of the machine code, which holds the line's load twice.
    assert work.warp.global_loads == 16
    assert work.warp.issued["float"] == 8
    assert work.warp.rounds == 8  # both loads are under way when the first is waited for
    assert work.warp.total == 1 + 8 * 5 + 1
    assert not work.indirect
    assert not work.unknown_loops


def test_a_path_that_only_huge_arguments_take_counts_nothing() -> None:
    """A branch jumps over a loop that stores to local memory and loads nothing of the source."""
    text = """
  // k.py:3
        /*0000*/                   FSETP.GE.AND P1, PT, R1, R2, PT ;
        /*0010*/              @!P1 BRA `(.L_x_2) ;
.L_x_1:
        /*0020*/                   STL [R5], R6 ;
        /*0030*/               @P0 BRA `(.L_x_1) ;
.L_x_2:
        /*0040*/                   STG.E desc[UR4][R2.64], R4 ;
        /*0050*/                   EXIT ;
"""
    warp = trace_warp(_Code(parse_annotated(text), "k.py"), {3: 1.0}, {3: (1.0, 1.0)})
    assert warp.local_bytes == 0
    assert warp.issued["global-store"] == 1


def test_spills_are_bytes_of_all_lanes() -> None:
    text = """
  // k.py:3
        /*0000*/                   STL.64 [R1], R4 ;
        /*0010*/                   LDL R6, [R1] ;
        /*0020*/                   FADD R7, R6, R6 ;
        /*0030*/                   EXIT ;
"""
    warp = trace_warp(_Code(parse_annotated(text), "k.py"), {3: 1.0}, {})
    assert warp.local_bytes == (8 + 4) * 32
    # STL, LDL and EXIT issue in a cycle each; FADD waits 40 cycles for what is filled.
    assert warp.stall_cycles == pytest.approx(1 + 1 + 40 + 1)


# A loop that the compiler unrolled four times, and what it adds for a number of iterations that it
# does not know: a second loop for what remains.
REMAINDER = """
  // k.py:1
        /*0000*/                   MOV R1, c[0x0][0x28] ;
.L_x_0:
  // k.py:8
        /*0010*/                   LDG.E.64 R4, desc[UR4][R2.64] ;
        /*0020*/                   LDG.E.64 R6, desc[UR4][R2.64+0x100] ;
        /*0030*/                   LDG.E.64 R8, desc[UR4][R2.64+0x200] ;
        /*0040*/                   LDG.E.64 R10, desc[UR4][R2.64+0x300] ;
        /*0050*/                   FADD R12, R4, R10 ;
        /*0060*/               @P0 BRA `(.L_x_0) ;
.L_x_1:
        /*0070*/                   LDG.E.64 R4, desc[UR4][R2.64] ;
        /*0080*/                   FADD R12, R4, R10 ;
        /*0090*/               @P1 BRA `(.L_x_1) ;
  // k.py:1
        /*00a0*/                   EXIT ;
"""


@pytest.mark.parametrize(("columns", "main", "rest"), [(1024, 4, 0), (1152, 4, 2)])
def test_what_remains_of_an_unrolled_loop_runs_for_the_rest(
    columns: int, main: int, rest: int
) -> None:
    """16 iterations are 4 of the unrolled loop and none of the other; 18 leave 2 for it."""
    work = work_of(
        parse_module(LOOP), parse_annotated(REMAINDER), "k.py", (8, 1, 1), {"n": columns}
    )
    assert work.warp.global_loads == 4 * main + rest
    assert work.warp.issued["float"] == main + rest
    assert work.warp.rounds == main + rest
    assert work.warp.near_rounds == 0  # every iteration loads another part of the row


def test_loads_of_one_address_do_not_hide_how_often_a_loop_was_unrolled() -> None:
    """A line whose loads the compiler does not merge has 8 where the index arithmetic sees one
    address: it does not make an iteration of the machine code stand for 8."""
    text = """
.L_x_0:
  // k.py:8
        /*0010*/                   LDG.E R4, desc[UR4][R2.64] ;
  // k.py:9
        /*0020*/                   LDG.E R5, desc[UR4][R2.64] ;
        /*0030*/                   LDG.E R6, desc[UR4][R2.64] ;
        /*0040*/                   LDG.E R7, desc[UR4][R2.64] ;
        /*0050*/                   LDG.E R8, desc[UR4][R2.64] ;
        /*0060*/               @P0 BRA `(.L_x_0) ;
  // k.py:1
        /*00a0*/                   EXIT ;
"""
    runs = {8: 64.0, 9: 64.0}
    accesses = {8: (1.0, 1.0), 9: (1.0, 4.0)}
    warp = trace_warp(_Code(parse_annotated(text), "k.py"), runs, accesses)
    assert warp.global_loads == 64 * 5


def test_what_the_block_loaded_before_is_told_apart() -> None:
    text = """
  // k.py:8
        /*0010*/                   LDG.E R4, desc[UR4][R2.64] ;
        /*0020*/                   FADD R6, R4, R4 ;
  // k.py:9
        /*0030*/                   LDG.E R5, desc[UR4][R2.64] ;
        /*0040*/                   FADD R7, R5, R5 ;
        /*0050*/                   EXIT ;
"""
    accesses = {8: (1.0, 1.0), 9: (1.0, 1.0)}
    known = {8: (0.0, 0.0), 9: (0.25, 0.75)}
    warp = trace_warp(_Code(parse_annotated(text), "k.py"), {8: 1.0, 9: 1.0}, accesses, known)
    assert (warp.rounds, warp.near_rounds, warp.again_rounds) == (2, 0.25, 0.75)


@pytest.mark.parametrize(("left", "rounds"), [("0x0", 16.0), ("0x2", 8.0), ("0x4", 16 / 3)])
def test_copies_that_were_begun_iterations_ahead_cost_a_part_of_a_round(
    left: str, rounds: float
) -> None:
    """Each iteration begins two groups of copies; with two left under way every wait is for copies
    that were begun two iterations ago: two iterations share one round."""
    text = f"""
.L_x_0:
  // k.py:8
        /*0010*/                   LDGSTS.E.BYPASS.128 [R49], desc[UR8][R2.64] ;
        /*0020*/                   LDGDEPBAR ;
        /*0030*/                   LDGSTS.E.BYPASS.128 [R50], desc[UR8][R4.64] ;
        /*0040*/                   LDGDEPBAR ;
        /*0050*/                   DEPBAR.LE SB0, {left} ;
        /*0060*/               @P0 BRA `(.L_x_0) ;
  // k.py:1
        /*00a0*/                   EXIT ;
"""
    warp = trace_warp(_Code(parse_annotated(text), "k.py"), {8: 16.0}, {8: (2.0, 2.0)})
    assert warp.rounds == pytest.approx(rounds)


def test_a_loop_without_memory_tells_by_its_counter_how_far_it_was_unrolled() -> None:
    """The source adds 2048 to its counter 25 times, the machine code 0x6000 = 12 × 2048: its two
    additions run 25 / 12 times. The comparison of 64 bits takes two instructions."""
    text = """
.L_x_0:
  // k.py:7
        /*0010*/                   IADD3 R13, P3, R13, 0x6000, RZ ;
        /*0020*/                   IMAD.X R14, RZ, RZ, R14, P3 ;
        /*0030*/                   ISETP.GE.U32.AND P0, PT, R13, 0xc451, PT ;
        /*0040*/                   ISETP.GE.U32.AND.EX P0, PT, R14, RZ, PT, P0 ;
  // k.py:8
        /*0050*/                   FADD R8, R4, R8 ;
        /*0060*/                   FADD R9, R5, R9 ;
  // k.py:7
        /*0070*/              @!P0 BRA `(.L_x_0) ;
  // k.py:1
        /*0080*/                   EXIT ;
"""
    runs = {7: 1.0, 8: 25.0}
    warp = trace_warp(_Code(parse_annotated(text), "k.py"), runs, {}, counters={7: (25, 2048)})
    assert warp.issued["float"] == pytest.approx(2 * 25 / 12)


def test_a_counter_that_proves_one_iteration_outweighs_the_number_of_loads() -> None:
    """The counter grows by 4 as in the source, 16 times. That the machine code loads twice where
    the index arithmetic needs one load says nothing of unrolling: the mask split it in two."""
    text = """
.L_x_0:
  // k.py:7
        /*0010*/                   IADD3 R6, R6, 0x4, RZ ;
        /*0020*/                   ISETP.GE.U32.AND P0, PT, R6, 0x40, PT ;
  // k.py:8
        /*0030*/                   LDG.E R4, desc[UR4][R2.64] ;
        /*0040*/                   LDG.E R5, desc[UR4][R2.64+0x4] ;
  // k.py:7
        /*0050*/              @!P0 BRA `(.L_x_0) ;
  // k.py:1
        /*0060*/                   EXIT ;
"""
    code, runs = _Code(parse_annotated(text), "k.py"), {7: 1.0, 8: 16.0}
    accesses = {8: (1.0, 1.0)}
    warp = trace_warp(code, runs, accesses, counters={7: (16, 4)})
    assert warp.global_loads == 16 * 2
    # Without a counter the loads decide: two of them are two iterations.
    assert trace_warp(code, runs, accesses).global_loads == 8 * 2


def test_a_register_that_counts_bytes_tells_no_unrolling() -> None:
    """It grows by 32 where the source's counter grows by 4, but it is compared with 32 × 16: the
    loop runs 16 times, not twice."""
    text = """
.L_x_0:
  // k.py:7
        /*0010*/                   IADD3 R6, R6, 0x20, RZ ;
        /*0020*/                   ISETP.GE.U32.AND P0, PT, R6, 0x200, PT ;
  // k.py:8
        /*0030*/                   FADD R8, R4, R8 ;
  // k.py:7
        /*0040*/              @!P0 BRA `(.L_x_0) ;
  // k.py:1
        /*0050*/                   EXIT ;
"""
    code = _Code(parse_annotated(text), "k.py")
    warp = trace_warp(code, {7: 1.0, 8: 16.0}, {}, counters={7: (16, 4)})
    assert warp.issued["float"] == 16


def test_the_width_of_an_access_is_that_of_the_machine_code() -> None:
    """The index arithmetic would allow 16 bytes at a time; a mask of an odd size does not."""
    code = _Code(parse_annotated(SASS.replace("LDG.E.64", "LDG.E")), "k.py")
    assert _widths_of(code) == {(8, "load"): 4}
    work = work_of(parse_module(LOOP), code.listing, "k.py", (8, 1, 1), {"n": 1024})
    # Two loads of one float each where one of two floats would do: twice the requests.
    assert work.traffic.requests == 32


@pytest.mark.parametrize(
    ("element", "retries"), [("bf16", True), ("f32", False)], ids=["16 bits", "32 bits"]
)
def test_updates_of_half_words_are_tried_again(element: str, retries: bool) -> None:
    text = f"""
#b = #ttg.blocked<{{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [1], order = [0]}}>
#loc = loc("k.py":1:0)
module attributes {{"ttg.num-warps" = 1 : i32}} {{
  tt.func public @add(%out: !tt.ptr<{element}>) attributes {{noinline = false}} {{
    %v = arith.constant dense<1.000000e+00> : tensor<32x{element}, #b>
    %i = tt.make_range {{end = 32 : i32, start = 0 : i32}} : tensor<32xi32, #b>
    %p = tt.splat %out : !tt.ptr<{element}> -> tensor<32x!tt.ptr<{element}>, #b>
    %q = tt.addptr %p, %i : tensor<32x!tt.ptr<{element}>, #b>, tensor<32xi32, #b>
    %old = tt.atomic_rmw fadd, relaxed, gpu, %q, %v : (tensor<32x!tt.ptr<{element}>, #b>, tensor<32x{element}, #b>) -> tensor<32x{element}, #b>
    tt.return
  }}
}}
"""
    sass = """
.L_x_0:
  // k.py:1
        /*0010*/                   ATOMG.E.CAS.STRONG.GPU PT, R4, [R2], R5, R4 ;
        /*0020*/               @P0 BRA `(.L_x_0) ;
        /*0030*/                   EXIT ;
"""
    work = work_of(parse_module(text), parse_annotated(sass), "k.py", (4, 1, 1))
    assert work.traffic.atomic_updates == 32
    assert work.retries is retries
