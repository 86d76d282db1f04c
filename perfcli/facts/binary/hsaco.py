"""Reads what AMD's machine code says: registers, spills, LDS and the width of its loads.

Resources and memory instructions are read from the assembly that Triton keeps beside the code
object: its metadata (LLVM, *User Guide for AMDGPU Backend*, "Code Object V5 Metadata") stands there
as text, as the note of the code object has it. Seen with triton 3.6 and 3.7, gfx942.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from perfcli.errors import PerfcliError
from perfcli.facts.binary.cubin import sections

_METADATA = re.compile(
    r"^\s*\.amdgpu_metadata\n(.*?)^\s*\.end_amdgpu_metadata", re.DOTALL | re.MULTILINE
)
_COUNT = re.compile(r"^ {4}(\.\w+): +(\d+)$", re.MULTILINE)
"""One number of a kernel; those of its arguments are further in."""

# global_load_dwordx4, buffer_load_ushort, flat_load_ubyte_d16 …; scratch_ is local memory.
_ACCESS = re.compile(r"^\s*(?:global|buffer|flat)_(load|store)_(\w+)", re.MULTILINE)
_LOCAL = re.compile(r"^\s*scratch_(load|store)_\w+", re.MULTILINE)
_BITS = ((re.compile(r"dwordx(\d)"), 32), (re.compile(r"[bui](\d+)"), 1))
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
    """Return everything about a code object with one kernel. Raises PerfcliError where it is no
    such file, or the assembly has not the metadata of one kernel."""
    kernel = _read_metadata(assembly)
    counted = {"load": Counter[str](), "store": Counter[str]()}
    for what, kind in _ACCESS.findall(assembly):
        counted[what][_bits(kind)] += 1
    local = Counter(_LOCAL.findall(assembly))
    text = b"".join(s.data for s in sections(code_object) if s.name == ".text")
    return _HsacoFacts(
        vector_registers=kernel[".vgpr_count"],
        scalar_registers=kernel[".sgpr_count"],
        spilled_words=kernel[".vgpr_spill_count"],
        stack_bytes=kernel[".private_segment_fixed_size"],
        shared_bytes=kernel[".group_segment_fixed_size"],
        local_loads=local["load"],
        local_stores=local["store"],
        global_loads=_widest_first(counted["load"]),
        global_stores=_widest_first(counted["store"]),
        code_hash=hashlib.sha256(text).hexdigest(),
    )


_NEEDED = (
    ".vgpr_count",
    ".sgpr_count",
    ".vgpr_spill_count",
    ".private_segment_fixed_size",
    ".group_segment_fixed_size",
)


def _read_metadata(assembly: str) -> Mapping[str, int]:
    block = _METADATA.search(assembly)
    counts = _COUNT.findall(block[1]) if block else []
    found = {name: int(number) for name, number in counts}
    names = [name for name, _ in counts]
    missing = [name for name in _NEEDED if names.count(name) != 1]
    if missing:
        raise PerfcliError(
            "expected the metadata of one kernel in AMD's assembly",
            detail=f"not there, or not once: {', '.join(missing)}",
        )
    return found


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
