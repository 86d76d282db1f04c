"""Says what compiling a request takes of a machine, so that no more is begun than fits."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from perfcli import units
from perfcli.errors import WorkerFailed
from perfcli.model import CompileRequest

USUAL_MEMORY_BYTES = 2 << 30
"""What a worker with torch takes at most while it compiles the shipped scenarios, rounded up."""


@dataclass(frozen=True, slots=True)
class Needs:
    """Holds the memory of each compilation in bytes, by scenario; the empty name is for all
    others. A compilation takes one core, and one GPU where it runs on the real device."""

    memory_bytes: Mapping[str, int] = field(default_factory=dict)
    binary: frozenset[str] = frozenset()
    """Those that were typed in powers of two, ``64GiB``."""

    def memory_of(self, request: CompileRequest) -> int:
        usual = self.memory_bytes.get("", USUAL_MEMORY_BYTES)
        return self.memory_bytes.get(request.scenario, usual)

    def refuse(self, request: CompileRequest, most: int, where: str) -> WorkerFailed | None:
        """Return the error of a request that needs more than the ``most`` bytes that there are."""
        needed = self.memory_of(request)
        if not self.memory_bytes or needed <= most:  # what nobody declared is tried
            return None
        return WorkerFailed(
            f"{request.scenario} needs {self.write(request, needed)} of memory, and {where} has "
            f"{self.write(request, most)}: --memory says what it needs"
        )

    def write(self, request: CompileRequest, amount: int) -> str:
        """Return bytes for people, in such units as the request's memory was typed in."""
        typed = request.scenario if request.scenario in self.memory_bytes else ""
        return units.binary_size(amount) if typed in self.binary else units.size(amount)


USUAL_NEEDS = Needs()


def count_gpus(request: CompileRequest) -> int:
    return int(request.on_device)


def measure_memory() -> int:
    """Return the bytes of memory of this machine."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
