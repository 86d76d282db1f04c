"""Defines what one addition to a history says, and how it is written: an entry is named by the
SHA-256 of what it says, so the same twice is one."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import msgspec

from perfcli import units
from perfcli.decoding import decode, decoder
from perfcli.errors import PerfcliError
from perfcli.model import Device, Mode, Scalar

# Nothing here refers to itself, so that the garbage collector need not look at any of a hundred
# thousand objects (``gc=False``).
Kind = Literal["static", "estimated", "measured"]
"""Whether a number was counted in compiled code, is an estimate of time, or was timed."""

# History of the format of entries, packs and homes; readers take every version up to FORMAT.
# 1  first version
FORMAT = 1


class Subject(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Says what was compiled: the part of a series' key that all points of an entry share."""

    scenario: str
    params: Mapping[str, Scalar] = {}
    mode: Mode = "forward"
    device: Device = "cuda"
    target: str = ""
    dynamic: bool = False
    world: int = 1
    inputs: tuple[str, ...] = ()
    label: str = ""
    """What the user calls one of several ways to compile it that are tracked side by side."""

    @property
    def key(self) -> bytes:
        return msgspec.json.encode(self, order="deterministic")

    @property
    def where(self) -> str:
        """Return the GPU that it is compiled for, or the device of this machine."""
        return self.target or self.device

    def __str__(self) -> str:
        """Return all of it in one line: ``softmax · training · h100 · rows=2048``."""
        ways = (
            "dynamic shapes" if self.dynamic else "",
            f"world {self.world}" if self.world > 1 else "",
            " ".join(self.inputs),
        )
        params = " ".join(f"{name}={units.parameter(value)}" for name, value in self.params.items())
        words = (self.scenario, self.mode, self.where, params, *ways, self.label)
        return " · ".join(filter(None, words))


class Point(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Holds one number. A measured one is a ratio to a control of the same session."""

    kind: Kind
    kernel: str
    """The kernel group; empty for the whole step."""
    metric: str
    value: float
    basis: str = ""
    """What the number can't be compared without: the control of a measured one, the constants of an
    estimated one, the graphs of peak memory where graph breaks cut the model into several."""
    low: float | None = None
    high: float | None = None


class Commit(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Says which revision of the user's repository was compiled."""

    id: str = ""
    title: str = ""
    time: str = ""
    """When it was committed: ISO 8601, UTC."""
    depth: int | None = None
    """Commits that it contains, itself with them: more than any of its ancestors. None in a shallow
    clone, or without a repository."""
    repository: str = ""
    """The first commit of the history that ``depth`` counts."""
    branch: str = ""
    edited: bool = False
    """Whether what was compiled is not what was committed."""


class Entry(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Holds what one addition says."""

    subject: Subject
    commit: Commit
    created: str = ""
    """When it was compiled or measured: ISO 8601, UTC; empty where a document does not say so."""
    circumstances: Mapping[str, str] = {}
    """What may be behind a change, beside the commit: versions, options, the machine."""
    run: str = ""
    """SHA-256 of the stored file of its run; empty where it was not at hand."""
    control: str = ""
    """The same of the run that was measured beside it."""
    points: tuple[Point, ...] = ()
    """Those of the whole step."""
    kernels: msgspec.Raw = msgspec.Raw(b"[]")
    """Those of kernel groups, several for each: most readers leave them alone."""

    def read_kernels(self) -> list[Point]:
        """Return the points of kernel groups."""
        return _points_decoder.decode(self.kernels)


_points_decoder = decoder(list[Point])


class Stored(msgspec.Struct, frozen=True, gc=False):
    """Holds an entry as a history has it."""

    perfcli: str
    format: int
    id: str
    sequence: int
    """One more than the largest of the history when it was added: the order of additions, whatever
    clocks say."""
    added: str
    """When it was added, by the clock of the machine that added it."""
    entry: Entry

    @property
    def when(self) -> str:
        return self.entry.created or self.added


KIND = "history-entry"


def encode_points(points: Sequence[Point]) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(points))


def encode_body(entry: Entry) -> bytes:
    """Return the bytes that say what an entry says, the same of one that was made here and of one
    that was read: msgspec leaves out a default by its identity, not by its value, so that all are
    encoded as those that were read."""
    read = _body_decoder.decode(msgspec.json.encode(entry))
    return msgspec.json.encode(read, order="deterministic")


def name_body(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def write_line(body: bytes, sequence: int, added: str) -> tuple[str, bytes]:
    """Return the name of an entry that is encoded, and the one line that is written of it."""
    name = name_body(body)
    head = msgspec.json.encode(
        {"perfcli": KIND, "format": FORMAT, "id": name, "sequence": sequence, "added": added}
    )
    return name, head[:-1] + _BEFORE_BODY + body + b"}\n"


def find_body(line: bytes) -> bytes:
    """Return the encoded entry that stands in a line. Raises ValueError where there is none."""
    return line[line.index(_BEFORE_BODY) + len(_BEFORE_BODY) : -2]


class Known:
    """Tells entries that say the same from others, in whatever bytes each is stored: perfcli once
    wrote them as they were made, with defaults that ``encode_body`` leaves out."""

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        # Encoding takes time, and only entries of one commit and one time can say the same.
        self._by_occasion: dict[tuple[str, str], tuple[list[Entry], set[str]]] = {}
        for each in entries:
            self.take(each)

    def take(self, entry: Entry) -> bool:
        """Return whether no entry that was taken before says the same."""
        occasion = entry.commit.id, entry.created
        waiting, names = self._by_occasion.setdefault(occasion, ([], set()))
        if not waiting and not names:
            waiting.append(entry)
            return True
        names.update(name_body(encode_body(each)) for each in waiting)
        waiting.clear()
        name = name_body(encode_body(entry))
        is_new = name not in names
        names.add(name)
        return is_new


_BEFORE_BODY = b',"entry":'
_body_decoder = decoder(Entry)
_decoder = decoder(Stored)


def decode_entries(lines: bytes, where: str) -> list[Stored]:
    """Return the entries of several lines; raises as ``decode_entry``."""
    try:
        return _decoder.decode_lines(lines)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return [decode_entry(line, where) for line in lines.split(b"\n") if line]


class _Opening(msgspec.Struct):
    perfcli: str = ""
    format: int = 0


def decode_entry(line: bytes, where: str) -> Stored:
    """Return an entry from its line. Raises PerfcliError for what is none, is damaged, or is of a
    newer format."""
    try:
        return _decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        check_format(line, KIND, where)
        raise PerfcliError(f"{where} is damaged: {error}") from error


def check_format(text: bytes, kind: str, where: str) -> None:
    """Raise PerfcliError for a text that is not what is expected, or of a newer format."""
    try:
        opening = decode(text, _Opening)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise PerfcliError(f"{where} is damaged: {error}") from error
    if opening.perfcli != kind or opening.format < 1:
        raise PerfcliError(f"{where} is no part of a history of perfcli")
    if opening.format > FORMAT:
        raise PerfcliError(
            f"{where} has format {opening.format}, this perfcli reads up to {FORMAT}: "
            "upgrade perfcli to read this history"
        )
