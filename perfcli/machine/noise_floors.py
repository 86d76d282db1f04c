"""Keeps the noise floors that ``perfcli noise`` found, per class of environment, in the cache
folder.

``CACHE/noise/CLASS.json`` is JSON for people to read: each floor with the pairs it was made of,
the scenario, the machine and the date. As everything in the cache folder, it may be deleted.
"""

from __future__ import annotations

import fcntl
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from perfcli.decoding import decode
from perfcli.errors import PerfcliError
from perfcli.machine import environment
from perfcli.model import Machine, Scalar, TimeVerdict
from perfcli.storing.runfile import cannot_write
from perfcli.storing.whole import write_whole

# History of the file format; a file of another format is not used.
# 1  class, floors
FORMAT = 1
KIND = "noise"


class FloorPair(msgspec.Struct, frozen=True):
    """Holds one fresh pair of identical variants: head over base, with its 95 % interval."""

    ratio: float | None
    low: float | None
    high: float | None
    verdict: TimeVerdict
    rounds: int
    seed: int
    device_ratio: float | None = None
    """That of the device's own time, where a CUDA graph told it."""


class StoredFloor(msgspec.Struct, frozen=True):
    """Holds one floor. ``relative`` (0.01: one percent) is what ``stats.floor.bound`` makes of
    the pairs."""

    relative: float
    scenario: str
    params: Mapping[str, Scalar]
    variant: str
    pairs: tuple[FloorPair, ...]
    confidence: float
    budget_seconds: float
    created: str
    """ISO 8601, UTC."""
    host: str
    device: str
    torch: str
    triton: str | None
    driver: str | None
    perfcli: str
    device_relative: float | None = None
    """The same for the device's own time by a CUDA graph, where all pairs had one."""

    @property
    def source(self) -> str:
        """Return ``perfcli noise softmax, 2026-11-21``."""
        return f"perfcli noise {self.scenario}, {self.created[:10]}"


class ClassFile(msgspec.Struct, frozen=True, rename={"name": "class"}):
    """Holds all floors of one class of environment, the newest last."""

    perfcli: str
    format: int
    name: str
    floors: tuple[StoredFloor, ...]


def environment_class(machine: Machine) -> str:
    """Return which floors hold for a machine: a name that fits a file. Hosts with the same device,
    major driver release, minor torch release, threads and layout of memory share them."""
    release = re.match(r"\d+\.\d+", machine.torch)
    layouts: dict[Scalar, str] = {True: "fixed layout", False: "random layout", None: ""}
    parts = [
        machine.device[:100],
        f"driver {machine.driver.split('.')[0]}" if machine.driver else "",
        f"torch {release[0] if release else machine.torch}",
        f"threads {machine.threads}" if machine.threads is not None else "",
        layouts.get(machine.facts.get("fixed_layout"), ""),
    ]
    return "_".join(re.sub(r"[^a-z0-9.]+", "-", part.lower()).strip("-.") for part in parts if part)


def folder() -> Path:
    return environment.cache_dir() / KIND


def load_floor(
    machine: Machine | None, scenario: str, params: Mapping[str, Scalar], clock: str = "step"
) -> tuple[float, str] | None:
    """Return what ``perfcli noise`` found on such a machine, relative, and where that is from: for
    the step's time, or the ``device``'s own. None where nothing is stored, or it is not known which
    machine it was."""
    found = _find_known(machine, scenario, params, clock) if machine else None
    relative = _relative(found, clock) if found else None
    return (relative, found.source) if found and relative is not None else None


def _relative(floor: StoredFloor, clock: str) -> float | None:
    return floor.device_relative if clock == "device" else floor.relative


def _find_known(
    machine: Machine, scenario: str, params: Mapping[str, Scalar], clock: str = "step"
) -> StoredFloor | None:
    """Return the floor that holds for this machine: that of the scenario with these parameters,
    else the highest of its class, or None where none is stored (or its file is broken)."""
    known = _read(_path(environment_class(machine)))
    floors = [f for f in known.floors if _relative(f, clock) is not None] if known else []
    own = [f for f in floors if (f.scenario, f.params) == (scenario, dict(params))]
    return max(own or floors, key=lambda f: _relative(f, clock) or 0.0, default=None)


def save(machine: Machine, floor: StoredFloor) -> Path:
    """Store a floor; one of the same scenario, parameters and variant is replaced. Raises
    PerfcliError where it can't be written, or a newer perfcli wrote the file."""
    name = environment_class(machine)
    path = _path(name)
    with _lock():
        if (theirs := _format(path)) > FORMAT:
            raise PerfcliError(
                f"{path} has format {theirs}, this perfcli writes {FORMAT}: "
                "upgrade perfcli, or move the file away"
            )
        known = _read(path)
        kept = [old for old in (known.floors if known else ()) if _key(old) != _key(floor)]
        _write(path, ClassFile(KIND, FORMAT, name, (*kept, floor)))
    return path


def load_floors() -> list[tuple[Path, ClassFile | None]]:
    """Return all files with what they hold, None where one is broken or of another format."""
    return [(path, _read(path)) for path in sorted(folder().glob("[!.]*.json"))]


def forget(scenario: str | None = None) -> int:
    """Remove floors, of one scenario or all of them (broken files, too); how many there were.
    Raises PerfcliError where a file can't be changed."""
    if not folder().is_dir():
        return 0
    with _lock():
        return _forget(scenario)


def _forget(scenario: str | None) -> int:
    removed = 0
    for path, known in load_floors():
        floors = known.floors if known else ()
        kept = tuple(floor for floor in floors if scenario not in (None, floor.scenario))
        removed += len(floors) - len(kept)
        try:
            if not kept and (floors or scenario is None):
                path.unlink()
            elif known and len(kept) < len(floors):
                _write(path, msgspec.structs.replace(known, floors=kept))
        except OSError as error:
            raise PerfcliError(f"can't remove {path}: {error.strerror}") from error
    return removed


def _key(floor: StoredFloor) -> tuple[object, ...]:
    return floor.scenario, dict(floor.params), floor.variant


def _path(name: str) -> Path:
    return folder() / f"{name}.json"


@contextmanager
def _lock() -> Iterator[None]:
    """Keep everybody else from changing floors meanwhile: of two that read, add and write at the
    same time, one floor would be lost. The lock ends with the process. Raises PerfcliError."""
    path = folder() / ".lock"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("ab")
    except OSError as error:
        raise PerfcliError(cannot_write(path, error)) from error
    with file:
        # Where a file system has no locks there is no other way than to go on without.
        with suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


class _Opening(msgspec.Struct):
    perfcli: str = ""
    format: int = 0


def _format(path: Path) -> int:
    """Return the format of a file of floors; 0 where it is none, or broken."""
    with suppress(OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        opening = decode(path.read_bytes(), _Opening)
        return opening.format if opening.perfcli == KIND else 0
    return 0


def _read(path: Path) -> ClassFile | None:
    with suppress(OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        known = decode(path.read_bytes(), ClassFile)
        if (known.perfcli, known.format) == (KIND, FORMAT):
            return known
    return None


def _write(path: Path, document: ClassFile) -> None:
    """Write the file whole or not at all: others may read at the same time."""
    text = msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n"
    try:
        write_whole(path, text)
    except OSError as error:
        raise PerfcliError(cannot_write(path, error)) from error
