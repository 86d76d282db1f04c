"""Defines what a run of torch.compile left behind, whichever folder or file it was found in."""

from __future__ import annotations

import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

MOST_BYTES = 64 << 20
"""Of a file whose text is kept: a wrapper of ten thousand kernels has less."""


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


@dataclass(frozen=True, slots=True)
class Leftovers:
    """Holds what was found in one place."""

    graphs: tuple[WrittenGraph, ...] = ()
    torch: str = ""
    """The version that wrote it; empty where nothing tells."""
    gpu: str = ""
    graph_breaks: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def read_text(path: Path, most: int = MOST_BYTES) -> str | None:
    """Return the text of a plain file; None for what is none, or is larger than ``most`` bytes."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > most:
            return None
        return path.read_bytes().decode("utf-8", errors="replace")
    except OSError:
        return None
