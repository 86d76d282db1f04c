"""Reads the listing that ``nvdisasm`` prints: instructions, labels and source lines.

Seen with nvdisasm 12.8 and 13.1 (triton 3.6 to 3.9), machine code for sm_75 to sm_120.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePath

Place = tuple[str, int]
"""File name without folders, and 1-based line."""

_PTX = ".nv_debug_ptx_txt"
_INSTRUCTION = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:(@!?U?P\w+)\s+)?([A-Z][\w.]*)\s*([^;]*);")
_LABEL = re.compile(r"^([.$\w]+):\s*$")
_REFERENCE = re.compile(r"`\(([^)]+)\)")
_PLACE = re.compile(r'"([^"]*)", line (\d+)')
_TABLE = re.compile(r'BRANCH_TARGETS ([^"]*)"')


@dataclass(frozen=True, slots=True)
class Instruction:
    """One machine instruction and where it comes from."""

    predicate: str
    """``@P0``, ``@!UP1``; empty where it always runs."""
    opcode: str
    """With its modifiers, ``LDG.E.128``."""
    operands: str
    places: tuple[Place, ...] = ()
    """Source lines, the innermost inlined function's first."""

    @property
    def name(self) -> str:
        """The opcode without modifiers."""
        return self.opcode.partition(".")[0]

    @property
    def targets(self) -> tuple[str, ...]:
        """The labels that it names."""
        table = _TABLE.search(self.operands)
        if table:
            return tuple(label.strip() for label in table[1].split(",") if label.strip())
        return tuple(_REFERENCE.findall(self.operands))


@dataclass(frozen=True, slots=True)
class Listing:
    """A cubin's code."""

    instructions: tuple[Instruction, ...]
    labels: Mapping[str, int]
    """Label to index of the instruction that follows it."""
    arch: int | None
    """90 for sm_90, 120 for sm_120."""


def parse_listing(text: str, ptx_places: Mapping[int, tuple[Place, ...]] | None = None) -> Listing:
    """The instructions of ``nvdisasm -c -gi`` (or ``-gi -gp`` with ``ptx_places``, which gives
    for a line of the PTX its source lines, and is believed before the cubin's own table)."""
    instructions: list[Instruction] = []
    labels: dict[str, int] = {}
    places: tuple[Place, ...] = ()
    from_ptx: tuple[Place, ...] = ()
    for line, notes in _with_notes(text):
        own = [place for place in notes if place[0] != _PTX]
        if own:
            places = tuple(own)
        for _, number in (place for place in notes if place[0] == _PTX):
            from_ptx = (ptx_places or {}).get(number, ())
        label = _LABEL.match(line)
        if label:
            labels[label[1]] = len(instructions)
            continue
        found = _INSTRUCTION.search(line)
        if found:
            instructions.append(
                Instruction(found[1] or "", found[2], found[3].strip(), from_ptx or places)
            )
    arch = re.search(r"EF_CUDA_SM(\d+)", text)
    return Listing(tuple(instructions), labels, int(arch[1]) if arch else None)


def _with_notes(text: str) -> Iterator[tuple[str, list[Place]]]:
    """Every line of code, with the ``//## File`` notes directly above it.

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


def ptx_places(ptx: str) -> dict[int, tuple[Place, ...]]:
    """For each line of a PTX text the source lines of the ``.loc`` above it.

    Up to triton 3.8 the calls that a line was inlined through are only in the comment that LLVM
    writes behind ``.loc`` (``k.py:6:23 @[ k.py:15:20 ]``); from 3.9 they are in ``.loc`` itself
    and so in the cubin, and the comment no longer has them.
    """
    result: dict[int, tuple[Place, ...]] = {}
    current: tuple[Place, ...] = ()
    for number, line in enumerate(ptx.splitlines(), start=1):
        directive, _, comment = line.partition("//")
        if directive.lstrip().startswith(".loc"):
            current = _comment_places(comment) if "@[" in comment else ()
        elif directive.strip().startswith((".func", ".entry", ".visible")):
            current = ()
        if current:
            result[number] = current
    return result


def _comment_places(comment: str) -> tuple[Place, ...]:
    """``a.py:6:23 @[ b.py:15:20 @[ c.py:1:2 ] ]`` as places, innermost first."""
    parts = [part.strip(" ]") for part in comment.split("@[")]
    found = (re.fullmatch(r"(.*):(\d+):(\d+)", part) for part in parts)
    return tuple((PurePath(m[1]).name, int(m[2])) for m in found if m)
