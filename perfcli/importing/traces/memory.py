"""Reads a snapshot of torch's caching allocator, written as JSON: how much was allocated at most,
and by which lines.

``torch.cuda.memory._snapshot()`` is an object with ``segments`` and ``device_traces``, the history
of each device. torch itself writes it as a pickle, which perfcli never loads. Read with torch 2.11.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import msgspec

from perfcli import units
from perfcli.decoding import decode
from perfcli.errors import PerfcliError
from perfcli.importing.opening import CutOff, open_bounded

_SNAPSHOT = re.compile(rb'"(?:segments|device_traces)"\s*:')
_MOST_BYTES = 1 << 30
_MOST_HELD = 10
_INSIDE = re.compile(r"torch::|c10::|at::|<|\?\?|.*/(?:torch|triton)/|.*torchinductor_|.*\.cpp$")
"""Frames that say nothing of the model."""


class _Frame(msgspec.Struct):
    name: str = ""
    filename: str = ""
    line: int = 0


class _Change(msgspec.Struct):
    """One entry of the history."""

    action: str = ""
    addr: int = 0
    size: int = 0
    frames: list[_Frame] = []


class _Block(msgspec.Struct):
    size: int = 0
    state: str = ""


class _Segment(msgspec.Struct):
    device: int = 0
    blocks: list[_Block] = []


class _Snapshot(msgspec.Struct):
    segments: list[_Segment] = []
    device_traces: list[list[_Change]] = []


@dataclass(frozen=True, slots=True)
class MemorySeen:
    """Holds what a snapshot says of the device that allocated most."""

    file: str
    peak_bytes: int | None
    held: tuple[tuple[str, int], ...]
    """What was allocated at the peak, by the line that asked for it, the most first."""
    notes: tuple[str, ...] = ()


def is_snapshot(head: bytes) -> bool:
    """Return whether the first bytes of a file are those of a snapshot."""
    return bool(_SNAPSHOT.search(head)) and b"traceEvents" not in head


def read_snapshot(path: Path) -> MemorySeen:
    """Return what a snapshot says. Raises PerfcliError for what is none."""
    text = b""
    try:
        with open_bounded(path) as file:
            while len(text) <= _MOST_BYTES and (more := file.read(1 << 24)):
                text += more
    except CutOff:
        raise PerfcliError(f"{path} is cut off: a snapshot is read as a whole") from None
    if len(text) > _MOST_BYTES:
        raise PerfcliError(f"{path} is larger than {units.size(_MOST_BYTES)}")
    try:
        snapshot = decode(text, _Snapshot)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise PerfcliError(f"{path} is not a memory snapshot: {error}") from error
    held = Counter[int]()
    for segment in snapshot.segments:
        held[segment.device] += sum(_is_held(block) * block.size for block in segment.blocks)
    devices = range(max(len(snapshot.device_traces), max(held, default=0) + 1))
    histories = dict(enumerate(snapshot.device_traces))
    best = max((_replay(histories.get(n, []), held[n]) for n in devices), key=lambda seen: seen[0])
    notes = () if any(histories.values()) else (_NO_HISTORY,)
    return MemorySeen(path.name, best[0], best[1], notes)


_NO_HISTORY = (
    "the snapshot has no history: the memory is that of its moment "
    "(torch.cuda.memory._record_memory_history() keeps one)"
)


def _is_held(block: _Block) -> bool:
    return block.state.startswith("active")


def _replay(history: list[_Change], at_end: int) -> tuple[int, tuple[tuple[str, int], ...]]:
    """Return the most that was allocated during a history, and by whom.

    What is freed and was not allocated in it was there before. Memory counts as free once the
    program frees it (``free_requested``): what other streams still use is the allocator's.
    """
    moved = {"alloc": 1, "free_requested": -1}
    net = sum(moved.get(change.action, 0) * change.size for change in history)
    level = most = max(at_end - net, 0)
    place = 0
    for number, change in enumerate(history, 1):
        level += moved.get(change.action, 0) * change.size
        if level > most:
            most, place = level, number
    alive: dict[int, _Change] = {}
    for change in history[:place]:
        if change.action == "alloc":
            alive[change.addr] = change
        elif change.action == "free_requested":
            alive.pop(change.addr, None)
    owners = Counter[str]()
    for change in alive.values():
        owners[_name_owner(change)] += change.size
    before = most - owners.total()
    if before > 0:
        owners["allocated before the history began"] = before
    return most, tuple(owners.most_common(_MOST_HELD))


def _name_owner(change: _Change) -> str:
    """Return the innermost line of the model that asked for memory, or of generated code."""
    python = [frame for frame in change.frames if frame.filename.endswith(".py")]
    own = next((f for f in python if not _INSIDE.match(f.filename)), None)
    chosen = own or next(iter(python), None)
    if chosen is None:
        return "unknown"
    return f"{'/'.join(chosen.filename.split('/')[-2:])}:{chosen.line} {chosen.name}"
