"""Reads what Nsight Systems recorded, exported to SQLite (``nsys export --type sqlite``).

Kernels are rows of ``CUPTI_ACTIVITY_KIND_KERNEL``, their names numbers of ``StringIds``, and the
host's calls that launched them rows of ``CUPTI_ACTIVITY_KIND_RUNTIME`` with the same
``correlationId``; NVTX ranges mark steps. Tables and columns are those of Nsight Systems 2023.1 to
2025.3, from its documentation of the export format; columns that an export lacks are left out.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from perfcli import units
from perfcli.errors import PerfcliError
from perfcli.importing.traces.chrome import STEP, starts_kernel
from perfcli.importing.traces.recording import NO_SHAPE, Recording, Shape

_KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"
_NANO = 1e-9
_COPIES = {
    1: "Memcpy HtoD", 2: "Memcpy DtoH", 8: "Memcpy DtoD", 10: "Memcpy PtoP",
}  # fmt: skip
_MARKS = (STEP, "perfcli step", "step")
"""How NVTX ranges around steps are called."""


def read_nsight(path: Path) -> Recording:
    """Return what an export holds. Raises PerfcliError for a database that is none, and for one
    without kernels."""
    found = Recording("Nsight Systems", path.name, resolution=_NANO)
    try:
        address = f"file:{path.resolve().as_posix().replace('?', '%3f').replace('#', '%23')}"
        with closing(sqlite3.connect(f"{address}?mode=ro&immutable=1", uri=True)) as base:
            base.execute("PRAGMA trusted_schema = OFF")
            _read(base, path, found)
    except sqlite3.Error as error:
        raise PerfcliError(f"{path} can't be read as a database: {error}") from error
    return found


def _read(base: sqlite3.Connection, path: Path, found: Recording) -> None:
    tables = {name for (name,) in base.execute("SELECT name FROM sqlite_master WHERE type='table'")}
    if _KERNELS not in tables:
        if "StringIds" in tables or "CUPTI_ACTIVITY_KIND_RUNTIME" in tables:
            raise PerfcliError(f"{path} is an export of Nsight Systems without kernels")
        raise PerfcliError(
            f"{path} is a database of something else than Nsight Systems: it has no {_KERNELS}"
        )
    names = dict(_select(base, "StringIds", ("id", "value")))
    epoch = base.execute(f"SELECT MIN(start) FROM {_KERNELS}").fetchone()[0]
    if epoch is None:
        raise PerfcliError(f"{path} is an export of Nsight Systems without kernels")
    _read_kernels(base, names, epoch, found)
    _read_copies(base, epoch, found)
    _read_launches(base, names, epoch, found)
    _read_marks(base, names, epoch, found)
    _describe_device(base, found)


def _select(
    base: sqlite3.Connection, table: str, wanted: Sequence[str]
) -> Iterator[tuple[Any, ...]]:
    """Yield these columns of a table; None where it lacks one, nothing where there is no such
    table."""
    known = {str(row[1]) for row in base.execute(f"PRAGMA table_info({table})")}
    if not known:
        return iter(())
    parts = ", ".join(f'"{name}"' if name in known else "NULL" for name in wanted)
    return iter(base.execute(f"SELECT {parts} FROM {table}"))


def _read_kernels(
    base: sqlite3.Connection, names: dict[Any, Any], epoch: int, found: Recording
) -> None:
    grid, block = (tuple(f"{word}{axis}" for axis in "XYZ") for word in ("grid", "block"))
    wanted = (
        "start", "end", "demangledName", "shortName", "correlationId", "deviceId",
        "registersPerThread", "staticSharedMemory", "dynamicSharedMemory", *grid, *block,
        "globalPid",
    )  # fmt: skip
    wrong = 0
    for row in _select(base, _KERNELS, wanted):
        start, end, demangled, short, number, device, registers, static, dynamic = row[:9]
        if not _is_span(start, end):
            wrong += 1
            continue
        name = names.get(demangled) or names.get(short) or "unknown"
        known = [size for size in (static, dynamic) if isinstance(size, int)]
        shared = sum(known) if known else None
        shape = (_count(registers), _count(shared), _triple(row[9:12]), _triple(row[12:15]))
        number = _tell_call(number, row[15])
        _add(found, str(name), (start - epoch, end - start), number, device, shape)
    if wrong:
        found.notes.append(f"{units.plural(wrong, 'kernel')} left out: no or an impossible time")


def _read_copies(base: sqlite3.Connection, epoch: int, found: Recording) -> None:
    for table in ("CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET"):
        wanted = ("start", "end", "correlationId", "deviceId", "copyKind", "globalPid")
        for start, end, call, device, kind, process in _select(base, table, wanted):
            if _is_span(start, end):
                number = _tell_call(call, process)
                name = _COPIES.get(kind, "Memcpy") if table.endswith("MEMCPY") else "Memset"
                _add(found, name, (start - epoch, end - start), number, device, NO_SHAPE)


def _tell_call(number: object, process: object) -> int | None:
    """Return a number that a call of the driver has in no other process; its own is counted in each
    process alone. The upper bits of a thread's and of a process's number are the same."""
    if not isinstance(number, int) or not 0 <= number < 1 << 32:
        return None
    owner = process >> 24 if isinstance(process, int) else 0
    return (owner & 0x3FFFFFFF) << 32 | number


def _add(
    found: Recording,
    name: str,
    span: tuple[int, int],
    number: int | None,
    device: object,
    shape: Shape,
) -> None:
    found.works.add(
        span[0] * _NANO,
        span[1] * _NANO,
        found.names.number(name),
        found.shapes.number(shape),
        device if isinstance(device, int) and 0 <= device < 1 << 31 else 0,
        -1 if number is None else number,
    )


def _read_launches(
    base: sqlite3.Connection, names: dict[Any, Any], epoch: int, found: Recording
) -> None:
    wanted = ("start", "end", "correlationId", "nameId", "globalTid")
    threads: dict[Any, int] = {}
    for start, end, number, name, thread in _select(base, "CUPTI_ACTIVITY_KIND_RUNTIME", wanted):
        call = _tell_call(number, thread)
        if call is not None and _is_span(start, end):
            place = threads.setdefault(thread, len(threads))
            kernel = starts_kernel(str(names.get(name, "")))
            found.launches.add(call, (start - epoch) * _NANO, place, kernel)


def _read_marks(
    base: sqlite3.Connection, names: dict[Any, Any], epoch: int, found: Recording
) -> None:
    ranges = _select(base, "NVTX_EVENTS", ("start", "end", "text", "textId"))
    marks = [
        (start, end, str(text or names.get(number) or ""))
        for start, end, text, number in ranges
        if _is_span(start, end)
    ]
    for word in _MARKS:
        chosen = sorted(mark for mark in marks if mark[2].lower().startswith(word.lower()))
        for number, (start, end, text) in enumerate(chosen):
            # Ranges of one name are told apart by their order.
            name = found.names.number(text if word == STEP else f"{text} {number + 1}")
            found.steps.add((start - epoch) * _NANO, (end - epoch) * _NANO, name, 0)
        if chosen:
            return


def _describe_device(base: sqlite3.Connection, found: Recording) -> None:
    rows = _select(base, "TARGET_INFO_GPU", ("id", "name", "smCount"))
    gpus = {number: (str(name)[:100], count) for number, name, count in rows}
    most = max(set(found.works.device), key=found.works.device.count, default=0)
    found.device, count = gpus.get(most, next(iter(gpus.values()), ("", None)))
    found.sm_count = count if isinstance(count, int) else None


def _is_span(start: object, end: object) -> bool:
    return isinstance(start, int) and isinstance(end, int) and 0 <= start <= end


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and 0 <= value < 1 << 40 else None


def _triple(values: Sequence[object]) -> tuple[int, ...]:
    found = tuple(count for value in values if (count := _count(value)) is not None)
    return found if len(found) == len(values) else ()
