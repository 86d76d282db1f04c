"""Counts the work of one launch of each candidate, in the compile pool, and keeps it by content."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from perfcli.blobs import unpack
from perfcli.facts.binary.sass import parse_annotated
from perfcli.facts.work.launch import grid_of
from perfcli.facts.work.launch_work import work_of
from perfcli.facts.work.ttgir import parse_module
from perfcli.model import Candidate, LaunchWork
from perfcli.storing.whole import write_whole

_FORMAT = 1
"""The format of the entries: raise it when work is counted differently."""


def count_work(
    source: str,
    candidates: Sequence[Candidate],
    blobs: Mapping[str, str],
    sizes: Mapping[str, int],
    cache_dir: Path,
) -> tuple[LaunchWork | None, ...]:
    """Return what one launch of each candidate asks of the device; None where it can't be told.

    ``sizes`` is the kernel's iteration space, with hints where sizes are dynamic.
    """
    path = _entry(source, candidates, sizes, cache_dir)
    found = _read(path)
    if found is None or len(found) != len(candidates):
        found = tuple(_count(source, candidate, blobs, sizes) for candidate in candidates)
        with suppress(OSError):
            write_whole(path, msgspec.json.encode(found))
    return found


def _entry(
    source: str, candidates: Sequence[Candidate], sizes: Mapping[str, int], cache_dir: Path
) -> Path:
    configs = [(c.ttgir, c.sass, sorted(c.config.items())) for c in candidates]
    content = json.dumps([_FORMAT, source, sorted(sizes.items()), configs])
    key = hashlib.sha256(content.encode()).hexdigest()
    return cache_dir / "work" / key[:2] / f"{key}.json"


def _read(path: Path) -> tuple[LaunchWork | None, ...] | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=tuple[LaunchWork | None, ...])
    except (OSError, msgspec.MsgspecError):
        return None


def _count(
    source: str, candidate: Candidate, blobs: Mapping[str, str], sizes: Mapping[str, int]
) -> LaunchWork | None:
    if candidate.ttgir is None or candidate.sass is None:
        return None
    grid = grid_of(source, candidate.config, sizes)
    if grid is None:
        return None
    try:
        ttgir = unpack(blobs[candidate.ttgir])
        place = re.search(r'#loc = loc\("([^"]*)"', ttgir)
        file = Path(place[1]).name if place else ""
        arguments = {f"{axis}numel": size for axis, size in sizes.items()}
        listing = parse_annotated(unpack(blobs[candidate.sass]))
        return _round(work_of(parse_module(ttgir), listing, file, grid, arguments))
    except Exception:  # whatever the arithmetic stumbles over, the kernel itself is fine
        return None


def _round(work: LaunchWork) -> LaunchWork:
    """Return the same with numbers of six digits: they are stored once for every candidate."""
    plain = json.loads(
        json.dumps(dataclasses.asdict(work)), parse_float=lambda t: float(f"{float(t):.6g}")
    )
    return msgspec.convert(plain, LaunchWork)
