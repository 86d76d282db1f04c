"""Brings in what paths name: says what each is, has it read, and joins what belongs together."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import re
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from perfcli import __version__, units
from perfcli.console.notes import Notes
from perfcli.errors import PerfcliError
from perfcli.importing.joining import join_sources, make_run
from perfcli.importing.opening import SQLITE, peek, refuse_archives
from perfcli.importing.sources.recognizing import recognize_sources
from perfcli.importing.traces.chrome import read_chrome_trace
from perfcli.importing.traces.memory import MemorySeen, is_snapshot, read_snapshot
from perfcli.importing.traces.nsight import read_nsight
from perfcli.importing.traces.ranks import choose_rank
from perfcli.importing.traces.steps import observe
from perfcli.machine import targets
from perfcli.model import Bundle, Observed, Target

_RUN = re.compile(rb'\s*\{\s*"perfcli"\s*:\s*"')
_EVENTS = re.compile(rb'"traceEvents"|"ph"\s*:|"schemaVersion"|"deviceProperties"')
_WORTH_A_PROCESS = 32 << 20
"""Bytes of several files, from which on they are read by processes of their own."""
_MOST_FILES = 4096
_MOST_NAMED = 2
"""Paths that a run is called by."""

_Kind = Literal["trace", "nsight", "snapshot"]
_KINDS: Mapping[_Kind, str] = {
    "trace": "a trace",
    "nsight": "a trace of Nsight Systems",
    "snapshot": "a memory snapshot",
}


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """Says how paths are brought in."""

    target: Target | None = None
    """The GPU that they are from, where the user says so."""
    rank: int | None = None
    python: str | None = None
    """The interpreter whose torch compiles sources; None: this one."""
    jobs: int = 1
    timeout: float | None = None


@dataclass(slots=True)
class _Sorted:
    """Holds the paths of one import by what they are."""

    traces: list[Path] = field(default_factory=list)
    snapshots: list[Path] = field(default_factory=list)
    sources: list[Path] = field(default_factory=list)


def name_foreign(path: Path) -> str:
    """Return what a path is that is imported, ``a trace``; empty for what is not, as a run of
    perfcli."""
    if sources := recognize_sources(path):
        return sources
    if path.is_file():
        kind = _recognize(path)
        return _KINDS[kind] if kind else ""
    return "a folder of traces" if _sort_folder(path).traces else ""


def bring_in_all(
    wanted: Sequence[Sequence[Path]], options: ImportOptions, notes: Notes
) -> list[Bundle]:
    """Return the run of each of several imports; their traces are read at once."""
    imports = [_sort(paths) for paths in wanted]
    files = [path for each in imports for path in each.traces]
    observed = dict(zip(files, _observe_files(files), strict=True))
    return [
        _join(paths, each, [observed[path] for path in each.traces], options, notes)
        for paths, each in zip(wanted, imports, strict=True)
    ]


def _join(
    paths: Sequence[Path],
    found: _Sorted,
    traced: Sequence[Observed],
    options: ImportOptions,
    notes: Notes,
) -> Bundle:
    name = " ".join(map(_name, paths[:_MOST_NAMED]))
    name += f" and {len(paths) - _MOST_NAMED} more" if len(paths) > _MOST_NAMED else ""
    observed = choose_rank(traced, options.rank) if traced else None
    for memory in map(read_snapshot, found.snapshots):
        observed = _add_memory(observed, memory)
    named = _find_target(observed) if observed else None
    target = options.target or named
    if observed is not None and observed.device and options.target not in (None, named):
        assert options.target is not None
        said = f"recorded on {observed.device}, shown as {options.target.name}, as --target says"
        observed = replace(observed, notes=(*observed.notes, said))
    if not found.sources:
        assert observed is not None
        return make_run(observed, target, name)
    # What compiles sources takes half a second to import, and every command imports this file.
    from perfcli.importing.sources.reading import SourceOptions, read_sources

    launched = {w.name for w in observed.works if w.generated} if observed else set()
    given = SourceOptions(
        target,
        options.jobs,
        options.timeout,
        wanted=frozenset(launched),
        python=options.python,
        rank=options.rank,
    )
    sources = read_sources(found.sources, given, notes)
    return sources if observed is None else join_sources(sources, observed, name)


def _name(path: Path) -> str:
    """Return how a path is told from others: its name, with that of its folder where one was
    typed."""
    folder = path.parent.name
    return f"{folder}/{path.name}" if folder else path.name


def _add_memory(observed: Observed | None, memory: MemorySeen) -> Observed:
    """Return what was observed with what a snapshot of the allocator says."""
    if observed is None:
        observed = Observed(
            "memory snapshot", memory.file, "", None, (), (), (), "the whole snapshot"
        )
    return replace(
        observed,
        peak_memory_bytes=memory.peak_bytes,
        held=memory.held,
        notes=(*observed.notes, *memory.notes),
    )


# --- what a path is -----------------------------------------------------------------------------


def _sort(paths: Sequence[Path]) -> _Sorted:
    """Return paths by what they are. Raises PerfcliError for one that is nothing that is read."""
    found = _Sorted()
    for path in paths:
        if not path.exists():
            raise PerfcliError(f"no such file or folder: {path}")
        if recognize_sources(path):
            found.sources.append(path)
        elif path.is_dir():
            inside = _sort_folder(path)
            if not (inside.traces or inside.snapshots):
                raise PerfcliError(f"{path} has nothing that perfcli import reads: {READS}")
            found.traces += inside.traces
            found.snapshots += inside.snapshots
        elif path.is_file():
            _put(found, path)
        else:  # a pipe or a device, which may never end
            raise PerfcliError(f"{path} is no plain file")
    return found


READS = (
    "traces of torch.profiler (JSON) and Nsight Systems (SQLite), memory snapshots (JSON), "
    "TORCH_TRACE, torch_compile_debug and cache folders, output_code.py"
)


def _put(found: _Sorted, path: Path) -> None:
    head = peek(path)
    refuse_archives(path, head)
    kind = _recognize(path, head)
    if kind is None:
        other = f"none of the files that perfcli import reads: {READS}"
        what = "a run of perfcli already" if _RUN.match(head) else other
        raise PerfcliError(f"{path} is {what}")
    (found.snapshots if kind == "snapshot" else found.traces).append(path)


def _sort_folder(folder: Path) -> _Sorted:
    """Return the traces and snapshots that lie in a folder, not in folders below it."""
    found = _Sorted()
    if not folder.is_dir():
        return found
    for path in sorted(folder.iterdir())[:_MOST_FILES]:
        if path.is_file() and not path.name.startswith("."):
            kind = _recognize(path)
            if kind in ("trace", "nsight"):
                found.traces.append(path)
            elif kind == "snapshot":
                found.snapshots.append(path)
    return found


def _recognize(path: Path, head: bytes | None = None) -> _Kind | None:
    """Return what a file is, by its first bytes; None: nothing that is imported."""
    head = peek(path) if head is None else head
    if head.startswith(SQLITE):
        return "nsight"
    if head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] not in (b"{", b"[") or _RUN.match(head):
        return None
    if is_snapshot(head):
        return "snapshot"
    return "trace" if _EVENTS.search(head) else None


# --- traces -------------------------------------------------------------------------------------


def _observe_files(files: Sequence[Path]) -> list[Observed]:
    """Return what each of these traces says; large ones are read by several processes."""
    processes = min(len(files), os.cpu_count() or 1)
    if processes < 2 or sum(path.stat().st_size for path in files) < _WORTH_A_PROCESS:
        return [_observe_file(path) for path in files]
    context = multiprocessing.get_context("spawn")
    with context.Pool(processes, signal.signal, (signal.SIGINT, signal.SIG_IGN)) as pool:
        return pool.map(_observe_file, files, chunksize=1)


def _observe_file(path: Path) -> Observed:
    head = peek(path)
    refuse_archives(path, head)
    recording = read_nsight(path) if head.startswith(SQLITE) else read_chrome_trace(path)
    return observe(recording)


def _find_target(observed: Observed) -> Target | None:
    """Return the device of the table that a trace names, or None where it has none such: a device
    of another number of multiprocessors is another one, whatever its name."""
    words = observed.device.lower().replace("-", " ").split()
    for target in targets.TARGETS.values():
        if target.name in words and observed.sm_count in (None, target.sm_count):
            return target
    return None


def fingerprint(paths: Sequence[Path], options: ImportOptions) -> str:
    """Return a hash of what is imported, how, and by which perfcli: equal files give an equal
    run."""
    digest = hashlib.sha256(f"import {__version__} {FORMAT} {options}".encode())
    for path in paths:
        for file in _list_files(path):
            status = file.stat()
            digest.update(f"{os.path.abspath(file)} {status.st_size} {status.st_mtime_ns}".encode())
    return digest.hexdigest()


FORMAT = 4
"""Grows when the same files are read as something else."""


def _list_files(path: Path) -> list[Path]:
    """Return the files whose change makes another import. Raises PerfcliError for too many."""
    if path.is_file():
        return [path]
    found = sorted(each for each in path.rglob("*") if each.is_file())
    if len(found) > 100 * _MOST_FILES:
        raise PerfcliError(f"{path} has {units.count(len(found))} files: name a folder of fewer")
    return found
