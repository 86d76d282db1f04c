"""Puts cubins into one ELF file, so that one start of nvdisasm lists all of them.

nvdisasm takes 0.3 s to start and a few milliseconds for a kernel's code. A file that holds several
kernels is nothing special to it, but their names have to differ: each is marked with its number.
What is of no use to a listing stays behind. Seen with the nvdisasm of triton 3.7 (13.1).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

_HEADER = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQ")
_FLAGS = slice(48, 52)
_STRINGS, _RELA, _NOBITS, _REL = 3, 4, 8, 9
_RESERVED = 0xFF00
"""The first index of a symbol's section that is none."""
_NUMBER = 0xFFFFFF
"""The bits of a code section's ``info`` that number its symbol; the others count registers."""

_LINES = (".debug_line", ".nv_debug_line_sass")
"""Tables that hold one unit after the other, each with its own length."""
_SHARED = (".debug_str", ".nv_debug_ptx_txt")
"""What the tables' units point into: the first cubin's counts for all."""
_BRANCH_TARGETS = 0x34
_SIZED = 4
_MARK = re.compile(r"\$part\d+")
_PART = re.compile(r"^(?=//-+ \.text\.)", re.MULTILINE)
_LABEL = re.compile(r"\.L_x_(\d+)")


@dataclass(slots=True)
class _Section:
    name: str
    kind: int
    flags: int
    size: int
    """Of shared memory as well, which has no data."""
    link: int
    info: int
    alignment: int
    entry: int
    data: bytes


@dataclass(slots=True)
class _Joined:
    """Holds what was put together so far; ``places`` and ``offsets`` say by cubin and number of its
    section where that is now."""

    sections: list[_Section] = field(default_factory=list)
    places: list[dict[int, int]] = field(default_factory=list)
    offsets: list[dict[int, int]] = field(default_factory=list)


def _join_cubins(cubins: Sequence[bytes]) -> bytes:
    """Return one file with the code of all, in order. They are alike in ``_shared_by``. Raises
    struct.error, IndexError or ValueError where one is cut off."""
    files = [_read_sections(cubin) for cubin in cubins]
    joined = _Joined()
    for number, file in enumerate(files):
        _add_sections(joined, file, number)
    symbols, numbers, locals_, names = _join_symbols(files, joined)
    table = len(joined.sections) + 1
    for number, file in enumerate(files):
        for old, new in joined.places[number].items():
            if file[old].name not in (*_LINES, *_SHARED):
                _redirect(joined, number, old, new, numbers[number], table)
    _join_relocations(joined)
    joined.sections += [
        _Section(".symtab", 2, 0, 0, table + 1, locals_ + 1, 8, _SYMBOL.size, symbols),
        _Section(".strtab", _STRINGS, 0, 0, 0, 0, 1, 0, names),
    ]
    return _write(cubins[0][:64], joined.sections)


def _shared_by(cubin: bytes) -> tuple[bytes, ...]:
    """Return what cubins of one file have in common: the architecture, and the names of inlined
    functions, of which a file has one table. Nothing is like a file that is cut off."""
    try:
        return cubin[_FLAGS], *_texts(_read_sections(cubin))
    except (struct.error, IndexError, ValueError):
        return (cubin,)


def _split_listing(text: str, count: int) -> list[str] | None:
    """Return the listings that the joined cubins would have had alone; None where there are not so
    many."""
    head, *parts = _PART.split(text)
    if len(parts) != count:
        return None
    return [head + _number_labels(_MARK.sub("", part)) for part in parts]


def _number_labels(text: str) -> str:
    """Return the text with labels numbered in the same order from 0 on, as in a file of its own."""
    known = sorted({int(number) for number in _LABEL.findall(text)})
    numbers = {old: new for new, old in enumerate(known)}
    return _LABEL.sub(lambda found: f".L_x_{numbers[int(found[1])]}", text)


def _read_sections(cubin: bytes) -> list[_Section]:
    """Return the sections of an ELF file, in file order. Raises struct.error, IndexError or
    ValueError where it is cut off."""
    (table,) = struct.unpack_from("<Q", cubin, 40)
    size, count, names = struct.unpack_from("<HHH", cubin, 58)
    headers = [_HEADER.unpack_from(cubin, table + i * size) for i in range(count)]
    found = []
    for name, kind, flags, _, offset, length, *points, alignment, entry in headers:
        data = b"" if kind == _NOBITS else cubin[offset : offset + length]
        text = _text_at(cubin, headers[names][4] + name)
        link, info = points
        found.append(_Section(text, kind, flags, length, link, info, alignment, entry, data))
    return found


def _text_at(data: bytes, offset: int) -> str:
    return data[offset : data.index(b"\0", offset)].decode()


def _texts(file: Sequence[_Section]) -> list[bytes]:
    return [section.data for section in file if section.name == ".debug_str"]


def _add_sections(joined: _Joined, file: Sequence[_Section], number: int) -> None:
    """Add a cubin's sections, as far as a listing needs them."""
    known = {section.name: at for at, section in enumerate(joined.sections)}
    places: dict[int, int] = {}
    offsets: dict[int, int] = {}
    for old, section in enumerate(file):
        if section.name in known and section.name in (*_LINES, *_SHARED):
            places[old] = known[section.name]
            table = joined.sections[places[old]]
            offsets[old] = len(table.data)
            if section.name in _LINES:
                table.data += section.data
            continue
        data = _branch_targets(section.data) if section.name.startswith(".nv.info.") else None
        if _is_needed(section) and data != b"":
            places[old] = len(joined.sections)
            mark = "" if _is_common(section.name) else f"$part{number}"
            joined.sections.append(
                replace(section, name=section.name + mark, data=data or section.data)
            )
    joined.places.append(places)
    joined.offsets.append(offsets)


def _is_common(name: str) -> bool:
    return name in _SHARED or name.endswith(_LINES)


def _is_needed(section: _Section) -> bool:
    """Return whether a listing needs a section: code, what it is relocated by and refers to, and
    tables of lines."""
    if _is_common(section.name):
        return True
    kept = (".text.", ".nv.info.", ".nv.constant", ".nv.shared.", ".nv.global", ".rel")
    return section.name.startswith(kept) and not section.name.endswith(".debug_frame")


def _branch_targets(data: bytes) -> bytes:
    """Return, of a kernel's attributes, where its indirect branches go: other attributes number
    symbols."""
    kept, at = b"", 0
    while at < len(data):
        shape, attribute, size = struct.unpack_from("<BBH", data, at)
        end = at + 4 + (size if shape == _SIZED else 0)
        if attribute == _BRANCH_TARGETS:
            kept += data[at:end]
        at = end
    return kept


def _join_symbols(
    files: Sequence[Sequence[_Section]], joined: _Joined
) -> tuple[bytes, list[dict[int, int]], int, bytes]:
    """Return the table of all symbols, by cubin the new numbers of its own, how many are local
    (these come first), and the names."""
    texts = bytearray(b"\0")
    found: list[tuple[bool, int, int, bytes]] = []
    for number, file in enumerate(files):
        table = next(section for section in file if section.name == ".symtab")
        names = file[table.link].data
        places = joined.places[number]
        for old in range(1, len(table.data) // _SYMBOL.size):
            name, info, other, home, value, size = _SYMBOL.unpack_from(
                table.data, old * _SYMBOL.size
            )
            if 0 < home < _RESERVED:
                if home not in places:
                    continue
                home = places[home] + 1
            start = 0
            if text := _text_at(names, name):
                start = len(texts)
                texts += f"{text}$part{number}".encode() + b"\0"
            packed = _SYMBOL.pack(start, info, other, home, value, size)
            found.append((info >> 4 != 0, number, old, packed))
    found.sort(key=lambda each: each[0])
    numbers: list[dict[int, int]] = [{} for _ in files]
    for new, (_, number, old, _packed) in enumerate(found, start=1):
        numbers[number][old] = new
    table_data = bytes(_SYMBOL.size) + b"".join(packed for *_, packed in found)
    return table_data, numbers, sum(not is_global for is_global, *_ in found), bytes(texts)


def _redirect(
    joined: _Joined, number: int, old: int, new: int, symbols: dict[int, int], table: int
) -> None:
    """Let a section point to what it pointed to in its own file."""
    section, places = joined.sections[new], joined.places[number]
    if section.kind in (_RELA, _REL):
        shift = joined.offsets[number].get(section.info, 0)
        section.data = _renumber(section, shift, symbols)
        section.link, section.info = table, places.get(section.info, -1) + 1
    elif section.name.startswith(".text."):
        symbol = symbols.get(section.info & _NUMBER, 0)
        section.link, section.info = table, section.info & ~_NUMBER | symbol
    else:
        section.link, section.info = table, places.get(section.info, -1) + 1


def _renumber(section: _Section, shift: int, symbols: dict[int, int]) -> bytes:
    """Return relocations of a place that lies further back, by symbols with other numbers."""
    data = bytearray(section.data)
    for at in range(0, len(data), 24 if section.kind == _RELA else 16):
        offset, info = _RELOCATION.unpack_from(data, at)
        symbol = symbols.get(info >> 32, 0)
        _RELOCATION.pack_into(data, at, offset + shift, symbol << 32 | info & 0xFFFFFFFF)
    return bytes(data)


def _join_relocations(joined: _Joined) -> None:
    """Move relocations of the tables of lines into one section each: no other one is read."""
    first: dict[str, _Section] = {}
    for at, section in enumerate(joined.sections):
        if section.name.startswith(".rel") and section.name.endswith(_LINES):
            known = first.setdefault(section.name, section)
            if known is not section:
                known.data += section.data
                joined.sections[at] = _Section("", 0, 0, 0, 0, 0, 0, 0, b"")


def _write(header: bytes, sections: Sequence[_Section]) -> bytes:
    """Return the file: ``header``, with other places, then the sections."""
    texts = bytearray(b"\0")
    names = []
    for name in [*(section.name for section in sections), ".shstrtab"]:
        names.append(len(texts))
        texts += name.encode() + b"\0"
    last = _Section(".shstrtab", _STRINGS, 0, 0, 0, 0, 1, 0, bytes(texts))
    body, headers = bytearray(header), bytearray(_HEADER.size)
    for start, each in zip(names, [*sections, last], strict=True):
        body += bytes(-len(body) % max(each.alignment, 1))
        place = (each.flags, 0, len(body), each.size if each.kind == _NOBITS else len(each.data))
        points = (each.link, each.info, each.alignment, each.entry)
        headers += _HEADER.pack(start, each.kind, *place, *points)
        body += each.data
    body += bytes(-len(body) % 8)
    count = len(sections) + 2
    struct.pack_into("<QQ", body, 32, 0, len(body))
    struct.pack_into("<HHHHH", body, 54, 0, 0, _HEADER.size, count, count - 1)
    return bytes(body + headers)
