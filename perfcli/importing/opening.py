"""Opens files by what they hold, not by their names, and bounds what comes out of compressed ones.

A name may lie: tools write ``.json.gz`` without compressing it, and the other way round.
"""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Protocol

from perfcli.errors import PerfcliError

_GZIP = b"\x1f\x8b"
_ZIP = (b"PK\x03\x04", b"PK\x05\x06")
SQLITE = b"SQLite format 3\x00"
_PICKLES = tuple(bytes((0x80, protocol)) for protocol in range(2, 6))
_MOST_RATIO = 300
"""A trace is text that repeats itself: compressed it is 10 to 60 times smaller."""
_HARMLESS_BYTES = 1 << 30
"""As much may come out of any file, however small."""


class CutOff(Exception):
    """The compressed file ends before its end."""


def peek(path: Path, size: int = 65536) -> bytes:
    """Return the first bytes of a file, uncompressed; fewer where it is shorter or damaged. Raises
    PerfcliError for a file that can't be read."""
    try:
        with path.open("rb") as file:
            head = file.read(size)
    except OSError as error:
        raise PerfcliError(f"can't read {path}: {error.strerror}") from error
    if not head.startswith(_GZIP):
        return head
    try:
        return zlib.decompressobj(wbits=31).decompress(head, size)
    except zlib.error:
        return b""


def refuse_archives(path: Path, head: bytes) -> None:
    """Raise PerfcliError for a zip archive and for a pickle, which are never opened."""
    if head.startswith(_ZIP):
        raise PerfcliError(f"{path} is a zip archive: unpack it, and name what is in it")
    if head.startswith(_PICKLES):
        raise PerfcliError(
            f"{path} is a pickle, which could run any program: write a memory snapshot as JSON, "
            "json.dump(torch.cuda.memory._snapshot(), file, default=str)"
        )


class Readable(Protocol):
    """Something to read bytes from."""

    def read(self, size: int, /) -> bytes: ...


@contextmanager
def open_bounded(path: Path) -> Iterator[Readable]:
    """Open a file for reading, uncompressed if it is compressed.

    Reading raises CutOff where a compressed file lacks its end, and PerfcliError where one is
    damaged or holds absurdly much.
    """
    with path.open("rb") as raw:
        packed = raw.read(len(_GZIP)) == _GZIP
        raw.seek(0)
        yield _Unpacked(raw, path) if packed else raw


class _Unpacked:
    """Unpacks gzip, as much as a file of this size can sensibly hold."""

    def __init__(self, raw: BinaryIO, path: Path) -> None:
        self._path = path
        self._file = gzip.GzipFile(fileobj=raw, mode="rb")
        self._left = max(os.fstat(raw.fileno()).st_size * _MOST_RATIO, _HARMLESS_BYTES)

    def read(self, size: int, /) -> bytes:
        try:
            data = self._file.read1(size)
        except EOFError as error:
            raise CutOff from error
        except (OSError, zlib.error) as error:
            raise PerfcliError(f"{self._path} is damaged: {error}") from error
        self._left -= len(data)
        if self._left < 0:
            raise PerfcliError(
                f"{self._path} unpacks to more than {_MOST_RATIO} times its size, which no trace "
                "does: it is not read further"
            )
        return data
