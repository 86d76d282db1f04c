"""Tells what of torch.compile a path is, by what stands in it, and has it read."""

from __future__ import annotations

from pathlib import Path

from perfcli.errors import PerfcliError
from perfcli.importing.sources.leftovers import Leftovers, WrittenGraph, read_text

_HEAD = 1 << 16
_WRAPPER = (
    "from torch._inductor.async_compile import AsyncCompile",
    "async_compile = AsyncCompile()",
)


def recognize_sources(path: Path) -> str:
    """Return what of torch a file or folder is, ``an output_code.py``; empty for all else."""
    try:
        if path.is_file() and _is_wrapper(path):
            return "an output_code.py"
    except OSError:
        return ""
    return ""


def read_leftovers(path: Path) -> Leftovers:
    """Return what was left behind at this path. Raises PerfcliError where it is nothing
    of torch."""
    if not path.exists():
        raise PerfcliError(f"no such file or folder: {path}")
    kind = recognize_sources(path)
    if kind == "an output_code.py":
        return _read_file(path)
    raise PerfcliError(f"{path} is nothing that torch.compile leaves behind")


def _is_wrapper(path: Path) -> bool:
    with path.open("rb") as file:
        head = file.read(_HEAD).decode("utf-8", errors="replace")
    return any(line in head for line in _WRAPPER)


def _read_file(path: Path) -> Leftovers:
    text = read_text(path)
    if text is None:
        raise PerfcliError(f"{path} is too large to be the code of one graph")
    return Leftovers((WrittenGraph(text, path.name),))
