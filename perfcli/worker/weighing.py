"""Adds the work of every launch configuration to what a worker sent, and keeps it by content.

This is the parent's side: the worker's interpreter may have neither numpy nor msgspec.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import msgspec

from perfcli.blobs import unpack
from perfcli.decoding import convert, decode
from perfcli.errors import PerfcliError, wants_tracebacks
from perfcli.facts.binary.sass import parse_annotated
from perfcli.facts.occupancy import lower_bound_seconds
from perfcli.facts.work import COUNTING
from perfcli.model import Bundle, Candidate, KernelFacts, LaunchWork, Target
from perfcli.storing.whole import write_whole


def weigh(bundle: Bundle, cache_dir: Path) -> Bundle:
    """Return the bundle with the work of each candidate of its kernels, as far as it can be told;
    what was counted before comes from the cache."""
    target = bundle.run.target
    kernels = tuple(
        _follow_accesses(_add_work(kernel, bundle.blobs, cache_dir), bundle.blobs, target)
        for kernel in bundle.run.kernels
    )
    return replace(bundle, run=replace(bundle.run, kernels=kernels, weighed=True))


def _add_work(kernel: KernelFacts, blobs: Mapping[str, str], cache_dir: Path) -> KernelFacts:
    candidates = kernel.candidates
    if kernel.language != "triton" or not any(c.sass for c in candidates):
        return kernel
    path = _entry(kernel, cache_dir)
    found = _read(path)
    source = unpack(blobs[kernel.source])
    if found is None or len(found) != len(candidates):
        found = tuple(_count(source, candidate, blobs, kernel) for candidate in candidates)
        with suppress(OSError):
            write_whole(path, msgspec.json.encode(found))
    pairs = zip(candidates, found, strict=True)
    notes = tuple(dict.fromkeys((*kernel.notes, *_explain(source, found, blobs, kernel))))
    weighed = tuple(
        replace(c, work=work, blocks_at_once=_count_blocks_at_once(source, c, kernel))
        for c, work in pairs
    )
    return replace(kernel, candidates=weighed, notes=notes)


def _count_blocks_at_once(source: str, candidate: Candidate, kernel: KernelFacts) -> int | None:
    from perfcli.facts.work.grid import count_blocks_at_once

    return count_blocks_at_once(source, candidate.config, kernel.sizes, kernel.scalars)


def _follow_accesses(
    kernel: KernelFacts, blobs: Mapping[str, str], target: Target | None
) -> KernelFacts:
    """Return a user's kernel with the bytes that its accesses move, where these can be followed;
    until then it is taken to move all of each tensor that it is given."""
    weighed = next((c for c in kernel.candidates if c.work is not None), None)
    if kernel.kind != "user" or weighed is None or target is None:
        return kernel
    from perfcli.facts.work.moved import count_moved
    from perfcli.facts.work.ttgir import parse_module

    assert weighed.work is not None and weighed.ttgir is not None
    module = parse_module(unpack(blobs[weighed.ttgir]))
    try:
        found = count_moved(module, kernel.scalars, weighed.work.grid, kernel.buffers)
    except _UNCOUNTABLE:
        if wants_tracebacks():
            raise
        return kernel
    if found is None:
        note = "what it moves depends on values: taken as all of each tensor that it is given"
        return replace(kernel, notes=tuple(dict.fromkeys((*kernel.notes, note))))
    moved = sum(found)
    again = (kernel.bytes_swept or 0) - (kernel.bytes_moved or 0)
    return replace(
        kernel,
        bytes_read=found[0],
        bytes_written=found[1],
        bytes_swept=None if kernel.bytes_swept is None else moved + again,
        lower_bound_seconds=lower_bound_seconds(moved, target),
    )


def _explain(
    source: str, found: Sequence[LaunchWork | None], blobs: Mapping[str, str], kernel: KernelFacts
) -> Iterator[str]:
    """Yield why the work of a kernel is not known, or of which lines it is not known where they
    read and write."""
    for candidate, work in zip(kernel.candidates, found, strict=True):
        if work is None and candidate.sass is not None:
            with suppress(*_UNCOUNTABLE[1:]):
                try:
                    _work_of(source, candidate, blobs, kernel)
                except PerfcliError as error:
                    yield f"its work is not counted: {error}"
                    return
    unknown = {
        access.line
        for work in found
        if work is not None
        for access in work.accesses or ()
        if not access.known
    }
    if unknown:
        lines = ", ".join(map(str, sorted(unknown)))
        yield f"where it reads or writes can't be computed: line{'s' * (len(unknown) > 1)} {lines}"


def _entry(kernel: KernelFacts, cache_dir: Path) -> Path:
    configs = [(c.ttgir, c.sass, sorted(c.config.items())) for c in kernel.candidates]
    numbers = sorted({**kernel.sizes, **kernel.scalars}.items())
    content = json.dumps([COUNTING, kernel.source, numbers, configs])
    key = hashlib.sha256(content.encode()).hexdigest()
    return cache_dir / "work" / key[:2] / f"{key}.json"


def _read(path: Path) -> tuple[LaunchWork | None, ...] | None:
    try:
        return decode(path.read_bytes(), tuple[LaunchWork | None, ...])
    except (OSError, msgspec.MsgspecError):
        return None


_UNCOUNTABLE = (PerfcliError, ValueError, LookupError, TypeError, ArithmeticError, SyntaxError)
"""What text raises that the parsers and the arithmetic do not know: UnreadableTtgir, and what
Python and numpy raise for parts that are missing or of another shape."""


def _count(
    source: str, candidate: Candidate, blobs: Mapping[str, str], kernel: KernelFacts
) -> LaunchWork | None:
    if candidate.ttgir is None or candidate.sass is None:
        return None
    try:
        return _work_of(source, candidate, blobs, kernel)
    except _UNCOUNTABLE:  # whatever the arithmetic stumbles over, the kernel itself is fine
        if wants_tracebacks():
            raise
        return None


def _work_of(
    source: str, candidate: Candidate, blobs: Mapping[str, str], kernel: KernelFacts
) -> LaunchWork | None:
    # numpy takes a tenth of a second, and commands that compile nothing need none of it.
    from perfcli.facts.work.grid import grid_of
    from perfcli.facts.work.launch_work import work_of
    from perfcli.facts.work.memory_accesses import name_axes
    from perfcli.facts.work.ttgir import parse_module

    grid = grid_of(source, candidate.config, kernel.sizes, kernel.scalars)
    if grid is None or candidate.ttgir is None or candidate.sass is None:
        return None
    ttgir = unpack(blobs[candidate.ttgir])
    place = re.search(r'#loc = loc\("([^"]*)"', ttgir)
    file = Path(place[1]).name if place else ""
    arguments = {f"{axis}numel": size for axis, size in kernel.sizes.items()}
    arguments |= kernel.scalars
    listing = parse_annotated(unpack(blobs[candidate.sass]))
    module, axes = parse_module(ttgir), name_axes(source)
    return _round(work_of(module, listing, file, grid, arguments, axes))


def _round(work: LaunchWork) -> LaunchWork:
    """Return the work with its numbers rounded to six digits, since every candidate stores them."""
    plain = json.loads(
        json.dumps(dataclasses.asdict(work)), parse_float=lambda t: float(f"{float(t):.6g}")
    )
    return convert(plain, LaunchWork)
