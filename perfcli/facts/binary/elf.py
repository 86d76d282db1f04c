"""Reads a cubin, which is a 64-bit ELF file, as far as no tool is needed."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from perfcli.errors import PerfcliError

_SECTION = struct.Struct("<IIQQQQIIQQ")
_NOBITS = 8


@dataclass(frozen=True, slots=True)
class _Section:
    name: str
    data: bytes
    """Empty where the file holds no bytes for it (shared memory)."""


def sections(cubin: bytes) -> tuple[_Section, ...]:
    """Return the sections of an ELF file, in file order.

    Raises:
        PerfcliError: it is no 64-bit little-endian ELF file, or is cut off.
    """
    if cubin[:6] != b"\x7fELF\x02\x01":
        raise PerfcliError(
            f"expected a cubin (64-bit ELF), got {len(cubin)} bytes that start with {cubin[:4]!r}"
        )
    try:
        return _sections(cubin)
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


def _sections(cubin: bytes) -> tuple[_Section, ...]:
    (table,) = struct.unpack_from("<Q", cubin, 40)
    size, count, names_index = struct.unpack_from("<HHH", cubin, 58)
    headers = [_SECTION.unpack_from(cubin, table + i * size) for i in range(count)]
    names = headers[names_index][4]
    return tuple(
        _Section(
            name=cubin[names + header[0] : cubin.index(b"\0", names + header[0])].decode(),
            data=b"" if header[1] == _NOBITS else cubin[header[4] : header[4] + header[5]],
        )
        for header in headers
    )
