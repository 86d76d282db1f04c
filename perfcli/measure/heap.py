"""Handles glibc's heap of this process, as far as it decides where a step's memory lies."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LINE, PAGE = 64, mmap.PAGESIZE
_LARGEST = 1 << 30
_SMALLEST = 1 << 10
_MOST_HOLES = 1 << 16
_OWN_BYTES = 8
_ATTEMPTS = 3
_DONTNEED = 4  # MADV_DONTNEED of Linux' asm-generic/mman-common.h


def why_unmovable() -> str:
    """Return why layouts can't be changed here, for the notes; empty where they can."""
    if Heap().takes_all():
        return ""
    return (
        "this malloc does not take large blocks from the heap (glibc 2.35 or later does, where "
        "nothing else is preloaded): each side keeps the addresses and pages that it got"
    )


class Heap:
    """Takes blocks of memory by the C library's own functions."""

    def __init__(self) -> None:
        libc = ctypes.CDLL(None)
        self._malloc, self._free = libc.malloc, libc.free
        self._malloc.restype = ctypes.c_void_p
        self._malloc.argtypes, self._free.argtypes = [ctypes.c_size_t], [ctypes.c_void_p]

    def takes_all(self) -> bool:
        """Return whether large blocks come from it too: with another malloc, or none from there,
        the rest here would look for the heap's end for ever."""
        block = self._malloc(_LARGEST)
        try:
            return block is not None and any(
                start <= block and block + _LARGEST <= end for start, end in _heaps()
            )
        finally:
            self._free(block)

    def fill(self) -> None:
        """Take every hole for good: blocks of each size until one comes from the heap's end. What
        was in them goes back to the system."""
        size, end = _LARGEST, self.end()
        while size >= _SMALLEST:
            for _ in range(_MOST_HOLES):
                block = self._malloc(size)
                if block is None or block >= end:
                    self._free(block)
                    break
                for address, length in whole_pages(block, size):
                    give_back(address, length)
            size //= 2

    def end(self) -> int:
        """Return where the last, free part of the heap begins: a large block is taken from its
        front."""
        block = self._malloc(_LARGEST)
        self._free(block)
        return int(block or 0)

    def move(self, lines: int) -> None:
        """See to it that the next large block lies so many cache lines behind the beginning of a
        page. What lies before it stays taken: a hole there would be used first, as would one that a
        step's own memory left, below something smaller that stayed."""
        for _ in range(_ATTEMPTS):
            place = self.end()
            # malloc rounds what it is asked for, and eight bytes of its own, up to a multiple of 16
            block = self._malloc(-place % PAGE + PAGE + lines * LINE - _OWN_BYTES)
            if block is None or block == place:
                return
            self._free(block)
            self.fill()

    @contextmanager
    def taken(self, length: int) -> Iterator[tuple[int, int]]:
        """Yield whole pages of so many bytes at the heap's end, that nobody else has meanwhile."""
        block = self._malloc(length + 2 * PAGE)
        try:
            yield -(-((block or 0) + LINE) // PAGE) * PAGE, length if block else 0
        finally:
            self._free(block)


def whole_pages(address: int, length: int) -> Iterator[tuple[int, int]]:
    """Yield address and bytes of the pages that lie within it altogether, if any do."""
    first, last = -(-address // PAGE) * PAGE, (address + length) // PAGE * PAGE
    if last > first:
        yield first, last - first


def give_back(address: int, length: int) -> None:
    """Give the pages there back to the system: whoever touches them next finds zeros."""
    ctypes.CDLL(None).madvise(ctypes.c_void_p(address), ctypes.c_size_t(length), _DONTNEED)


def _heaps(maps: Path = Path("/proc/self/maps")) -> Iterator[tuple[int, int]]:
    """Yield where what ``brk`` gave begins and ends."""
    try:
        lines = maps.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return
    for line in lines:
        if line.endswith("[heap]"):
            start, end = line.split()[0].split("-")
            yield int(start, 16), int(end, 16)
