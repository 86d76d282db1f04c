"""Writes and reads a run as one file that stands alone.

It is one JSON object, written so that its first line is a short header: listing a folder
never reads the rest. Texts (sources, intermediate forms) are kept by their SHA-256.
"""

from __future__ import annotations

import dataclasses
import errno
import hashlib
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import msgspec

from perfcli.blobs import blob_id, unpack
from perfcli.decoding import decode
from perfcli.errors import PerfcliError
from perfcli.model import BlobId, Bundle, Device, Mode, Run, Scalar

# History of the file format; readers take every version up to FORMAT.
# 1  first version: header, run, blobs (SHA-256 -> base64 of zlib of UTF-8); files since
#    2026-11-22 have a checksum too, which earlier readers skip
FORMAT = 1
MOST_BYTES = 256 << 20
"""Of a file that is read: about 100,000 kernels."""
KIND = "run"

_HEADER_LIMIT = 64 * 1024

T = TypeVar("T")


class Header(msgspec.Struct, frozen=True):
    """What a listing shows of a run, and what finds it again."""

    id: str
    created: str
    scenario: str
    params: Mapping[str, Scalar]
    variant: str
    mode: Mode
    device: Device
    target: str | None
    dynamic: bool
    torch: str
    kernels: int
    spilled_words: int | None
    fingerprint: str
    world: int = 1
    script: bool = False
    compile_modes: tuple[str, ...] = ()
    """What a script passes to ``torch.compile`` as ``mode``."""


class _Opening(msgspec.Struct):
    perfcli: str = ""
    format: int = 0
    header: msgspec.Raw = msgspec.Raw(b"")
    checksum: str = ""


class _File(_Opening):
    run: msgspec.Raw = msgspec.Raw(b"")
    blobs: msgspec.Raw = msgspec.Raw(b"{}")


def write(bundle: Bundle, path: Path) -> None:
    """Write a run as one file, whole or not at all: whatever interrupts it leaves no trace. Raises
    PerfcliError, with what to do, when the folder can't be written or the disk is full."""
    temporary: Path | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".tmp")
        temporary = Path(name)
        with os.fdopen(descriptor, "wb") as file:
            _write_lines(bundle, file)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except OSError as error:
        _remove(temporary)
        raise PerfcliError(cannot_write(path, error)) from error
    except BaseException:
        _remove(temporary)
        raise


def read(path: Path, *, sealed: bool = False) -> Run:
    """Return the run in a file; its texts are skipped, not decoded. ``sealed``: only one with a
    checksum, which files of earlier versions lack. Raises PerfcliError for a file that is no run,
    that was changed since it was written, or that has numbers which no run has."""
    return _read_run(_open(path), path, sealed)


def decode_run(text: bytes, where: str) -> Run:
    """Return the run that a file's content holds, as ``read``; ``where`` names it in errors."""
    path = Path(where)
    return _read_run(_parse(text, path), path)


def _read_run(file: _File, path: Path, sealed: bool = False) -> Run:
    if file.checksum:
        _check_seal(file, path)
    elif sealed:
        raise PerfcliError(f"{path} has no checksum")
    run = _decode(file.run, Run, path)
    if wrong := _impossible(run, bytes(file.run)):
        raise PerfcliError(f"{path} is a broken run: {wrong}; compile it again")
    return run


def _check_seal(file: _File, path: Path) -> None:
    """The header and the facts as they were written, or as some JSON tool laid them out anew."""
    parts = (file.header, file.run)
    if file.checksum == _checksum(*parts):
        return
    plain = (_decode(part, object, path) for part in parts)
    try:
        anew = _checksum(*map(msgspec.json.encode, plain))
    except (OverflowError, ValueError):  # a number that msgspec reads and does not write
        anew = ""
    if file.checksum != anew:
        raise PerfcliError(
            f"{path} was changed after it was written: its facts do not match their checksum; "
            "compile it again"
        )


def _checksum(header: bytes | msgspec.Raw, run: bytes | msgspec.Raw) -> str:
    """Return SHA-256 of both, each by itself."""
    digests = (hashlib.sha256(memoryview(part)).digest() for part in (header, run))
    return hashlib.sha256(b"".join(digests)).hexdigest()


def read_blob(path: Path, blob: BlobId) -> str:
    """Return one text of a run, unpacked."""
    blobs = _decode(_open(path).blobs, dict[str, msgspec.Raw], path)
    if blob not in blobs:
        raise PerfcliError(f"{path} does not hold the text {blob[:12]}…: it was stored without it")
    try:
        text = unpack(_decode(blobs[blob], str, path))
    except ValueError as error:
        raise PerfcliError(
            f"{path} is a broken run: text {blob[:12]}… is damaged ({error})"
        ) from error
    if blob_id(text) != blob:
        raise PerfcliError(f"{path} is a broken run: text {blob[:12]}… does not match its hash")
    return text


def read_blobs(path: Path) -> dict[BlobId, str]:
    """Return all texts of a run, packed (``blobs.unpack``)."""
    return _decode(_open(path).blobs, dict[str, str], path)


def _header_of(run: Run) -> Header:
    spilled = [k.spilled_words for k in run.kernels if k.spilled_words is not None]
    return Header(
        id=run.id,
        created=run.created,
        scenario=run.scenario,
        params=run.params,
        variant=run.variant.name,
        mode=run.mode,
        device=run.device,
        target=run.target.name if run.target else None,
        dynamic=run.dynamic,
        torch=run.environment.torch,
        kernels=len(run.kernels),
        spilled_words=sum(spilled) if spilled else None,
        fingerprint=run.fingerprint,
        world=run.world,
        script=run.script is not None,
        compile_modes=tuple(dict.fromkeys(call.mode for call in run.compiled if call.mode)),
    )


def read_header(path: Path) -> Header:
    """Return the header alone, from the first line."""
    with path.open("rb") as file:
        line = file.readline(_HEADER_LIMIT).rstrip(b",\n")
    opening = _Opening()
    with suppress(msgspec.DecodeError, RecursionError):
        opening = decode(line + b"}", _Opening)
    if not opening.perfcli:  # laid out anew by some JSON tool
        opening = _open(path)
    _check_format(opening, path)
    return decode(opening.header, Header)


def is_cut_off(path: Path) -> bool:
    """Return whether the file begins as a run does, and its end is missing."""
    with path.open("rb") as file:
        opening = file.readline(_HEADER_LIMIT)
        if opening.endswith(b",\n"):
            file.seek(0, os.SEEK_END)
            file.seek(max(file.tell() - len(_END), 0))
            return opening.startswith(_BEGINNING) and file.read() != _END
    if not opening.startswith(_BEGINNING):
        return False
    try:
        _open(path)  # laid out anew by some JSON tool, else cut off in its first line
    except PerfcliError:
        return True
    return False


_BEGINNING = b'{"perfcli":"run"'
_END = b"}}\n"
"""No other line of the file ends so: a text is a string, and the run is followed by a comma."""


def _write_lines(bundle: Bundle, file: BinaryIO) -> None:
    encode = msgspec.json.encode
    header, run = msgspec.Raw(encode(_header_of(bundle.run))), encode(bundle.run)
    checksum = _checksum(header, run)
    opening = {"perfcli": KIND, "format": FORMAT, "header": header, "checksum": checksum}
    file.write(encode(opening)[:-1] + b',\n"run":')
    file.write(run + b',\n"blobs":{')
    for number, (name, packed) in enumerate(sorted(bundle.blobs.items())):
        file.write((b",\n" if number else b"\n") + encode(name) + b":" + encode(packed))
    file.write(_END)


def _open(path: Path) -> _File:
    try:
        text = _read_bounded(path)
    except FileNotFoundError:
        raise PerfcliError(f"no such file: {path}") from None
    except OSError as error:
        raise PerfcliError(f"can't read {path}: {error.strerror}") from error
    return _parse(text, path)


def _parse(text: bytes, path: Path) -> _File:
    try:
        file = decode(text, _File)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise PerfcliError(_not_a_run(path, text, error)) from error
    except RecursionError:
        raise PerfcliError(f"{path} is not a run of perfcli: it is nested too deeply") from None
    _check_format(file, path)
    return file


def _read_bounded(path: Path) -> bytes:
    """Raise PerfcliError for a file that is larger than any run."""
    with path.open("rb") as file:
        text = file.read(MOST_BYTES + 1)
    if len(text) > MOST_BYTES:
        raise PerfcliError(
            f"{path} is larger than {MOST_BYTES >> 20} MiB, which no run of perfcli is"
        )
    return text


def _check_format(opening: _Opening, path: Path) -> None:
    if opening.perfcli != KIND or opening.format < 1:
        raise PerfcliError(f"{path} is JSON but not a run of perfcli")
    if opening.format > FORMAT:
        raise PerfcliError(
            f"{path} has format {opening.format}, this perfcli reads up to {FORMAT}: "
            "upgrade perfcli to read it"
        )


def _decode(raw: msgspec.Raw, kind: type[T], path: Path) -> T:
    try:
        return decode(raw, kind)
    except (msgspec.DecodeError, RecursionError) as error:
        raise PerfcliError(f"{path} is a broken run: {error}; compile it again") from error


def _not_a_run(path: Path, text: bytes, error: Exception) -> str:
    if not text.strip():
        return f"{path} is empty, not a run of perfcli"
    if text.startswith(_BEGINNING):
        return f"{path} is a broken or truncated run ({error}); compile it again"
    return f"{path} is not a run of perfcli ({error})"


def cannot_write(path: Path, error: OSError) -> str:
    """Return what to tell people whose file could not be written."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return f"no space left to write {path}: free some and run again"
    return f"can't write {path}: {error.strerror or error}"


def _remove(path: Path | None) -> None:
    if path is not None:
        with suppress(OSError):
            path.unlink()


# --- numbers that no compilation gives --------------------------------------------------------

# What is counted is not negative, and is no larger than any machine holds: arithmetic on others
# ends in nonsense, or in an overflow.
MOST = 2**64
# Texts and digests follow a quotation mark, so hardly anything else than a number matches.
_UNUSUAL = re.compile(rb"[:,\[]\s*(?:-|\d{17}|[\d.]+[eE]\+?\d)")
_COUNTED = ("target", "kernels", "launches", "graphs", "externs", "graph_breaks",
            "compile_seconds", "counters", "threads",
            "recompilations", "compile_work")  # fmt: skip
# A memory layout may run backwards, and so may threads over it; a configuration's values are
# whatever Triton takes, and an operator's arguments whatever it takes (``dim=-1``); torch 2.11
# counts live memory from where a graph begins, and what it then frees of its inputs is less than
# nothing; a model's parameters may be anything.
_SIGNED = {"stride", "config", "shape", "sizes", "arguments", "live_bytes", "apart", "steps",
           "params", "first_params"}  # fmt: skip


def _impossible(run: Run, raw: bytes) -> str:
    """Return what is said of the first number that can't be, ``kernels[3].bytes_read is -5``; empty
    where there is none. ``raw`` is the run's JSON: most files have no unusual number at all."""
    if not _UNUSUAL.search(raw):
        return ""
    found = (text for name in _COUNTED for text in _walk(name, getattr(run, name), False))
    return next(found, "")


def _walk(place: str, value: Any, signed: bool) -> Iterator[str]:
    if isinstance(value, int | float):
        if not (-MOST if signed else 0) <= value <= MOST:
            yield f"{place} is {value:.3g}"
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            inner = getattr(value, field.name)
            yield from _walk(f"{place}.{field.name}", inner, field.name in _SIGNED)
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _walk(f"{place}.{name}", inner, signed)
    elif isinstance(value, list | tuple):
        for number, inner in enumerate(value):
            yield from _walk(f"{place}[{number}]", inner, signed)
