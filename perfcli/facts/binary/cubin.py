"""Reads what a kernel's machine code says: registers, stack, and its memory instructions.

Everything is static: how many instructions there are, not how often they run. Seen with the
``cuobjdump`` and ``nvdisasm`` that triton 3.6 (12.8), 3.7 and 3.9 (13.1) bring along.
"""

from __future__ import annotations

import hashlib
import re
import struct
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePath

from perfcli.errors import PerfcliError
from perfcli.facts.binary.control_flow import in_loops
from perfcli.facts.binary.joined import (
    _join_cubins,
    _read_sections,
    _Section,
    _shared_by,
    _split_listing,
)
from perfcli.facts.binary.sass import (
    Instruction,
    Listing,
    PtxLines,
    annotate,
    parse_listing,
    read_ptx,
)
from perfcli.model import LineCounts


def sections(cubin: bytes) -> list[_Section]:
    """Return the sections of an ELF file, in file order. Raises PerfcliError where it is no 64-bit
    little-endian ELF file, or is cut off."""
    if cubin[:6] != b"\x7fELF\x02\x01":
        raise PerfcliError(
            f"expected a cubin (64-bit ELF), got {len(cubin)} bytes that start with {cubin[:4]!r}"
        )
    try:
        return _read_sections(cubin)
    except (struct.error, IndexError, ValueError):
        raise PerfcliError(f"expected a whole cubin, got {len(cubin)} bytes of one") from None


def code_sections(cubin: bytes) -> tuple[bytes, ...]:
    """Return each function's machine code and constants: no names, no paths, no line table.

    Bank 0 is left out: it holds the arguments, which are not there yet.
    """
    return tuple(
        section.data
        for section in sections(cubin)
        if section.name.startswith((".text.", ".nv.constant", ".nv.global.init"))
        and not section.name.startswith(".nv.constant0")
    )


_REGISTER_COUNT = 0x2F
"""EIATTR_REGCOUNT: the number of a function's symbol, and its registers."""
_WITH_SIZE = 4
"""EIFMT_SVAL: an attribute with a size and as many bytes; others are four bytes in all."""


def count_registers(cubin: bytes) -> int | None:
    """Return the registers per thread of a cubin's only kernel, as ``.nv.info`` has them; None
    where that does not say so. Raises as ``sections``."""
    for section in sections(cubin):
        at, data = 0, section.data if section.name == ".nv.info" else b""
        while at + 12 <= len(data):
            form, attribute, size, _, count = struct.unpack_from("<BBHII", data, at)
            if (form, attribute) == (_WITH_SIZE, _REGISTER_COUNT):
                return int(count)
            at += 4 + (size if form == _WITH_SIZE else 0)
    return None


_TOOLS = ("nvdisasm", "cuobjdump")
_RESERVED_SHARED_BYTES = 1024  # from sm_90 on part of a kernel's number, where it uses any

# LDGSTS copies from global to shared memory (cp.async). UBLKCP and UTMALDG/UTMASTG move whole
# tiles (TMA); one thread issues them for the block, so they have no width per thread.
_GLOBAL_LOADS = {"LDG", "LDGSTS"}
_GLOBAL_STORES = {"STG"}
_TMA_LOADS = {"UTMALDG"}
_TMA_STORES = {"UTMASTG", "UTMAREDG"}
_WIDTHS = {"256", "128", "64", "U16", "S16", "U8", "S8"}


@dataclass(frozen=True, slots=True)
class _Resources:
    """Holds what one kernel occupies: registers per thread, bytes of local memory per thread, bytes
    of static shared memory per block (without the 1 KiB that the system reserves; Triton's own
    shared memory is dynamic and stands in its metadata)."""

    registers: int
    stack_bytes: int
    shared_bytes: int


@dataclass(frozen=True, slots=True)
class BinaryFacts:
    """Holds a cubin's resources and memory instructions.

    Loads and stores are keyed by the bits that one thread moves ("128", "64", "32", "16", "8");
    asynchronous copies to shared memory count as global loads. TMA instructions move a tile for
    the whole block and are counted apart.
    """

    registers: int
    stack_bytes: int
    shared_bytes: int
    local_loads: int
    local_stores: int
    local_loads_in_loops: int
    local_stores_in_loops: int
    global_loads: Mapping[str, int]
    global_stores: Mapping[str, int]
    tma_loads: int
    tma_stores: int
    instructions: int
    lines: Mapping[str, LineCounts] = field(default_factory=dict)
    """What each line of the source file (counted from 1) became; TMA counts as a global access."""
    sass: str = ""
    """The code for readers, each stretch below the source line that it comes from."""
    code_hash: str = ""
    """SHA-256 of the instructions' bytes: equal for the same code under another name or path."""


def find_tools(triton_dir: Path) -> Path:
    """Return the folder of NVIDIA's binary tools in an installed triton package (``triton/``).
    Raises PerfcliError where the package has no such tools."""
    tools = triton_dir / "backends" / "nvidia" / "bin"
    missing = [name for name in _TOOLS if not (tools / name).is_file()]
    if missing:
        raise PerfcliError(
            f"expected {' and '.join(missing)} in {tools}, where triton 3.6 and later keep them; "
            "reinstall triton"
        )
    return tools


Binary = tuple[bytes, str, str | None]
"""A cubin with one kernel, the name of its source file, and its PTX."""


def read_cubin(cubin: bytes, tools: Path, source_file: str, ptx: str | None = None) -> BinaryFacts:
    """Return everything about a cubin with one kernel, as ``read_cubins`` does about several."""
    (facts,) = read_cubins([(cubin, source_file, ptx)], tools)
    return facts


def read_cubins(binaries: Sequence[Binary], tools: Path) -> list[BinaryFacts]:
    """Return everything about each of the binaries.

    ``lines`` holds the lines of the source file only (compared by file name without folder). Code
    that was inlined counts for the outermost line within that file. That needs the kernel's PTX
    as well: without it the code of called functions counts where they are defined up to triton
    3.8, and loads count one line too far down from 3.9 on (see ``sass.read_ptx``).

    nvdisasm takes 0.3 s to start, and a hundredth of that for one kernel more. Raises PerfcliError
    where a tool failed on one of the binaries."""
    lines = [read_ptx(ptx) if ptx else PtxLines() for _, _, ptx in binaries]
    with_ptx = ("-gp",) if any(each.places or each.shifts for each in lines) else ()
    resources = [_resources(cubin, tools) for cubin, _, _ in binaries]
    texts = _list([cubin for cubin, _, _ in binaries], tools, with_ptx)
    found = zip(binaries, resources, texts, lines, strict=True)
    return [
        _facts(cubin, occupied, text, parse_listing(text, own), file)
        for (cubin, file, _), occupied, text, own in found
    ]


def _list(cubins: Sequence[bytes], tools: Path, options: Sequence[str]) -> list[str]:
    """Return the listing of each cubin, of as many by one run of nvdisasm as can share a file."""
    groups: dict[object, list[int]] = {}
    for number, cubin in enumerate(cubins):
        groups.setdefault(_shared_by(cubin), []).append(number)
    texts: dict[int, str] = {}
    for numbers in groups.values():
        listed = _list_joined([cubins[number] for number in numbers], tools, options)
        texts.update(zip(numbers, listed, strict=True))
    return [texts[number] for number in range(len(cubins))]


def _list_joined(cubins: Sequence[bytes], tools: Path, options: Sequence[str]) -> list[str]:
    """Return the listings by one run of nvdisasm where that works, else by one for each."""
    if len(cubins) > 1:
        with suppress(PerfcliError, struct.error, IndexError, ValueError):
            joined = _join_cubins(cubins)
            texts = _split_listing(_disassemble(joined, tools, options), len(cubins))
            if texts is not None:
                return texts
    return [_disassemble(cubin, tools, options) for cubin in cubins]


def _disassemble(cubin: bytes, tools: Path, options: Sequence[str]) -> str:
    return _run_on(cubin, tools / "nvdisasm", "-c", "-ndf", "-gi", *options)


def _facts(
    cubin: bytes, resources: _Resources, text: str, listing: Listing, source_file: str
) -> BinaryFacts:
    code = listing.instructions
    looping = in_loops(listing)
    return BinaryFacts(
        registers=resources.registers,
        stack_bytes=resources.stack_bytes,
        shared_bytes=resources.shared_bytes,
        local_loads=_count(code, {"LDL"}),
        local_stores=_count(code, {"STL"}),
        local_loads_in_loops=_count((code[i] for i in looping), {"LDL"}),
        local_stores_in_loops=_count((code[i] for i in looping), {"STL"}),
        global_loads=_widths(code, _GLOBAL_LOADS),
        global_stores=_widths(code, _GLOBAL_STORES),
        tma_loads=sum(map(_is_tma_load, code)),
        tma_stores=sum(map(_is_tma_store, code)),
        instructions=sum(i.name != "NOP" for i in code),
        lines=_lines(code, PurePath(source_file).name),
        sass=annotate(text, listing),
        code_hash=_code_hash(cubin, source_file),
    )


def _code_hash(cubin: bytes, source_file: str) -> str:
    code = b"".join(code_sections(cubin))
    # Assertions on the device name their file, which lies elsewhere on each run.
    return hashlib.sha256(code.replace(source_file.encode(), b"")).hexdigest()


def _resources(cubin: bytes, tools: Path) -> _Resources:
    text = _run_on(cubin, tools / "cuobjdump", "--dump-resource-usage")
    found = re.search(r"REG:(\d+) STACK:(\d+) SHARED:(\d+)", text)
    if not found:
        raise PerfcliError(
            "expected REG, STACK and SHARED from cuobjdump --dump-resource-usage", detail=text
        )
    reserved = any(s.name.startswith(".nv.shared.reserved") for s in sections(cubin))
    return _Resources(
        registers=int(found[1]),
        stack_bytes=int(found[2]),
        shared_bytes=max(int(found[3]) - (_RESERVED_SHARED_BYTES if reserved else 0), 0),
    )


def _run_on(cubin: bytes, tool: Path, *options: str) -> str:
    """Return what the tool prints about a cubin."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        return _run(tool, *options, file.name)


def _run(tool: Path, *arguments: str) -> str:
    try:
        done = subprocess.run([tool, *arguments], capture_output=True, text=True, check=False)
    except OSError as error:
        raise PerfcliError(f"could not run {tool.name}: {error.strerror}") from None
    if done.returncode:
        raise PerfcliError(
            f"{tool.name} cannot read this kernel's binary (exit status {done.returncode})",
            detail=done.stderr.strip(),
        )
    return done.stdout


def _count(code: Iterable[Instruction], names: Set[str]) -> int:
    return sum(instruction.name in names for instruction in code)


def _widths(code: Iterable[Instruction], names: Set[str]) -> dict[str, int]:
    counts = Counter(_width(i.opcode) for i in code if i.name in names)
    return dict(sorted(counts.items(), key=lambda item: -int(item[0])))


def _width(opcode: str) -> str:
    """Return the bits per thread. A modifier such as ``LTC128B`` is a hint to the cache, not a
    width."""
    return next((m.lstrip("US") for m in opcode.split(".") if m in _WIDTHS), "32")


def _is_tma_load(instruction: Instruction) -> bool:
    return instruction.name in _TMA_LOADS or instruction.opcode.startswith("UBLKCP.S.G")


def _is_tma_store(instruction: Instruction) -> bool:
    return instruction.name in _TMA_STORES or instruction.opcode.startswith("UBLKCP.G.S")


def _lines(code: Iterable[Instruction], source_file: str) -> dict[str, LineCounts]:
    counters: dict[int, Counter[str]] = {}
    for instruction in code:
        role = _role(instruction)
        own = [line for name, line in instruction.places if name == source_file]
        if role and own:
            counters.setdefault(own[-1], Counter())[role] += 1
    return {str(line): _line_counts(counters[line]) for line in sorted(counters)}


def _line_counts(counted: Mapping[str, int]) -> LineCounts:
    return LineCounts(
        counted["global_loads"],
        counted["global_stores"],
        counted["local_loads"],
        counted["local_stores"],
    )


def _role(instruction: Instruction) -> str | None:
    """Return the field of LineCounts that an instruction adds to."""
    if instruction.name in _GLOBAL_LOADS or _is_tma_load(instruction):
        return "global_loads"
    if instruction.name in _GLOBAL_STORES or _is_tma_store(instruction):
        return "global_stores"
    return {"LDL": "local_loads", "STL": "local_stores"}.get(instruction.name)
