"""Writes and reads the raw file of one measurement, ``.perfcli/timings/ID.jsonl``, one JSON object
per line, and finds the one to show of two runs.

The first line is the header, then one line for each worker that got ready, one that says what the
time went to until then, one for each round, and a last one that says why measuring ended. Every
line is written and flushed at once, so that whatever ends the process leaves all that was finished;
a file without its last line is read, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from perfcli import units
from perfcli.decoding import decode
from perfcli.errors import PerfcliError
from perfcli.model import Device, Measurement, Prepared, Round, SideName, StartPhase
from perfcli.storing import store

FOLDER = Path(".perfcli") / "timings"

# History of the file format; readers take every version up to FORMAT.
# 1  header; lines {"prepared": …}, {"round": …}, {"end": …}
# 2  a line {"start": …} before the first round
# 3  rounds of kind "device"; device_clock, device_seconds and no_graph of workers
# 4  half of rounds; ranks of workers and turns
# 5  busy of turns
FORMAT = 5
KIND = "measurement"

BROKEN_OFF = "broken off"
"""Why a measurement ended whose last line is missing: the process was killed."""

_HEADER_LIMIT = 64 * 1024


class _Header(msgspec.Struct, frozen=True):
    """Holds what finds a measurement again."""

    perfcli: str
    format: int
    id: str
    created: str
    base: str
    head: str
    scenario: str
    device: Device
    seed: int
    budget_seconds: float
    method: str


@dataclass(frozen=True, slots=True)
class _Opening:
    """Holds what of a header tells whose file it is, even if the rest is broken or newer."""

    path: Path
    base: str
    head: str
    created: str
    id: str


class _Kind(msgspec.Struct):
    perfcli: str = ""
    format: int = 0


class _End(msgspec.Struct, frozen=True):
    stopped: str
    method: str
    notes: tuple[str, ...] = ()


class _Line(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    prepared: Prepared | None = None
    round: Round | None = None
    end: _End | None = None
    start: tuple[StartPhase, ...] = ()


class Recorder:
    """Writes a measurement while it is made: a ``pair.Sink``.

    A disk that fills up does not end the measuring: ``failure`` says what went wrong, and what was
    written before stays readable. A file without any round is removed again when it is closed.
    Raises PerfcliError where it can't even be begun.
    """

    def __init__(self, measurement: Measurement, folder: Path = FOLDER) -> None:
        self.path = folder / f"{measurement.id}.jsonl"
        self.failure = ""
        self._method = measurement.method
        self._rounds = 0
        self._file = _create(self.path)
        self._write(_header(measurement))
        if self.failure:
            raise PerfcliError(self.failure)

    def prepared(self, prepared: Prepared) -> None:
        self._write(_Line(prepared=prepared))

    def start(self, phases: Sequence[StartPhase]) -> None:
        """Write what the time went to until the first round."""
        self._write(_Line(start=tuple(phases)))

    def round(self, measured: Round, elapsed: float = 0.0) -> None:
        """Write one round. ``elapsed`` is for those who show progress."""
        self._write(_Line(round=measured))
        self._rounds += 1

    def end(self, stopped: str, method: str = "", notes: Sequence[str] = ()) -> None:
        """Write the last line; nothing is written after it."""
        self._write(_Line(end=_End(stopped, method or self._method, tuple(notes))))
        self.close()

    def close(self) -> None:
        """Close the file. Without a last line the measurement counts as broken off. May be called
        again."""
        with suppress(OSError):
            self._file.close()
        if not self._rounds:
            with suppress(OSError):
                self.path.unlink()

    def _write(self, line: _Header | _Line) -> None:
        if self.failure or self._file.closed:
            return
        try:
            self._file.write(msgspec.json.encode(line) + b"\n")
            self._file.flush()
        except OSError as error:
            self.failure = store.cannot_write(self.path, error)
            self.close()


def write(measurement: Measurement, folder: Path = FOLDER) -> Path:
    """Return a finished measurement (of one round at least) in one go. Raises PerfcliError where it
    can't be written."""
    recorder = Recorder(measurement, folder)
    for prepared in measurement.prepared:
        recorder.prepared(prepared)
    if measurement.start:
        recorder.start(measurement.start)
    for measured in measurement.rounds:
        recorder.round(measured)
    recorder.end(measurement.stopped, measurement.method, measurement.notes)
    if recorder.failure:
        raise PerfcliError(recorder.failure)
    return recorder.path


def read(path: Path) -> Measurement:
    """Return all that a file holds. A last line that was cut is left out, and a note says so.
    Raises PerfcliError: no such file, no measurement, a newer format, or damaged in the middle."""
    try:
        first, *rest = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        raise PerfcliError(f"no such file: {path}") from None
    except OSError as error:
        raise PerfcliError(f"can't read {path}: {error.strerror}") from error
    header = _decode_header(first, path)
    cut = bool(rest and rest[-1])
    lines = [_decode_line(line, number, path) for number, line in enumerate(rest[:-1], 2)]
    ends = [line.end for line in lines if line.end]
    end = ends[-1] if ends else _End(BROKEN_OFF, header.method)
    notes = [*end.notes, *(["the last line of its file is cut and left out"] if cut else [])]
    return Measurement(
        id=header.id,
        created=header.created,
        base=header.base,
        head=header.head,
        scenario=header.scenario,
        device=header.device,
        seed=header.seed,
        budget_seconds=header.budget_seconds,
        method=end.method,
        prepared=tuple(line.prepared for line in lines if line.prepared),
        rounds=tuple(line.round for line in lines if line.round),
        stopped=end.stopped,
        notes=tuple(notes),
        start=next((line.start for line in lines if line.start), ()),
    )


def _read_opening(path: Path) -> _Opening | None:
    """Read the first line alone, whatever else is in the file; return None where it does not say of
    which runs it is, or can't be read."""
    try:
        with path.open("rb") as file:
            line = file.readline(_HEADER_LIMIT)
        given = decode(line, dict[str, Any])
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None
    base, head, created, id = (given.get(name) for name in ("base", "head", "created", "id"))
    if given.get("perfcli") != KIND or not (isinstance(base, str) and isinstance(head, str)):
        return None
    return _Opening(path, base, head, str(created), str(id))


def _header(measurement: Measurement) -> _Header:
    fields = [name for name in _Header.__struct_fields__ if name not in ("perfcli", "format")]
    return _Header(KIND, FORMAT, **{name: getattr(measurement, name) for name in fields})


def _create(path: Path) -> BinaryIO:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        store.keep_out_of_commits(path.parent.parent)
        return path.open("xb")
    except OSError as error:
        raise PerfcliError(store.cannot_write(path, error)) from error


def _decode_header(line: bytes, path: Path) -> _Header:
    opening = _Kind()
    with suppress(msgspec.DecodeError, UnicodeDecodeError):
        opening = decode(line, _Kind)
    if opening.perfcli != KIND or opening.format < 1:
        raise PerfcliError(f"{path} is not a measurement of perfcli")
    if opening.format > FORMAT:
        raise PerfcliError(
            f"{path} has format {opening.format}, this perfcli reads up to {FORMAT}: "
            "upgrade perfcli to read it"
        )
    try:
        return decode(line, _Header)
    except msgspec.DecodeError as error:
        raise PerfcliError(f"{path} is a broken measurement: {error} in line 1") from error


def _decode_line(line: bytes, number: int, path: Path) -> _Line:
    try:
        return decode(line, _Line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise PerfcliError(
            f"{path} is a broken measurement: {error} in line {number}; measure again"
        ) from error


# --- the measurement of two runs --------------------------------------------------------------

# One that ran to its end is preferred to one that was interrupted or failed, then the newest
# counts. What can't be read is passed over, and told.

EXCHANGED = "measured with base and head exchanged"

_OTHER: dict[str, SideName] = {"base": "head", "head": "base"}


@dataclass(frozen=True, slots=True)
class _Found:
    """Holds what was found. ``left_out``: files of this pair that would have been taken, and why
    they were not. ``unreadable``: names of files that may be of any pair."""

    measurement: Measurement | None = None
    left_out: tuple[str, ...] = ()
    unreadable: tuple[str, ...] = ()

    @property
    def remarks(self) -> Iterator[str]:
        """Yield a line for files of these runs, one for those that may be of any."""
        if self.left_out:
            without = () if self.measurement else ("the report follows without times",)
            yield f"left out: {'; '.join((*self.left_out, *without))}"
        if self.unreadable:
            files = units.plural(len(self.unreadable), "file")
            first = f"{'the first is ' if len(self.unreadable) > 1 else ''}{self.unreadable[0]}"
            yield f"{files} in {FOLDER} can't be read ({first})"


def find_measurement(base: str, head: str, folder: Path = FOLDER) -> _Found:
    """Return the measurement to show of two runs, by their ids; one of (head, base) with its sides
    exchanged. Of other pairs only header lines are read."""
    openings, unreadable = _read_openings(folder)
    ours = [o for o in openings if (o.base, o.head) in ((base, head), (head, base))]
    found: Measurement | None = None
    left_out = []
    for opening in sorted(ours, key=lambda o: (o.created, o.id), reverse=True):
        try:
            known = read(opening.path)
        except PerfcliError as error:
            left_out.append(str(error))
            continue
        if not known.rounds:
            left_out.append(f"{opening.path} has no round")
        elif known.ran_to_its_end:
            found = known
            break
        else:
            found = found or known
    if found and (found.base, found.head) != (base, head):
        found = _exchange(found)
        found = replace(found, notes=(*found.notes, EXCHANGED))
    return _Found(found, tuple(left_out), unreadable)


def find_measurement_of(run: str, folder: Path = FOLDER) -> Measurement | None:
    """Return the newest measurement, whatever ended it, in which a run is a side and launches were
    timed."""
    openings, _ = _read_openings(folder)
    ours = [opening for opening in openings if run in (opening.base, opening.head)]
    for opening in sorted(ours, key=lambda o: (o.created, o.id), reverse=True):
        with suppress(PerfcliError):
            found = read(opening.path)
            if any(made.kind == "kernels" for made in found.rounds):
                return found
    return None


def _read_openings(folder: Path) -> tuple[list[_Opening], tuple[str, ...]]:
    """Return the openings of all files, and the names of those that don't say which pair they are
    of."""
    openings, unreadable = [], []
    for path in sorted(folder.glob("[!.]*.jsonl")):
        opening = _read_opening(path)
        if opening is None:
            unreadable.append(path.name)
        else:
            openings.append(opening)
    return openings, tuple(unreadable)


def describe_rounds(measurement: str, folder: Path = FOLDER) -> str:
    """Return ``12 rounds are kept in .perfcli/timings/….jsonl`` of a measurement, by its id; empty
    where nothing of it can be read."""
    path = folder / f"{measurement}.jsonl"
    try:
        return say_rounds(len(read(path).rounds), path)
    except PerfcliError:
        return ""


def say_rounds(number: int, path: Path) -> str:
    """Write ``12 rounds are kept in PATH``; empty for none."""
    if not number:
        return ""
    return f"{'1 round is' if number == 1 else f'{number} rounds are'} kept in {path}"


# --- the other way round ---------------------------------------------------------------------


def _exchange(measurement: Measurement) -> Measurement:
    """Return the same with head as base and base as head: what was twice as fast takes half as
    long."""
    return replace(
        measurement,
        base=measurement.head,
        head=measurement.base,
        prepared=tuple(replace(p, side=_OTHER[p.side]) for p in measurement.prepared),
        start=tuple(replace(p, of=_OTHER.get(p.of, p.of)) for p in measurement.start),
        rounds=tuple(map(_exchange_round, measurement.rounds)),
        stopped=_exchange_words(measurement.stopped),
        notes=tuple(map(_exchange_words, measurement.notes)),
    )


def _exchange_round(measured: Round) -> Round:
    first = _OTHER[measured.first]
    return replace(measured, first=first, base=measured.head, head=measured.base)


def _exchange_words(text: str) -> str:
    """Exchange the sides in ``the head's worker was killed`` and ``580.82 in the base, 570.10 in
    the head``."""
    return re.sub(r"\bthe (base|head)\b", lambda found: f"the {_OTHER[found[1]]}", text)
