"""Keeps compiled kernels on disk by content: the source (which names the device's properties) and
the versions of torch, triton, ptxas and Python."""

from __future__ import annotations

import hashlib
import json
import sys
import zlib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from perfcli.compile.binaries.assembler import ptxas_version
from perfcli.model import Candidate, LineCounts, Target
from perfcli.storing.whole import write_whole

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
    given_up_after: float = 0.0
    """The seconds after which the assembler was stopped for one of the candidates or more; 0 where
    it was for none."""


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
        given_up_after = float(data.get("given_up_after", 0))
        return Compiled(
            candidates, data["blobs"], alternatives=alternatives, given_up_after=given_up_after
        )
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
