"""Reads what AMD's machine code says: registers, spills, LDS and the width of its loads.

Resources are read from the code object's own note (LLVM, *User Guide for AMDGPU Backend*, "Code
Object V5 Metadata"); memory instructions from the assembly that Triton keeps beside it. Seen with
triton 3.6 and 3.7, gfx942.
"""

from __future__ import annotations

import hashlib
import re
import struct
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from perfcli.errors import PerfcliError
from perfcli.facts.binary.elf import sections
from perfcli.facts.binary.msgpack import decode

_NT_AMDGPU_METADATA = 32
_NOTE = struct.Struct("<III")

# global_load_dwordx4, buffer_load_ushort, flat_load_ubyte_d16 …; scratch_ is local memory.
_ACCESS = re.compile(r"^\s*(?:global|buffer|flat)_(load|store)_(\w+)", re.MULTILINE)
_LOCAL = re.compile(r"^\s*scratch_(load|store)_\w+", re.MULTILINE)
_BITS = (
    (re.compile(r"dwordx(\d)"), 32),
    (re.compile(r"[bui](\d+)"), 1),
)
_NAMED_BITS = {"dword": "32", "ushort": "16", "sshort": "16", "short": "16"}
_NAMED_BITS |= {"ubyte": "8", "sbyte": "8", "byte": "8"}


@dataclass(frozen=True, slots=True)
class _HsacoFacts:
    """Holds the facts of one kernel. Registers are 32 bits wide for each lane of a wave."""

    vector_registers: int
    """Accumulation registers, which come out of the same file on gfx942, are part of it."""
    scalar_registers: int
    spilled_words: int
    """32-bit words per lane that did not fit into registers."""
    stack_bytes: int
    """Scratch memory per lane; spilled words are part of it."""
    shared_bytes: int
    """LDS per block that is known when it is compiled; Triton asks for its own at launch."""
    local_loads: int
    local_stores: int
    global_loads: Mapping[str, int]
    """Bits moved per lane to number of instructions."""
    global_stores: Mapping[str, int]
    code_hash: str


def read_hsaco(code_object: bytes, assembly: str) -> _HsacoFacts:
    """Return everything about a code object with one kernel.

    Raises:
        PerfcliError: it is no such file, or names no kernel.
    """
    kernel = _metadata(code_object)
    counted = {"load": Counter[str](), "store": Counter[str]()}
    for what, kind in _ACCESS.findall(assembly):
        counted[what][_bits(kind)] += 1
    local = Counter(_LOCAL.findall(assembly))
    text = b"".join(s.data for s in sections(code_object) if s.name == ".text")
    return _HsacoFacts(
        vector_registers=int(kernel[".vgpr_count"]),
        scalar_registers=int(kernel[".sgpr_count"]),
        spilled_words=int(kernel[".vgpr_spill_count"]),
        stack_bytes=int(kernel[".private_segment_fixed_size"]),
        shared_bytes=int(kernel[".group_segment_fixed_size"]),
        local_loads=local["load"],
        local_stores=local["store"],
        global_loads=_widest_first(counted["load"]),
        global_stores=_widest_first(counted["store"]),
        code_hash=hashlib.sha256(text).hexdigest(),
    )


def _metadata(code_object: bytes) -> Mapping[str, Any]:
    notes = b"".join(s.data for s in sections(code_object) if s.name == ".note")
    try:
        (kernel,) = decode(_note(notes))["amdhsa.kernels"]
    except (ValueError, KeyError, TypeError, struct.error) as error:
        raise PerfcliError(
            "expected the metadata of one kernel in the notes of an AMD code object",
            detail=f"{type(error).__name__}: {error}",
        ) from error
    return dict(kernel)


def _note(notes: bytes) -> bytes:
    """Return the metadata's bytes. Each note: sizes of name and content, kind, name, content; both
    are filled up to 4 bytes."""
    at = 0
    while at < len(notes):
        name_size, size, kind = _NOTE.unpack_from(notes, at)
        content = at + _NOTE.size + -(-name_size // 4) * 4
        if kind == _NT_AMDGPU_METADATA:
            return notes[content : content + size]
        at = content + -(-size // 4) * 4
    raise ValueError("there is no AMDGPU metadata note")


def _bits(kind: str) -> str:
    named = _NAMED_BITS.get(kind.partition("_")[0])
    if named:
        return named
    for pattern, unit in _BITS:
        if found := pattern.match(kind):
            return str(int(found[1]) * unit)
    return "32"


def _widest_first(counts: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda item: -int(item[0])))
