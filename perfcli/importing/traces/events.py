"""Streams the events of a Chrome trace (JSON), as Kineto and other profilers write it.

A file is read in pieces of a megabyte. A piece ends where an event ends, which is found by trying:
of a text that begins with an event, only a part that ends with one decodes. Most pieces decode at
the first try, at more than a hundred megabytes per second. What does not decode, because a number
is ``NaN``, a name has a raw control character, or arguments are nested too deeply, is decoded event
by event with Python's own decoder; what that can't read either is skipped and counted.

Read with traces of torch 1.12 to 2.13: an object with ``traceEvents``, or the list of events alone.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from perfcli.decoding import decoder
from perfcli.errors import PerfcliError
from perfcli.importing.opening import CutOff, Readable, open_bounded

_PIECE = 1 << 20
"""Bytes that are decoded at once."""
_MOST_EVENT = 64 << 20
"""Bytes of one event, and of all that stands before or behind the events."""
_MOST_UNREADABLE = 1000
_TRIES = 4
"""Ends of a piece that are tried before it is read event by event."""
_TAIL = 32 << 10
"""Bytes at the end of a piece in which its end is looked for."""
_EVENTS = re.compile(rb'"traceEvents"\s*:\s*\[')
_END = re.compile(rb"\}(?=\s*(?:,\s*\{|\]))")
_NEXT = re.compile(r'\}\s*,\s*(?=\{\s*"(?:ph|name|cat|ts|pid|tid|id|dur|s|bp|args)"\s*:)')
_BLANKS = b" \t\r\n,"

T = TypeVar("T")
U = TypeVar("U")


class Event(msgspec.Struct, gc=False):
    """Holds one event, as far as it matters here. Times are in microseconds."""

    ph: str = ""
    cat: str = ""
    name: str = ""
    ts: float = 0.0
    dur: float = 0.0
    tid: int | str = 0
    args: msgspec.Raw = msgspec.Raw(b"")
    """Not decoded: see ``decode_arguments``."""


_DECODER = decoder(list[Event])
_PATIENT = json.JSONDecoder(strict=False)


def decode_arguments(event: Event, decoder: msgspec.json.Decoder[T], empty: U) -> T | U:
    """Return an event's arguments as the decoder's type, or ``empty`` where they are of no such
    form."""
    try:
        return decoder.decode(event.args)
    except (msgspec.DecodeError, RecursionError):
        return empty


@dataclass(slots=True)
class TraceFile:
    """Reads one file, and learns what it is on the way."""

    path: Path
    metadata: dict[str, Any] = field(default_factory=dict)
    """What stands beside the events: ``deviceProperties``, ``distributedInfo``. Complete once all
    events were read."""
    events: int = 0
    unreadable: int = 0
    """Events that could not be read."""
    cut_off: bool = False
    """Whether the end is missing."""

    def read(self) -> Iterator[list[Event]]:
        """Yield all events, in lists. Raises PerfcliError for what is not a trace."""
        with open_bounded(self.path) as file:
            source = _Source(file)
            bare = self._skip_to_events(source)
            while self._stands_at_event(source, bare):
                found, length = self._take(source)
                source.drop(length)
                self.events += len(found)
                if found:
                    yield found
            self._read_rest(source)

    def _skip_to_events(self, source: _Source) -> bool:
        """Drop what stands before the first event, and keep it as metadata. Return whether there is
        nothing but a list of events."""
        source.fill(_PIECE)
        head = source.text.lstrip(b"\xef\xbb\xbf" + _BLANKS)
        if head.startswith(b"["):
            source.drop(source.text.index(b"[") + 1)
            return True
        if not head.startswith(b"{"):
            raise PerfcliError(f"{self.path} is not a trace: it is not JSON")
        while (found := _EVENTS.search(source.text)) is None:
            if len(source.text) > _MOST_EVENT or not source.fill(2 * len(source.text)):
                raise PerfcliError(f"{self.path} is not a trace: it has no traceEvents")
        self._learn(source.text[: found.end()] + b"]}")
        source.drop(found.end())
        return False

    def _stands_at_event(self, source: _Source, bare: bool) -> bool:
        """Drop what separates events. Return whether one follows."""
        while True:
            source.drop(len(source.text) - len(source.text.lstrip(_BLANKS)))
            if source.text:
                break
            if not source.fill(_PIECE):
                # Of a bare list the format allows the end to be missing.
                self.cut_off |= not bare or source.broken
                return False
        if source.text[:1] not in (b"{", b"]"):
            raise PerfcliError(f"{self.path} is not a trace: it holds something else than events")
        return source.text.startswith(b"{")

    def _take(self, source: _Source) -> tuple[list[Event], int]:
        """Return the events at the start of the text, and how many bytes they take."""
        source.fill(_PIECE)
        while True:
            for end in source.list_ends():
                found = _decode(source.text[:end])
                if found is not None:
                    return found, end
            found, length = self._take_patiently(source)
            if length:
                return found, length
            if len(source.text) > _MOST_EVENT:
                raise PerfcliError(
                    f"{self.path} has an event of more than {_MOST_EVENT >> 20} MiB, which no "
                    "profiler writes"
                )
            if not source.fill(2 * len(source.text)):
                self.cut_off = True
                return [], len(source.text)

    def _take_patiently(self, source: _Source) -> tuple[list[Event], int]:
        """Return the events at the start of the text, one decoded after the other; what is no event
        is skipped. The last one may continue where the text ends, and is left there."""
        text = source.text.decode("utf-8", "surrogateescape")
        found: list[Event] = []
        place = 0
        while place < len(text) and text[place] == "{":
            try:
                plain, end = _PATIENT.raw_decode(text, place)
            except (ValueError, RecursionError):
                following = _NEXT.search(text, place + 1)
                if following is None:
                    break
                self._count_unreadable()
                plain, end = None, following.start() + 1
            if isinstance(plain, Mapping):
                found.append(_make_event(plain))
            place = end
            while place < len(text) and text[place] in " \t\r\n,":
                place += 1
        return found, len(text[:place].encode("utf-8", "surrogateescape"))

    def _count_unreadable(self) -> None:
        self.unreadable += 1
        if self.unreadable > _MOST_UNREADABLE:
            raise PerfcliError(
                f"{self.path} is not a trace: more than {_MOST_UNREADABLE} of its events can't be "
                "read"
            )

    def _read_rest(self, source: _Source) -> None:
        """Keep what stands behind the events as metadata, as far as it is not absurdly long."""
        source.fill(_MOST_EVENT)
        self._learn(b"{" + source.text.removeprefix(b"]").lstrip(_BLANKS))

    def _learn(self, text: bytes) -> None:
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            return
        if isinstance(found, dict):
            found.pop("traceEvents", None)
            self.metadata |= found


class _Source:
    """Holds the part of a file that was read and not yet taken."""

    def __init__(self, file: Readable) -> None:
        self._file = file
        self.text = b""
        self.broken = False
        """Whether a compressed file lacks its end."""

    def fill(self, size: int) -> bool:
        """Read on until so many bytes are there. Return whether there are more than before."""
        before = len(self.text)
        try:
            while len(self.text) < size and (more := self._file.read(size - len(self.text))):
                self.text += more
        except CutOff:
            self.broken = True
        return len(self.text) > before

    def drop(self, length: int) -> None:
        self.text = self.text[length:]

    def list_ends(self) -> list[int]:
        """Return places at which an event may end, the last first."""
        for start in (max(len(self.text) - _TAIL, 0), 0):
            ends = [found.end() for found in _END.finditer(self.text, start)]
            if ends or not start:
                break
        return ends[: -_TRIES - 1 : -1]


def _decode(text: bytes) -> list[Event] | None:
    """Return the events of a text, or None where it is no sequence of events."""
    try:
        return _DECODER.decode(b"[" + text + b"]")
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None


def _make_event(plain: Mapping[str, Any]) -> Event:
    """Return an event whose values may have any type."""
    number = plain.get("tid", 0)
    return Event(
        _make_text(plain.get("ph")),
        _make_text(plain.get("cat")),
        _make_text(plain.get("name")),
        _make_number(plain.get("ts")),
        _make_number(plain.get("dur", 0.0)),
        number if isinstance(number, int) else _make_text(number),
        msgspec.Raw(json.dumps(_make_plain(plain.get("args", {}))).encode()),
    )


def _make_text(value: object) -> str:
    text = "" if value is None else str(value)
    return text.encode("utf-8", "replace").decode()


def _make_number(value: object) -> float:
    """Return what reads as a number, else NaN."""
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return math.nan


def _make_plain(value: object) -> object:
    """Return an event's arguments without those that JSON can't hold."""
    if not isinstance(value, Mapping):
        return {}
    return {
        name: each
        for name, each in value.items()
        if not (isinstance(each, float) and not math.isfinite(each))
    }
