"""Keeps compiled kernels on disk by content: the source (which names the device's properties) and
the versions of torch, triton, ptxas and Python."""

from __future__ import annotations

import functools
import hashlib
import json
import re
import subprocess
import sys
import zlib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from perfcli.model import Candidate, LineCounts, Target
from perfcli.storing.whole import write_whole


def select_ptxas() -> None:
    """Choose ptxas as Inductor does: some CUDA builds carry a newer one than triton's (2.11.0+cu130
    and 2.12.1 have 13.0 against 12.8; from 2.13 on there is none)."""
    from torch._inductor.runtime import compile_tasks

    choose = getattr(compile_tasks, "_set_triton_ptxas_path", None)
    if choose is not None:
        choose()


def ptxas_version(target: Target) -> str | None:
    """Return the release that triton will run for the target, such as ``13.0``, or None where it
    can't be told.

    Seen with triton 3.6 to 3.9 (``backends.nvidia.compiler.get_ptxas``).
    """
    return version_for(target.capability[0] * 10 + target.capability[1])


@functools.cache
def version_for(capability: int) -> str | None:
    select_ptxas()
    try:
        from triton.backends.nvidia.compiler import get_ptxas

        tool: Any = get_ptxas(capability)
        return _release(Path(tool.path))
    except Exception:  # another triton: the run says "unknown", nothing else depends on it
        return None


def _release(ptxas: Path) -> str | None:
    text = subprocess.run([str(ptxas), "--version"], capture_output=True, text=True, check=True)
    found = re.search(r"release ([\d.]+)", text.stdout)
    return found[1] if found else None


FORMAT = 7
"""The format of the entries: raise it when a fact is added or counted differently, or when other
launch configurations are compiled. 7: text of lines that spill, alternatives."""

REVISION = 1
"""The revision of entries of kernels with a configuration that does not fit on the target: when it
is raised, these alone are compiled again. 1: compiled again without a pipeline."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """Holds all candidates of a kernel, what else was tried (``KernelFacts.alternatives``), and the
    packed texts that the candidates name."""

    candidates: tuple[Candidate, ...]
    blobs: dict[str, str]
    error: str = ""
    alternatives: tuple[Candidate, ...] = ()


def entry(source: str, name: str, target: Target, cache_dir: Path) -> Path:
    """Return where the kernel's entry is, or will be."""
    import torch
    import triton

    parts = [
        str(FORMAT),
        name,
        source,
        repr(target),
        torch.__version__,
        triton.__version__,
        str(ptxas_version(target)),
        sys.version.split()[0],
    ]
    key = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    return cache_dir / "kernels" / key[:2] / f"{key}.json.z"


def read(path: Path) -> Compiled | None:
    """Return the entry, or None where there is none or its writer was cut off."""
    try:
        data = json.loads(zlib.decompress(path.read_bytes()))
        candidates, alternatives = map(_candidates, (data["candidates"], data["alternatives"]))
        if data.get("revision", 0) < REVISION and any(c.blocks_per_sm == 0 for c in candidates):
            return None
        return Compiled(candidates, data["blobs"], alternatives=alternatives)
    except (OSError, ValueError, KeyError, TypeError, zlib.error):
        return None


def _candidates(plain: Iterable[Mapping[str, Any]]) -> tuple[Candidate, ...]:
    return tuple(
        replace(
            Candidate(**{k: v for k, v in c.items() if k != "lines"}),
            lines={k: LineCounts(**v) for k, v in c["lines"].items()},
        )
        for c in plain
    )


def write(path: Path, compiled: Compiled) -> None:
    """Write the entry. A disk that is full or read-only is no failure: the result itself is
    good."""
    data = {**asdict(compiled), "revision": REVISION}
    with suppress(OSError):
        write_whole(path, zlib.compress(json.dumps(data).encode(), 1))
