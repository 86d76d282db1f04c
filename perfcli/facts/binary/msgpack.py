"""Decodes MessagePack as far as the metadata of AMD's code objects uses it: maps, lists, texts,
whole numbers and truth values. It needs the standard library only, because workers read it.

The format: https://github.com/msgpack/msgpack/blob/master/spec.md
"""

from __future__ import annotations

import struct
from typing import Any

_CONSTANTS = {0xC0: None, 0xC2: False, 0xC3: True}
_NUMBERS = {
    0xCC: ">B",
    0xCD: ">H",
    0xCE: ">I",
    0xCF: ">Q",
    0xD0: ">b",
    0xD1: ">h",
    0xD2: ">i",
    0xD3: ">q",
}
_LENGTHS = {
    0xD9: (">B", "text"),
    0xDA: (">H", "text"),
    0xDB: (">I", "text"),
    0xDC: (">H", "list"),
    0xDD: (">I", "list"),
    0xDE: (">H", "map"),
    0xDF: (">I", "map"),
}


def decode(data: bytes) -> Any:
    """Return the first value in ``data``.

    Raises:
        ValueError: it is cut off, or holds a kind of value that is not known here.
    """
    try:
        return _Reader(data).value()
    except (struct.error, IndexError) as error:
        raise ValueError(f"expected a whole MessagePack value in {len(data)} bytes") from error


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def value(self) -> Any:
        tag = self._number(">B")
        if tag < 0x80:
            return tag
        if tag >= 0xE0:
            return tag - 0x100
        if tag in _CONSTANTS:
            return _CONSTANTS[tag]
        if tag in _NUMBERS:
            return self._number(_NUMBERS[tag])
        if tag < 0xC0:
            kind = "map" if tag < 0x90 else "list" if tag < 0xA0 else "text"
            return self._sized(kind, tag & (0x1F if kind == "text" else 0x0F))
        if tag in _LENGTHS:
            code, kind = _LENGTHS[tag]
            return self._sized(kind, self._number(code))
        raise ValueError(f"MessagePack value of kind 0x{tag:02x} is not known here")

    def _sized(self, kind: str, size: int) -> Any:
        if kind == "map":
            return {self.value(): self.value() for _ in range(size)}
        if kind == "list":
            return [self.value() for _ in range(size)]
        text = self._data[self._at : self._at + size]
        if len(text) < size:
            raise IndexError
        self._at += size
        return text.decode()

    def _number(self, code: str) -> int:
        (number,) = struct.unpack_from(code, self._data, self._at)
        self._at += struct.calcsize(code)
        return int(number)
