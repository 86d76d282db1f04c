"""The work of a launch, joined of index arithmetic and machine code, against hand counts."""

from __future__ import annotations

import pytest

from perfcli.facts.binary.sass import parse_annotated
from perfcli.facts.work.launch_work import work_of
from perfcli.facts.work.timeline import trace_warp
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
    warp = trace_warp(parse_annotated(text), "k.py", {3: 1.0}, {3: (1.0, 1.0)})
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
    warp = trace_warp(parse_annotated(text), "k.py", {3: 1.0}, {})
    assert warp.local_bytes == (8 + 4) * 32
    # STL, LDL and EXIT issue in a cycle each; FADD waits 40 cycles for what is filled.
    assert warp.stall_cycles == pytest.approx(1 + 1 + 40 + 1)
