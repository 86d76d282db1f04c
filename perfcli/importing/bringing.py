"""Brings in what paths name: says what each is, has it read, and joins what belongs together."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from perfcli import __version__
from perfcli.errors import PerfcliError
from perfcli.importing.joining import make_run
from perfcli.importing.opening import SQLITE, peek, refuse_archives
from perfcli.importing.traces.chrome import read_chrome_trace
from perfcli.importing.traces.recording import Recording
from perfcli.importing.traces.steps import observe
from perfcli.machine import targets
from perfcli.model import Bundle, Target

_RUN = re.compile(rb'\s*\{\s*"perfcli"\s*:\s*"')
_EVENTS = re.compile(rb'"traceEvents"|"ph"\s*:')


@dataclass(frozen=True, slots=True)
class Wanted:
    """Says how paths are brought in."""

    target: Target | None = None
    """The GPU that they are from, where the user says so."""
    rank: int | None = None


def is_foreign(path: Path) -> bool:
    """Return whether a file is something that is imported, and not a run of perfcli: a trace, by
    its first bytes."""
    if path.is_dir():
        return False
    head = peek(path)
    if _RUN.match(head):
        return False
    return head.startswith(SQLITE) or (
        head.lstrip()[:1] in (b"{", b"[") and bool(_EVENTS.search(head))
    )


def bring_in(paths: Sequence[Path], wanted: Wanted) -> Bundle:
    """Return the run that these paths tell of. Raises PerfcliError where they tell of none."""
    if len(paths) != 1:
        raise PerfcliError("import takes one trace for now")
    path = paths[0]
    recording = _read(path)
    observed = observe(recording)
    target = wanted.target or find_target(recording)
    return make_run(observed, target, path.name)


def _read(path: Path) -> Recording:
    if not path.exists():
        raise PerfcliError(f"no such file: {path}")
    head = peek(path)
    refuse_archives(path, head)
    return read_chrome_trace(path)


def find_target(recording: Recording) -> Target | None:
    """Return the device of the table that a recording names, or None where it has none such."""
    for target in targets.TARGETS.values():
        if target.description == recording.device:
            return target
    return None


def fingerprint(paths: Sequence[Path], wanted: Wanted) -> str:
    """Return a hash of what is imported, and by which perfcli: equal files give an equal run."""
    digest = hashlib.sha256(f"import {__version__} {wanted}".encode())
    for path in paths:
        status = path.stat()
        digest.update(f"{os.path.abspath(path)} {status.st_size} {status.st_mtime_ns}".encode())
    return digest.hexdigest()
