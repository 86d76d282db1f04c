"""Says which launch configurations Inductor's autotuner launches, and whether it can."""

from __future__ import annotations

from dataclasses import dataclass

from perfcli.model import Candidate, KernelFacts, Target

_SPILL_THRESHOLD = 16
"""Words: Inductor's autotuner does not time a configuration that spills more
(``triton.spill_threshold``, ``CachingAutotuner.bench``, torch 2.11 to 2.13)."""


def list_timed(kernel: KernelFacts) -> list[int]:
    """Return the launch configurations that the autotuner chooses from. Where all spill too much to
    be timed it takes the first, however slow that is."""
    known = [
        number
        for number, candidate in enumerate(kernel.candidates)
        if candidate.registers is not None and candidate.blocks_per_sm != 0
    ]
    timed = [n for n in known if (kernel.candidates[n].stack_bytes or 0) // 4 <= _SPILL_THRESHOLD]
    return timed or (known if kernel.kind == "user" else known[:1])


@dataclass(frozen=True, slots=True)
class TooManyBlocks:
    """Describes a launch that the driver refuses: all of its blocks must run at once, and the
    device has no room for them (``CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE``)."""

    candidate: Candidate
    asked: int
    fitting: int

    def __str__(self) -> str:
        return f"{self.asked:,} blocks must run at once, and {self.fitting:,} fit"


def find_too_many_blocks(kernel: KernelFacts, target: Target) -> TooManyBlocks | None:
    """Return the launch of a kernel that fails, if one does. One is enough: the autotuner, which
    launches all that it chooses from, passes the error on (torch 2.11 and 2.13)."""
    for number in list_timed(kernel):
        candidate = kernel.candidates[number]
        asked, resident = candidate.blocks_at_once, candidate.blocks_per_sm
        if asked is None or resident is None:
            continue
        fitting = resident * target.sm_count
        if asked > fitting:
            return TooManyBlocks(candidate, asked, fitting)
    return None
