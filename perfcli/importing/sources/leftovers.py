"""Defines what a run of torch.compile left behind, whichever folder or file it was found in."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from perfcli.importing.sources.wrapper import WrittenKernel
from perfcli.model import BreakPlace, OptionValue

MOST_BYTES = 64 << 20
"""Of a file whose text is kept: a wrapper of ten thousand kernels has less."""
MOST_FILES = 50_000
_HEAD = 1 << 16
_DEEPEST = 12


@dataclass(frozen=True, slots=True)
class WrittenGraph:
    """Holds the module that Inductor wrote for one graph."""

    text: str
    place: str
    """Says where it was found, for notes."""
    label: str = ""
    """Torch's name of the graph where the folder has it, ``0_forward``."""
    listing: str = ""
    """The graph as torch prints it, with the lines of the model; empty where it is not there."""
    mapping: str = ""
    """Torch's own record of which kernel computes which nodes, JSON; empty likewise."""


@dataclass(frozen=True, slots=True)
class CachedBinary:
    """Holds one launch configuration of a kernel as Triton keeps it."""

    name: str
    place: str
    metadata: Mapping[str, object]
    cubin: bytes
    ptx: str
    ttgir: str
    ttir: str


@dataclass(frozen=True, slots=True)
class Leftovers:
    """Holds what was found in one place; what nothing tells is empty."""

    graphs: tuple[WrittenGraph, ...] = ()
    kernels: tuple[WrittenKernel, ...] = ()
    """Kernels that no graph launches as far as one can see."""
    binaries: tuple[CachedBinary, ...] = ()
    torch: str = ""
    """The version that wrote it."""
    triton: str = ""
    python: str = ""
    gpu: str = ""
    settings: Mapping[str, OptionValue] = field(default_factory=dict)
    """Inductor's options as they were."""
    graph_breaks: Mapping[str, int] = field(default_factory=dict)
    break_places: Mapping[str, tuple[BreakPlace, ...]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def read_text(path: Path) -> str | None:
    """Return the text of a plain file; None for what is none, or is larger than MOST_BYTES."""
    data = read_bytes(path)
    return None if data is None else data.decode("utf-8", errors="replace")


def read_bytes(path: Path, most: int = MOST_BYTES) -> bytes | None:
    """Return the content of a plain file; None for what is none, or is larger than that."""
    try:
        if not is_plain(path) or path.stat().st_size > most:
            return None
        return path.read_bytes()
    except OSError:
        return None


def read_head(path: Path) -> bytes:
    """Return the first bytes of a plain file; none of what can't be read."""
    try:
        if not is_plain(path):
            return b""
        with path.open("rb") as file:
            return file.read(_HEAD)
    except OSError:
        return b""


def is_plain(path: Path) -> bool:
    """Return whether this is a file that can be read without waiting for anybody."""
    return stat.S_ISREG(path.stat().st_mode)


def list_files(folder: Path) -> Iterator[Path]:
    """Yield the plain files of a folder and those inside of it, sorted, no more than MOST_FILES.
    Links to folders are not followed, so that none is walked in a circle."""
    found = 0
    for current, folders, names in os.walk(folder):
        depth = len(Path(current).relative_to(folder).parts)
        folders[:] = sorted(folders) if depth < _DEEPEST else []
        for name in sorted(names):
            found += 1
            if found > MOST_FILES:
                return
            yield Path(current, name)
