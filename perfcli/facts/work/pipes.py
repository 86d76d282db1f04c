"""Says which pipe of a multiprocessor runs a machine instruction, and which registers it uses.

Which opcode goes where: NVIDIA's "CUDA Binary Utilities", instruction set reference for Hopper,
and the throughput table of the CUDA C++ Programming Guide (compute capability 9.0).
"""

from __future__ import annotations

import re
from typing import Literal

from perfcli.facts.binary.sass import Instruction

Pipe = Literal[
    "float", "half", "double", "integer", "special", "conversion", "shuffle", "uniform", "tensor",
    "global-load", "global-store", "async-copy", "shared-load", "shared-store", "local-load",
    "local-store", "atomic", "barrier", "control",
]  # fmt: skip

_PIPES: dict[Pipe, str] = {
    "float": "FADD FMUL FFMA FSETP FSEL FMNMX FSET FCHK FSWZADD",
    "half": "HADD2 HMUL2 HFMA2 HSETP2 HMNMX2 HSET2",
    "double": "DADD DMUL DFMA DSETP DMNMX",
    "special": "MUFU",
    "conversion": "F2F F2I I2F FRND POPC FLO BREV",
    "shuffle": "SHFL REDUX VOTE MATCH",
    "tensor": "HMMA IMMA HGMMA IGMMA QGMMA WGMMA DMMA",
    "global-load": "LDG LD",
    "global-store": "STG ST",
    "async-copy": "LDGSTS UBLKCP UTMALDG UTMASTG",
    "shared-load": "LDS LDSM",
    "shared-store": "STS STSM",
    "local-load": "LDL",
    "local-store": "STL",
    "atomic": "RED REDG ATOM ATOMG ATOMS",
    "barrier": "BAR DEPBAR LDGDEPBAR MEMBAR WARPSYNC ERRBAR CCTL SYNCS",
    "control": "BRA EXIT BSSY BSYNC CALL RET BRX NANOSLEEP YIELD BREAK NOP KILL BPT JMP",
}
_PIPE_OF: dict[str, Pipe] = {name: pipe for pipe, names in _PIPES.items() for name in names.split()}
_REGISTER = re.compile(r"\b(UR|UP|R|P)(\d+)\b(\.64)?")
_SETS_PREDICATE = {
    "ISETP", "FSETP", "PLOP3", "IADD3", "LEA", "LOP3", "HSETP2", "SHFL", "UISETP", "UIADD3", "ULEA",
    "VOTE",
}  # fmt: skip
_NO_RESULT: set[Pipe] = {"global-store", "shared-store", "local-store", "barrier", "control"}
_LOADS: set[Pipe] = {"global-load", "shared-load", "local-load"}

Register = tuple[str, int]


def pipe_of(instruction: Instruction) -> Pipe:
    """Return the pipe that runs an instruction, ``integer`` for one that is in no list."""
    name = instruction.name
    found = _PIPE_OF.get(name)
    if found:
        return found
    if name.startswith("U") or name in ("S2UR", "R2UR"):
        return "uniform"
    return "integer"


def _bits_of(opcode: str) -> int:
    """Return how many bits one thread moves by a memory instruction."""
    for modifier, bits in ((".256", 256), (".128", 128), (".64", 64)):
        if modifier in opcode:
            return bits
    if ".U16" in opcode or ".S16" in opcode:
        return 16
    if ".U8" in opcode or ".S8" in opcode:
        return 8
    return 32


def _registers_of(instruction: Instruction) -> tuple[list[Register], list[Register]]:
    """Return the registers that an instruction writes, and those that it reads."""
    pipe, operands = pipe_of(instruction), instruction.operands
    words = max(1, _bits_of(instruction.opcode) // 32)
    written: list[Register] = []
    if pipe not in _NO_RESULT and instruction.name not in ("RED", "REDG"):
        written = _written(instruction, pipe, words)
    read: list[Register] = []
    for place, part in enumerate(operands.split(",")):
        if place == 0 and written:
            continue  # the result, which may be named again among the sources
        for kind, number, pair in _REGISTER.findall(part):
            register = (kind, int(number))
            sets = place < 3 and instruction.name in _SETS_PREDICATE and kind in ("P", "UP")
            if not (sets and register in written):
                read.append(register)
            if kind == "R" and (pair or _is_wide_addend(instruction, place)):
                read.append(("R", int(number) + 1))
    if pipe in ("global-store", "shared-store", "local-store"):
        last = re.findall(r"\bR(\d+)\b", operands)
        if last:
            read += [("R", int(last[-1]) + word) for word in range(words)]
    predicate = re.match(r"@!?(U?P)(\d+)", instruction.predicate)
    if predicate:
        read.append((predicate[1], int(predicate[2])))
    return written, read


def _written(instruction: Instruction, pipe: Pipe, words: int) -> list[Register]:
    parts = instruction.operands.split(",")
    first = _REGISTER.findall(parts[0])
    written: list[Register] = []
    if first:
        kind, number = first[0][0], int(first[0][1])
        count = 1
        if pipe in _LOADS:
            count = words
            if instruction.name == "LDSM":
                count = 4 if ".4" in instruction.opcode else 2 if ".2" in instruction.opcode else 1
        elif ".WIDE" in instruction.opcode or pipe == "double" or _is_wide_move(instruction):
            count = 2
        written = [(kind, number + word) for word in range(count)]
    if instruction.name in _SETS_PREDICATE:
        for part in parts[1:3]:
            predicate = re.fullmatch(r"\s*(U?P)(\d+)\s*", part)
            if predicate:
                written.append((predicate[1], int(predicate[2])))
    return written


def _is_wide_addend(instruction: Instruction, place: int) -> bool:
    """Return whether the operand at a place is what a wide multiplication adds to: 64 bits."""
    return instruction.opcode.startswith("IMAD.WIDE") and place == 3


def _is_wide_move(instruction: Instruction) -> bool:
    return instruction.name == "CS2R" or instruction.opcode.startswith(("ULDC.64", "LDC.64"))
