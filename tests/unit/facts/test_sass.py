from __future__ import annotations

from perfcli.facts.binary import sass
from perfcli.facts.binary.sass import Listing, PtxLines, annotate, parse_listing, read_ptx

LISTING = """
	.headerflags	@"EF_CUDA_TEXMODE_UNIFIED EF_CUDA_SM90 EF_CUDA_VIRTUAL_SM(EF_CUDA_SM90)"
        .type           k,@function
.text.k:
	//## File "/home/me/k.py", line 8
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0010*/              @!P0 LDG.E.128 R8, desc[UR4][R4.64] ;
.L_x_1:
	//## File "/lib/triton/standard.py", line 263 inlined at "/home/me/k.py", line 20
	//## File "/home/me/k.py", line 20
	//## File ".nv_debug_ptx_txt", line 7
        /*0020*/                   SHFL.BFLY PT, R6, R5, 0x10, 0x1f ;
	//## File ".nv_debug_ptx_txt", line 9
        /*0030*/               @P1 BRA `(.L_x_1) ;
        /*0040*/                   BRX R2 -0x50 (*"BRANCH_TARGETS .L_x_1,.L_x_2"*) ;
.L_x_2:
        /*0050*/                   NOP;
"""


def parsed() -> Listing:
    return parse_listing(LISTING)


def test_instructions_and_labels() -> None:
    listing = parsed()
    assert [i.name for i in listing.instructions] == ["LDC", "LDG", "SHFL", "BRA", "BRX", "NOP"]
    assert listing.labels == {".text.k": 0, ".L_x_1": 2, ".L_x_2": 5}
    assert listing.arch == 90


def test_parts_of_an_instruction() -> None:
    load = parsed().instructions[1]
    assert (load.predicate, load.opcode, load.operands) == (
        "@!P0",
        "LDG.E.128",
        "R8, desc[UR4][R4.64]",
    )


def test_targets() -> None:
    code = parsed().instructions
    assert code[3].targets == (".L_x_1",)
    assert code[4].targets == (".L_x_1", ".L_x_2")
    assert code[1].targets == ()


def test_places_from_the_cubin() -> None:
    places = [i.places for i in parsed().instructions]
    assert places[0] == places[1] == (("k.py", 8),)
    assert places[2] == places[3] == (("standard.py", 263), ("k.py", 20))


def test_places_from_the_ptx_come_first() -> None:
    chain = (("helper.py", 3), ("k.py", 11))
    code = parse_listing(LISTING, PtxLines(places={7: chain})).instructions
    assert code[2].places == chain
    assert code[3].places == (("standard.py", 263), ("k.py", 20))


def test_a_listing_for_readers() -> None:
    assert (
        annotate(LISTING, parsed())
        == """\
.text.k:
  // k.py:8
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0010*/              @!P0 LDG.E.128 R8, desc[UR4][R4.64] ;
.L_x_1:
  // standard.py:263 < k.py:20
        /*0020*/                   SHFL.BFLY PT, R6, R5, 0x10, 0x1f ;
        /*0030*/               @P1 BRA `(.L_x_1) ;
        /*0040*/                   BRX R2 -0x50 (*"BRANCH_TARGETS .L_x_1,.L_x_2"*) ;
.L_x_2:
"""
    )


def test_inlined_calls_in_ptx() -> None:
    ptx = """\
.visible .entry k(
{
	.loc	1 10 21                         // k.py:10:21
	mov.u32 	%r1, %tid.x;
	.loc	1 6 23                          // helper.py:6:23 @[ k.py:15:20 ]
	mul.lo.s32 	%r2, %r1, 4;
	add.s32 	%r3, %r2, 4;
	.loc	2 263 1 // standard.py:263:1 @[ standard.py:293:3 @[ k.py:20:9 ] ]
	add.s32 	%r4, %r2, 4;
	.loc	1 11 21                         // k.py:11:21
	ret;
"""
    inlined = (("helper.py", 6), ("k.py", 15))
    nested = (("standard.py", 263), ("standard.py", 293), ("k.py", 20))
    lines = read_ptx(ptx)
    assert lines.places == {5: inlined, 6: inlined, 7: inlined, 8: nested, 9: nested}
    assert lines.shifts == {}


def test_inline_assembly_counted_as_source_lines() -> None:
    # What LLVM writes for tl.load on line 16 with triton 3.9: two lines, so 16 and 17.
    ptx = """\
	.loc	1 16 11                         // k.py:16:11
	// begin inline asm
	.loc	1 16 11                         // k.py:16:11
	mov.u32 %r1, 0x0;
	.loc	1 17 11                         // k.py:17:11
	ld.global.b32 { %r1 }, [ %rd1 + 0 ];

	// end inline asm
	.loc	1 20 11                         // k.py:20:11
	add.s32 	%r4, %r2, 4;
"""
    assert read_ptx(ptx) == PtxLines(places={}, shifts={5: 1, 6: 1, 7: 1})


def test_shifts_move_the_innermost_line() -> None:
    code = parse_listing(LISTING, PtxLines(shifts={9: 2})).instructions
    assert code[2].places == (("standard.py", 263), ("k.py", 20))
    assert code[3].places == (("standard.py", 261), ("k.py", 20))


def test_only_known_places_are_shifted() -> None:
    assert sass._shift((), 2) == ()
    assert sass._shift((("a.py", 6), ("b.py", 9)), 2) == (("a.py", 4), ("b.py", 9))
    assert sass._shift((("a.py", 6),), 0) == (("a.py", 6),)


PADDED = """
.text.k:
	//## File "/home/me/k.py", line 8
        /*0000*/                   MOV R1, R2 ;
        /*0010*/                   NOP;
	//## File "somewhere"
.L_x_1:
	//## File "/home/me/k.py", line 9
        /*0020*/                   MOV R3, R4 ;
.L_x_2:
        /*0030*/                   EXIT ;
"""


def test_code_behind_padding_and_labels_is_read() -> None:
    listing = parse_listing(PADDED)
    assert [i.opcode for i in listing.instructions] == ["MOV", "NOP", "MOV", "EXIT"]
    assert listing.labels == {".text.k": 0, ".L_x_1": 2, ".L_x_2": 3}
    assert [i.places for i in listing.instructions] == [
        *[(("k.py", 8),)] * 2,
        *[(("k.py", 9),)] * 2,
    ]
    assert listing.arch is None


def test_what_was_written_for_readers_is_read_back() -> None:
    for text in (PADDED, LISTING):
        listing = parse_listing(text)
        code = [each for each in listing.instructions if each.name != "NOP"]
        again = sass.parse_annotated(annotate(text, listing))
        assert list(again.instructions) == code
        assert again.arch is None
    assert again.labels == {".text.k": 0, ".L_x_1": 2, ".L_x_2": 5}
    assert sass.parse_annotated("  // \n/*0000*/ NOP ;\n").instructions[0].places == ()


def test_a_note_is_of_the_line_below_it_alone() -> None:
    pairs = list(sass._pair_with_notes(PADDED))
    assert [notes for line, notes in pairs if "MOV" in line] == [[("k.py", 8)], [("k.py", 9)]]
    assert [notes for line, notes in pairs if "NOP" in line or "EXIT" in line] == [[], []]


def test_lines_of_assembly_are_counted_from_its_first() -> None:
    ptx = """\
	// begin inline asm
	.loc	1 16 11
	.loc	1 18 11
	.loc	1 15 11
	// end inline asm
	.loc	1 17 11
	// begin inline asm
	.loc	1 30 11
	.loc	1 31 11
"""
    assert read_ptx(ptx).shifts == {3: 2, 9: 1}


def test_arrays_that_the_program_keeps_itself() -> None:
    ptx = """\
	.local .align 4 .b8 	__local_depot0[28];
	.local .b16 	x$1[3];
  .local .align 8 .b64 y[2];
	.reg .b32 	%r<9>;
"""
    assert sass.local_array_bytes(ptx) == 28 + 2 * 3 + 8 * 2
    assert sass.local_array_bytes("") == 0
