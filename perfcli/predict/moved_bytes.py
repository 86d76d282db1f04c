"""Estimates a launch of which only the bytes are known: between what memory needs for them and
several times as much.

Of generated kernels on an NVIDIA H200 (torch 2.11.0, launches of 3 µs and more), a launch took 1.41
times its bytes over the memory's bandwidth in the median, 1.06 to 5.36 times in nine of ten.
"""

from __future__ import annotations

from dataclasses import replace

from perfcli.model import KernelFacts, Target, TimeEstimate
from perfcli.model.estimate import BYTES

WIDER = 7.0
"""How many times as wide as that of other kernels the interval of a change is: as wide as a launch
may take longer than expected (5.36 against 1.41), and more, since both sides may be off."""
_TIMES = (1.06, 1.41, 5.36)
_LAUNCH = (1e-6, 2e-6, 5e-6)
"""Seconds that a launch takes that moves nothing."""

_CPU_BANDWIDTHS = (1e12, 3e10, 1e9)
"""Bytes per second: what the caches of a large server move together, two channels of DDR4-2133 by
their data sheet (34 GB/s), and one core that goes element by element. Which of them it is depends
on the machine and on what is in its caches; measuring tells."""
_CPU_CALL = (1e-6, 5e-6, 5e-5)
_TELLING_NOTHING = ("template", "user")
"""Kinds of kernels that may compute anything: their bytes say nothing of their time."""


def _estimate_from_bytes(kernel: KernelFacts, target: Target, why: str) -> TimeEstimate | None:
    """Return the estimate of one launch on a GPU; None where its bytes are not known either, or say
    nothing of its time: atomics and other people's kernels. ``why`` says why its work is not
    known."""
    facts, moved = kernel.source_facts, kernel.bytes_moved
    is_telling = facts is not None and not facts.atomics and kernel.kind not in _TELLING_NOTHING
    is_telling &= not any(each.work.retries for each in kernel.candidates if each.work)
    if not (moved and is_telling and kernel.candidates) or kernel.unknown_sizes:
        return None
    found = estimate_bytes(moved, target)
    return replace(found, doubts=(f"from its bytes alone: {why}",)) if found else None


def estimate_bytes(moved: float, target: Target) -> TimeEstimate | None:
    """Return the estimate of one launch on a GPU that moves so many bytes."""
    if target.bandwidth <= 0:
        return None
    low, middle, high = (
        launch + moved * times / target.bandwidth
        for launch, times in zip(_LAUNCH, _TIMES, strict=True)
    )
    return TimeEstimate(middle, low, high, kind=BYTES)


def _estimate_on_cpu(kernel: KernelFacts) -> TimeEstimate | None:
    """Return the estimate of one call of a C++ kernel, which goes over each of its buffers once;
    None where these are not known."""
    moved = sum(b.bytes * (b.is_read + b.is_written) for b in kernel.buffers)
    if kernel.language != "cpp" or not moved:
        return None
    low, middle, high = (
        call + moved / bandwidth for call, bandwidth in zip(_CPU_CALL, _CPU_BANDWIDTHS, strict=True)
    )
    why = "from its bytes alone, on no CPU in particular: measure for more"
    return TimeEstimate(middle, low, high, kind=BYTES, doubts=(why,))
