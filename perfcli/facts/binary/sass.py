"""Reads the listing that ``nvdisasm`` prints: instructions, labels and source lines.

Seen with nvdisasm 12.8 and 13.1 (triton 3.6 to 3.9), machine code for sm_75 to sm_120.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePath

Place = tuple[str, int]
"""File name without folders, and 1-based line."""

_PTX = ".nv_debug_ptx_txt"
_INSTRUCTION = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:(@!?U?P\w+)\s+)?([A-Z][\w.]*)\s*([^;]*);")
_LABEL = re.compile(r"^([.$\w]+):\s*$")
_REFERENCE = re.compile(r"`\(([^)]+)\)")
_PLACE = re.compile(r'"([^"]*)", line (\d+)')
_LOC = re.compile(r"\s*\.loc\s+\d+\s+(\d+)[^/]*(?://\s*(.*))?")
_TABLE = re.compile(r'BRANCH_TARGETS ([^"]*)"')


@dataclass(frozen=True, slots=True)
class Instruction:
    """Holds one machine instruction and where it comes from."""

    predicate: str
    """``@P0``, ``@!UP1``; empty where it always runs."""
    opcode: str
    """The opcode with its modifiers, ``LDG.E.128``."""
    operands: str
    places: tuple[Place, ...] = ()
    """Source lines, the innermost inlined function's first."""

    @property
    def name(self) -> str:
        """Return the opcode without modifiers."""
        return self.opcode.partition(".")[0]

    @property
    def targets(self) -> tuple[str, ...]:
        """Return the labels that it names."""
        table = _TABLE.search(self.operands)
        if table:
            return tuple(label.strip() for label in table[1].split(",") if label.strip())
        return tuple(_REFERENCE.findall(self.operands))


@dataclass(frozen=True, slots=True)
class Listing:
    """Holds a cubin's code."""

    instructions: tuple[Instruction, ...]
    labels: Mapping[str, int]
    """Label to index of the instruction that follows it."""
    arch: int | None
    """90 for sm_90, 120 for sm_120."""


@dataclass(frozen=True, slots=True)
class PtxLines:
    """Holds what a kernel's PTX knows about source lines and its cubin does not."""

    places: Mapping[int, tuple[Place, ...]] = field(default_factory=dict)
    """PTX line to source lines, where inlined calls stand in comments only."""
    shifts: Mapping[int, int] = field(default_factory=dict)
    """PTX line to how far below the true source line the line table puts it."""


def parse_listing(text: str, ptx: PtxLines | None = None) -> Listing:
    """Return the instructions of ``nvdisasm -c -gi``; of ``-gi -gp`` with ``ptx``."""
    ptx = ptx or PtxLines()
    instructions: list[Instruction] = []
    labels: dict[str, int] = {}
    places: tuple[Place, ...] = ()
    ptx_line = 0
    for line, notes in _pair_with_notes(text):
        own = tuple(place for place in notes if place[0] != _PTX)
        places = own or places
        ptx_line = next((number for name, number in notes if name == _PTX), ptx_line)
        label = _LABEL.match(line)
        if label:
            labels[label[1]] = len(instructions)
            continue
        found = _INSTRUCTION.search(line)
        if found:
            where = ptx.places.get(ptx_line) or _shift(places, ptx.shifts.get(ptx_line, 0))
            instructions.append(Instruction(found[1] or "", found[2], found[3].strip(), where))
    arch = re.search(r"EF_CUDA_SM(\d+)", text)
    return Listing(tuple(instructions), labels, int(arch[1]) if arch else None)


def annotate(text: str, listing: Listing) -> str:
    """Return the code of a listing for readers: instructions below ``// k.py:16`` (with the calls
    that they were inlined through, innermost first), labels, no padding and no folders."""
    lines: list[str] = []
    rest = iter(listing.instructions)
    places: tuple[Place, ...] = ()
    for line in text.splitlines():
        if _LABEL.match(line):
            lines.append(line.strip())
        elif _INSTRUCTION.search(line):
            instruction = next(rest)
            if instruction.name == "NOP":
                continue
            if instruction.places != places:
                places = instruction.places
                lines.append("  // " + " < ".join(f"{name}:{number}" for name, number in places))
            lines.append(line.rstrip())
    return "\n".join(lines) + "\n"


def parse_annotated(text: str) -> Listing:
    """The listing that ``annotate`` wrote, as stored runs keep it."""
    instructions: list[Instruction] = []
    labels: dict[str, int] = {}
    places: tuple[Place, ...] = ()
    for line in text.splitlines():
        if line.startswith("  // "):
            chain = (part.rpartition(":") for part in line[5:].split(" < "))
            places = tuple((name, int(number)) for name, _, number in chain if number)
            continue
        label = _LABEL.match(line)
        if label:
            labels[label[1]] = len(instructions)
            continue
        found = _INSTRUCTION.search(line)
        if found:
            instructions.append(Instruction(found[1] or "", found[2], found[3].strip(), places))
    return Listing(tuple(instructions), labels, None)


def _shift(places: tuple[Place, ...], shift: int) -> tuple[Place, ...]:
    if not places or not shift:
        return places
    (name, line), *callers = places
    return ((name, line - shift), *callers)


def _pair_with_notes(text: str) -> Iterator[tuple[str, list[Place]]]:
    """Yield every line of code, with the ``//## File`` notes directly above it.

    A chain of inlined calls is one note per level, innermost first; each but the last also names
    where it is inlined, which the next note repeats.
    """
    notes: list[Place] = []
    for line in text.splitlines():
        if "//## File" in line:
            place = _PLACE.search(line)
            if place:
                notes.append((PurePath(place[1]).name, int(place[2])))
            continue
        yield line, notes
        notes = []


def read_ptx(ptx: str) -> PtxLines:
    """Return the source lines of a PTX text.

    Up to triton 3.8 the calls that a line was inlined through are only in the comment that LLVM
    writes behind ``.loc`` (``k.py:6:23 @[ k.py:15:20 ]``); from 3.9 they are in ``.loc`` itself
    and so in the cubin. But the LLVM of 3.9 counts the lines of inline assembly as if they were
    lines of the source, and a load is inline assembly of two lines: it ends up one line too far
    down. The block's first ``.loc`` is right.
    """
    places: dict[int, tuple[Place, ...]] = {}
    shifts: dict[int, int] = {}
    chain: tuple[Place, ...] = ()
    in_assembly = False
    first, shift = 0, 0
    for number, line in enumerate(ptx.splitlines(), start=1):
        if "inline asm" in line:
            in_assembly, first, shift = "begin" in line, 0, 0
        found = _LOC.match(line)
        if found:
            chain = _comment_places(found[2] or "")
            first = first or int(found[1])
            shift = int(found[1]) - first if in_assembly else 0
        if chain:
            places[number] = chain
        if shift > 0:
            shifts[number] = shift
    return PtxLines(places, shifts)


def _comment_places(comment: str) -> tuple[Place, ...]:
    """Return ``a.py:6:23 @[ b.py:15:20 @[ c.py:1:2 ] ]`` as places, innermost first; nothing where
    nothing was inlined."""
    parts = [part.strip(" ]") for part in comment.split("@[")]
    found = (re.fullmatch(r"(.*):(\d+):(\d+)", part) for part in parts)
    return tuple((PurePath(m[1]).name, int(m[2])) for m in found if m) if len(parts) > 1 else ()


_LOCAL = re.compile(r"^\s*\.local\s+(?:\.align\s+\d+\s+)?\.b(\d+)\s+[\w$]+\[(\d+)\]", re.MULTILINE)


def local_array_bytes(ptx: str) -> int:
    """Return bytes per thread of the arrays that the program itself keeps in local memory: ``sin``
    and ``cos`` of large arguments have one of 28 bytes (triton#1756). They are part of a kernel's
    stack, but no register was spilled into them."""
    return sum(int(bits) // 8 * int(count) for bits, count in _LOCAL.findall(ptx))
