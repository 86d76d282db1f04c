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
        ("FADD", "R1, R1, R10", [("R", 1)], [("R", 1), ("R", 1), ("R", 10)]),
        ("LDG.E", "R1, desc[UR4][R2.64]", [("R", 1)], [("UR", 4), ("R", 2), ("R", 3)]),
        ("FADD", "R3, R1, desc[UR1.64]", [("R", 3)], [("R", 1), ("UR", 1)]),
    ],
)
def test_a_register_is_not_another_whose_name_contains_its_own(
    opcode: str, operands: str, written: list[tuple[str, int]], read: list[tuple[str, int]]
) -> None:
    assert _registers_of(Instruction("", opcode, operands)) == (written, read)
