"""Moves a step's memory on the CPU elsewhere every while, by the same draw on both sides.

Two processes of the same code differ in speed for as long as they live, by 1 % here and 3 % there:
because of the last bits of their buffers' addresses (a load waits for an earlier store at the same
place of another page), and because of the physical pages behind them (which data displace which
from a cache). No number of rounds tells that from a change. So

* once, every hole in the heap is filled: what a step allocates then lies one behind the other at
  the heap's end, in both processes alike;
* five times a second that end is moved by a number of cache lines, drawn alike on both sides;
* and that memory, the model's and the inputs' get other physical pages.

What a process happened to get becomes noise between a hundred layouts, which they average out. More
often costs rounds: a change takes as long as a few of them. Linux with
glibc 2.35 or later, where it takes all memory from its heap (``MALLOC_MMAP_THRESHOLD_``).
"""

from __future__ import annotations

import ctypes
import mmap
import random
from collections import deque
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from perfcli.measure import heap
from perfcli.measure.heap import LINE, PAGE, Heap
from perfcli.measure.step import storages

if TYPE_CHECKING:
    from perfcli.measure.step import Step

MOST_BYTES = 128 << 20
"""The most bytes that get other pages; above this only addresses move: other pages would take
longer than the steps, and so many lie in good and bad places alike."""
PARKED = 4
"""Generations of old pages that are kept from being handed out again: the system gives out first
what it got last."""
_LEAST_BYTES = 1 << 14


class Layout:
    """Changes the layout of a step's memory. ``seed``: the same on both sides. ``peak_bytes``: what
    is allocated at a step's peak, with the weights and inputs. Whether pages are renewed is decided
    by the latter alone, which both sides have alike."""

    def __init__(self, step: Step, seed: int, peak_bytes: int | None) -> None:
        self._step = step
        self._draw = random.Random(seed)
        self._heap = Heap()
        self._parked: deque[list[mmap.mmap]] = deque(maxlen=PARKED)
        held = sum(length for _, length in storages(step))
        self.renews = held <= MOST_BYTES
        self.step_bytes = _step_pages(peak_bytes, held)
        self._heap.fill()

    def change(self) -> None:
        """Make another layout, for the next turn."""
        if self.renews:
            self._renew()
        self._heap.move(self._draw.randrange(PAGE // LINE))

    def _renew(self) -> None:
        parked = []
        for address, length in _whole_pages(storages(self._step)):
            kept = _take_pages(length)
            ctypes.memmove(_address(kept), address, length)
            parked.append(_exchange_pages(address, length))
            ctypes.memmove(address, _address(kept), length)
        with self._heap.taken(self.step_bytes) as (address, length):
            parked.append(_exchange_pages(address, length))
        self._parked.append(parked)


def _step_pages(peak_bytes: int | None, held: int) -> int:
    """Return whole pages at the heap's end that get others: what a step takes there besides the
    weights and inputs, or as much of it as may be renewed besides these."""
    own = max((peak_bytes or 0) - held, 0)
    return min(-(-own // PAGE) * PAGE + PAGE, max(MOST_BYTES - held, PAGE))


def _whole_pages(places: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield address and length of the pages that lie within one storage each: their neighbours'
    bytes are not touched."""
    for place in places:
        for address, length in heap.whole_pages(*place):
            if length >= _LEAST_BYTES:
                yield address, length


def _exchange_pages(address: int, length: int) -> mmap.mmap:
    """Give the pages there back to the system and let a new mapping, which is returned, take
    them."""
    heap.give_back(address, length)
    return _take_pages(length)


def _take_pages(length: int) -> mmap.mmap:
    """Take pages that nobody else gets as long as the result lives."""
    pages = mmap.mmap(-1, length, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    ctypes.memset(_address(pages), 1, length)
    return pages


def _address(pages: mmap.mmap) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(pages))
