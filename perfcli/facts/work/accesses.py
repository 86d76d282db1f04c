"""Counts what one access of a block asks of the memory system: requests, cache lines, sectors.

A warp's access is one request per instruction; the L1 cache handles it by lines of 128 bytes, and
L2 and DRAM by sectors of 32 bytes (CUDA C++ Programming Guide, "Device Memory Accesses").
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from perfcli.facts.work.programs import MemoryEvent
from perfcli.facts.work.ttgir import Blocked, Layout, Linear, Operation, _parse_tensor, _split_types

Numbers = np.ndarray[Any, Any]
LANES = 32
SECTOR_BYTES = 32
LINE_BYTES = 128
MOST_VECTOR_BYTES = 16
"""No access of a thread is wider, so that each is in one sector."""
_MOST_ELEMENTS = 16384
"""How many elements of a block are looked at; of a larger tile some warps stand for all."""


@dataclass(frozen=True, slots=True)
class _ThreadMap:
    """Holds which element of a tensor (a flat index) each register of each lane has."""

    elements: Numbers
    """One flat index for each warp, register and lane, on three axes."""
    vector: int
    """Neighbouring elements in neighbouring registers of a thread: at most so many per access."""


@dataclass(frozen=True, slots=True)
class AccessCounts:
    """Holds the counts of one access that a block runs once, averaged over the programs that were
    looked at."""

    instructions: float
    """Memory instructions of one warp, a thread's loads of one address counted once."""
    most_instructions: float
    """The same where the compiler does not see that the addresses are one."""
    requests: float
    """Instructions of all warps of the block, those with no active lane left out."""
    sectors: float
    """Sectors that each request touches, added over requests."""
    lines: float
    """Lines that each request touches, added over requests."""
    warp_sectors: float
    """Sectors that a warp writes, several writes of a warp to one sector merged; 0 for loads."""
    partial: float
    """Those of ``warp_sectors`` that are not written whole."""
    fragments: float
    """Those of ``partial`` with words of 4 bytes that are not written whole."""
    vector_bytes: int
    """The bytes that one thread moves at a time."""
    sector_sets: tuple[Numbers, ...]
    """For each program the sectors that it touches, each once."""
    useful_bytes: float
    """The bytes of elements that are not masked."""
    needed: float
    """The fewest sectors that could hold what each request moves, added over requests."""
    distinct_bytes: float
    """The bytes of different elements that are not masked."""
    own_requests: float
    """As ``requests``, of threads that have an element that no thread before them has: Triton lets
    only these store it (``getRedundantDataMask``, seen with 3.6). The same for loads."""
    own_sectors: float
    own_lines: float
    apart: int
    """Bytes from what one thread moves at a time to what its neighbour does, the most common."""


def count_access(
    event: MemoryEvent, layouts: Mapping[str, Layout], warps: int, widest: int = MOST_VECTOR_BYTES
) -> AccessCounts:
    """Count one memory event; averages are over its programs. ``widest`` is the most bytes that one
    instruction of a thread moves, where the machine code tells."""
    if event.tensor is None or not event.tensor.shape:
        return _single(event)
    shape = event.tensor.shape
    offsets = _whole(event.offset, shape)
    mask = None if event.mask is None else _whole(event.mask, shape)
    programs = max(len(offsets), 1 if mask is None else len(mask))
    offsets = np.broadcast_to(offsets, (programs, offsets.shape[1]))
    mask = None if mask is None else np.broadcast_to(mask, offsets.shape)
    threads = _thread_map(event.tensor.layout, shape, _frozen(layouts), warps)
    elements, scale, warps_kept = _some_warps(threads.elements, programs)
    address = offsets[:, elements]  # program, warp, register, lane
    active = None if mask is None else mask[:, elements]
    size = event.element_bytes
    vector = _vector(address, active, size, min(threads.vector, max(1, widest // size)))
    first = _grouped(address, vector)[:, :, :, 0]
    live = None if active is None else _grouped(active, vector)[:, :, :, 0]
    most = float(first.shape[2])
    if event.kind == "load":
        first, live = _without_repeats(first, live)
    if live is not None:
        first = np.where(live, first, -1)
    per = scale / programs
    ordered = np.sort(first, axis=3)
    written, partial, fragments = 0.0, 0.0, 0.0
    if event.kind != "load":
        written, partial, fragments = _written(first, first >= 0, vector * size)
    useful = offsets.shape[1] * programs if mask is None else int(mask.sum())
    pairs = [_touched(offsets[p], None if mask is None else mask[p]) for p in range(programs)]
    own = ordered
    if event.kind != "load":
        holders = _grouped(_find_holders(threads.elements, warps_kept)[None], vector)[:, :, :, 0]
        own = np.sort(np.where(holders, first, -1), axis=3)
    needed = -(-_distinct(own) * vector * size // SECTOR_BYTES)
    return AccessCounts(
        float(first.shape[2]),
        most,
        float((ordered[..., -1] >= 0).sum()) * per,
        float(_distinct(ordered // SECTOR_BYTES).sum()) * per,
        float(_distinct(ordered // LINE_BYTES).sum()) * per,
        written * per,
        partial * per,
        fragments * per,
        vector * size,
        tuple(sectors for sectors, _ in pairs),
        useful * size / programs,
        float(needed.sum()) * per,
        sum(elements for _, elements in pairs) * size / programs,
        float((own[..., -1] >= 0).sum()) * per,
        float(_distinct(own // SECTOR_BYTES).sum()) * per,
        float(_distinct(own // LINE_BYTES).sum()) * per,
        _find_most_common(np.diff(address[0, 0, 0])),
    )


def _single(event: MemoryEvent) -> AccessCounts:
    """Return the counts of a scalar access, which one lane of each block makes."""
    addresses = event.offset.reshape(-1)
    part = float(event.kind != "load")
    sets = tuple(np.array([address // SECTOR_BYTES]) for address in addresses)
    size = event.element_bytes
    once = (1.0, 1.0, 1.0, 1.0, 1.0)
    written = (part, part, part * (size < 4))
    return AccessCounts(
        *once, *written, size, sets, float(size), 1.0, float(size), 1.0, 1.0, 1.0, 0
    )


def _whole(values: Numbers, shape: tuple[int, ...]) -> Numbers:
    """Return the values with two axes: programs, and elements of the tensor."""
    full = np.broadcast_to(values, (values.shape[0], *shape))
    return full.reshape(full.shape[0], -1)


def _some_warps(elements: Numbers, programs: int) -> tuple[Numbers, float, Numbers]:
    """Return the elements of some warps, how many each stands for, and which they are."""
    warps = elements.shape[0]
    everything = np.arange(warps)
    if elements.size * programs <= 2 * _MOST_ELEMENTS or warps <= 2:
        return elements, 1.0, everything
    kept = max(2, 2 * _MOST_ELEMENTS * warps // (elements.size * programs))
    if kept >= warps:
        return elements, 1.0, everything
    chosen = np.linspace(0, warps - 1, kept).astype(int)
    return elements[chosen], warps / kept, chosen


def _find_holders(elements: Numbers, warps: Numbers) -> Numbers:
    """Return for some warps which of their registers and lanes are the first to have an element."""
    _, first = np.unique(elements.transpose(0, 2, 1), return_index=True)
    own: Numbers = np.zeros(elements.size, dtype=bool)
    own[first] = True
    shape = (elements.shape[0], elements.shape[2], elements.shape[1])
    found: Numbers = own.reshape(shape).transpose(0, 2, 1)[warps]
    return found


def _grouped(values: Numbers, vector: int) -> Numbers:
    """Return the values with five axes: program, warp, vector, element of the vector, lane."""
    return values.reshape(*values.shape[:2], -1, vector, values.shape[3])


def _vector(address: Numbers, active: Numbers | None, size: int, most: int) -> int:
    """Return how many elements one instruction of a thread moves: as many as are neighbours,
    aligned, and masked alike."""
    limit = min(most, max(1, MOST_VECTOR_BYTES // size))
    vector = 1
    while vector * 2 <= limit and address.shape[2] % (vector * 2) == 0:
        groups = _grouped(address, vector * 2)
        if np.any(groups[:, :, :, 1:] - groups[:, :, :, :-1] != size):
            break
        if np.any(groups[:, :, :, 0] % (size * vector * 2)):
            break
        if active is not None:
            alike = _grouped(active, vector * 2)
            if np.any(alike != alike[:, :, :, :1]):
                break
        vector *= 2
    return vector


def _without_repeats(first: Numbers, live: Numbers | None) -> tuple[Numbers, Numbers | None]:
    """Return the addresses and masks with a thread's loads of one address merged, since they are
    one instruction."""
    if first.shape[2] < 2:
        return first, live
    rows = first.transpose(2, 0, 1, 3).reshape(first.shape[2], -1)
    if len(rows) > 1 and not np.any(np.all(rows[1:] == rows[:-1], axis=1)) and rows.size > 4096:
        return first, live  # sorting long rows costs more than it finds
    _, kept = np.unique(rows, axis=0, return_index=True)
    if len(kept) == len(rows):
        return first, live
    kept = np.sort(kept)
    return first[:, :, kept], None if live is None else live[:, :, kept]


def _distinct(ordered: Numbers) -> Numbers:
    """Return how many different numbers from 0 up each warp's request has. They are in order."""
    new = ordered[..., 1:] != ordered[..., :-1]
    found: Numbers = (new & (ordered[..., 1:] >= 0)).sum(axis=3) + (ordered[..., 0] >= 0)
    return found


def _written(first: Numbers, active: Numbers, width: int) -> tuple[float, float, float]:
    """Return how many sectors warps write, how many of them they write in part, and how many have
    broken words. Pieces of at most 4 bytes are told apart."""
    piece = min(width, 4)
    pieces = first[..., None] + np.arange(width // piece) * piece
    count = pieces.shape[0] * pieces.shape[1]
    owner = np.arange(count).reshape(*pieces.shape[:2], 1, 1, 1)
    live = np.broadcast_to(active[..., None], pieces.shape)
    key = np.unique((np.broadcast_to(owner, pieces.shape)[live] << 40) + pieces[live])
    if key.size == 0:
        return 0.0, 0.0, 0.0
    sectors, pieces_each = np.unique(key >> 5, return_counts=True)
    partial = pieces_each * piece < SECTOR_BYTES
    fragments = 0
    if piece < 4:
        words, each = np.unique(key >> 2, return_counts=True)
        broken = words[each * piece < 4] >> 3
        fragments = int((np.isin(sectors, broken) & (pieces_each > 1)).sum())
    return float(len(sectors)), float(partial.sum()), float(fragments)


def _find_most_common(numbers: Numbers) -> int:
    values, counts = np.unique(numbers, return_counts=True)
    return int(values[np.argmax(counts)])


def _touched(offsets: Numbers, mask: Numbers | None) -> tuple[Numbers, int]:
    """Return the sectors that one program touches, and how many different elements."""
    elements = np.unique(offsets if mask is None else offsets[mask])
    sectors = elements // SECTOR_BYTES
    if sectors.size:
        sectors = sectors[np.concatenate(([True], sectors[1:] != sectors[:-1]))]
    return sectors, elements.size


# --- shared memory ---------------------------------------------------------------------------

_BANKS = 32


def _count_bank_conflicts(reduction: Operation, layouts: Mapping[str, Layout], warps: int) -> float:
    """Return the cycles that the warps of a block spend on bank conflicts in one reduction.

    Warps that hold parts of one result exchange them through shared memory, where Triton keeps
    the parts of one result side by side (``ReduceOpToLLVM.cpp``, seen in 3.6): lanes with results
    of their own write and read with a stride of as many words as there are parts.
    """
    axis = re.search(r"axis = (\d+)", reduction.text)
    operands = re.search(r": \((.*)\) ->", reduction.text)
    if axis is None or operands is None:
        return 0.0
    types = [_parse_tensor(text) for text in _split_types(operands[1])]
    tensor = types[0]
    if tensor is None or len(tensor.shape) <= int(axis[1]):
        return 0.0
    reduced = int(axis[1])
    held = _thread_map(tensor.layout, tensor.shape, _frozen(layouts), warps).elements
    coordinates = np.unravel_index(held, tensor.shape)
    others = [
        (c, n)
        for d, (c, n) in enumerate(zip(coordinates, tensor.shape, strict=True))
        if d != reduced
    ]
    result: Numbers = np.zeros_like(held)
    for coordinate, size in others:
        result = result * size + coordinate
    parts = len({part.tobytes() for part in coordinates[reduced]})
    if parts == 1:
        return 0.0
    cycles = 0
    kept = np.unique(result[0, :, 0], return_index=True)[1]
    for register in kept:
        words = np.unique(result[0, register]) * parts
        cycles += int(np.bincount(words % _BANKS).max()) - 1
    return 2.0 * cycles * warps * len(types)


# --- layouts ---------------------------------------------------------------------------------

_SLICE = re.compile(r"^#ttg\.slice<\{dim = (\d+), parent = (.*)\}>$")
FrozenLayouts = tuple[tuple[str, Layout], ...]


def _frozen(layouts: Mapping[str, Layout]) -> FrozenLayouts:
    return tuple(sorted(layouts.items(), key=lambda item: item[0]))


@functools.lru_cache(maxsize=4096)
def _thread_map(
    layout: str, shape: tuple[int, ...], layouts: FrozenLayouts, warps: int
) -> _ThreadMap:
    """Return which elements of a tensor of this shape each thread holds under a layout.

    A layout that is not known is taken to deal elements out one by one along the last axis.
    """
    sliced = _SLICE.match(layout)
    if sliced:
        axis = int(sliced[1])
        return _thread_map(sliced[2], (*shape[:axis], 1, *shape[axis:]), layouts, warps)
    found = dict(layouts).get(layout)
    if isinstance(found, Linear):
        coordinates, vector = _linear(found, shape)
    elif isinstance(found, Blocked) and len(found.order) == len(shape):
        coordinates, vector = _blocked(found, shape)
    else:
        rest = len(shape) - 1
        plain = Blocked(
            (1,) * (rest + 1),
            (1,) * rest + (LANES,),
            (1,) * rest + (warps,),
            tuple(range(rest + 1))[::-1],
        )
        coordinates, vector = _blocked(plain, shape)
    elements = np.zeros_like(coordinates[0])
    for axis, size in enumerate(shape):
        elements = elements * size + coordinates[axis]
    _, kept = np.unique(elements[0, :, 0], return_index=True)
    if len(kept) < elements.shape[1]:  # a tile larger than the tensor holds elements twice
        elements = elements[:, np.sort(kept)]
    return _ThreadMap(elements, max(1, vector))


def _blocked(layout: Blocked, shape: tuple[int, ...]) -> tuple[list[Numbers], int]:
    """Return the coordinates (warps, registers, lanes) on each axis, and how many neighbours a
    thread holds."""
    rank = len(shape)
    lanes, warps = _dealt(layout.per_warp, layout.order), _dealt(layout.warps, layout.order)
    tile = [layout.per_thread[d] * layout.per_warp[d] * layout.warps[d] for d in range(rank)]
    registers = np.zeros((1, rank), dtype=np.int64)
    for axis in layout.order:
        registers = _repeated(registers, axis, layout.per_thread[axis], 1)
    for axis in layout.order:
        registers = _repeated(registers, axis, max(1, -(-shape[axis] // tile[axis])), tile[axis])
    coordinates = []
    for axis in range(rank):
        own = layout.per_thread[axis]
        at = (
            warps[axis][:, None, None] * (own * layout.per_warp[axis])
            + lanes[axis][None, None, :] * own
            + registers[:, axis][None, :, None]
        )
        coordinates.append(at % shape[axis])
    fastest = layout.order[0]
    return coordinates, min(layout.per_thread[fastest], shape[fastest])


def _dealt(counts: tuple[int, ...], order: tuple[int, ...]) -> list[Numbers]:
    """Return lane or warp numbers as coordinates, dealt out along the fastest axis first."""
    numbers = np.arange(int(np.prod(counts)))
    found = [numbers * 0 for _ in counts]
    for axis in order:
        found[axis] = numbers % counts[axis]
        numbers = numbers // counts[axis]
    return found


def _repeated(registers: Numbers, axis: int, count: int, step: int) -> Numbers:
    """Return the registers repeated for each of ``count`` steps along an axis, of which the steps
    vary slowest."""
    if count == 1:
        return registers
    steps = np.zeros((count, 1, registers.shape[1]), dtype=np.int64)
    steps[:, 0, axis] = np.arange(count) * step
    return (steps + registers[None]).reshape(-1, registers.shape[1])


def _linear(layout: Linear, shape: tuple[int, ...]) -> tuple[list[Numbers], int]:
    rank = len(shape)
    registers, lanes, warps = (
        _spanned(bases, rank) for bases in (layout.register, layout.lane, layout.warp)
    )
    at = warps[:, None, None] ^ registers[None, :, None] ^ lanes[None, None, :]
    vector = 1
    fastest = rank - 1
    while vector < len(registers) and np.array_equal(
        registers[: vector * 2, fastest], np.arange(vector * 2)
    ):
        vector *= 2
    return [at[..., axis] % shape[axis] for axis in range(rank)], vector


def _spanned(bases: tuple[tuple[int, ...], ...], rank: int) -> Numbers:
    """Return all combinations of the basis vectors by exclusive or."""
    found = np.zeros((1, rank), dtype=np.int64)
    for basis in bases:
        found = np.concatenate([found, found ^ np.array(basis, dtype=np.int64)])
    return found
