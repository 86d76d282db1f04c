"""Keeps what a calibration has timed already: one that was broken off goes on.

``CACHE/calibrate/KIND-TARGET-KEY.jsonl`` has one line for each thing that was timed; the key is
made of the target, torch, triton and whatever else the times depend on. As everything in the cache
folder, it may be deleted.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from perfcli.decoding import decoder
from perfcli.errors import PerfcliError
from perfcli.machine.environment import Interpreter, cache_dir
from perfcli.model import Target
from perfcli.storing.runfile import cannot_write

_FORMAT = 2
"""The format of the lines."""

T = TypeVar("T")


def find_finished(kind: str, target: Target, interpreter: Interpreter, *depends: object) -> Path:
    """Return the file that keeps what is finished of a kind."""
    parts = [_FORMAT, target.name, interpreter.torch, interpreter.triton, *depends]
    key = hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:12]
    return cache_dir() / "calibrate" / f"{kind}-{target.name}-{key}.jsonl"


def read_finished(path: Path, kind: type[T]) -> Iterator[T]:
    """Yield what is finished. A line that was broken off, the last one, is left out."""
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError:
        return
    except OSError as error:
        raise PerfcliError(f"can't read {path}: {error.strerror}") from error
    known = decoder(kind)
    for line in lines:
        try:
            yield known.decode(line)
        except msgspec.MsgspecError:
            continue


def append_finished(path: Path, timed: Any) -> None:
    """Add a line. Raises PerfcliError where the file can't be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:
            # A line that was broken off must not take this one with it.
            file.write(b"" if _ends_with_newline(path) else b"\n")
            file.write(msgspec.json.encode(timed) + b"\n")
    except OSError as error:
        raise PerfcliError(cannot_write(path, error)) from error


def _ends_with_newline(path: Path) -> bool:
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(size - 1, 0))
        return file.read() in (b"", b"\n")
