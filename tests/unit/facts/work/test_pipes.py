"""Which registers an instruction writes and reads, told by hand."""

from __future__ import annotations

import pytest

from perfcli.facts.binary.sass import Instruction
from perfcli.facts.work.pipes import _registers_of


@pytest.mark.parametrize(
    ("opcode", "operands", "written", "read"),
    [
        ("FADD", "R1, R10, R12", [("R", 1)], [("R", 10), ("R", 12)]),
        ("MOV", "R1, UR1", [("R", 1)], [("UR", 1)]),
        ("FADD", "R1, R1, R10", [("R", 1)], [("R", 1), ("R", 10)]),
        ("LDG.E", "R1, desc[UR4][R2.64]", [("R", 1)], [("UR", 4), ("R", 2), ("R", 3)]),
        ("FADD", "R3, R1, desc[UR1.64]", [("R", 3)], [("R", 1), ("UR", 1)]),
    ],
)
def test_a_register_is_not_another_whose_name_contains_its_own(
    opcode: str, operands: str, written: list[tuple[str, int]], read: list[tuple[str, int]]
) -> None:
    assert _registers_of(Instruction("", opcode, operands)) == (written, read)


@pytest.mark.parametrize(
    ("opcode", "operands", "written", "read"),
    [
        # Two words are written; a source may lie in either of them, and what is added has two.
        ("IMAD.WIDE", "R2, R3, R4, R6", [2, 3], [3, 4, 6, 7]),
        ("IMAD.WIDE.U32", "R2, R5, R4, R2", [2, 3], [5, 4, 2, 3]),
        ("IMAD.WIDE", "R2, R5, 0x4, R8", [2, 3], [5, 8, 9]),
        ("IMAD", "R2, R5, R4, R6", [2], [5, 4, 6]),
        ("LDG.E.64", "R2, desc[UR4][R2.64]", [2, 3], [2, 3]),
    ],
)
def test_a_source_that_lies_in_a_wide_result_is_read(
    opcode: str, operands: str, written: list[int], read: list[int]
) -> None:
    found = _registers_of(Instruction("", opcode, operands))
    assert [[number for kind, number in side if kind == "R"] for side in found] == [written, read]


def test_predicates_that_are_set_are_not_read() -> None:
    written, read = _registers_of(Instruction("", "ISETP.GE.AND", "P0, P1, R1, R2, P0"))
    assert written == [("P", 0), ("P", 1)]
    assert read == [("R", 1), ("R", 2), ("P", 0)]
    _, read = _registers_of(Instruction("", "FSEL", "R1, R2, R3, P1"))
    assert read == [("R", 2), ("R", 3), ("P", 1)]
