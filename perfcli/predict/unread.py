"""Finds kernels that do not read what they compute from: their results are wrong."""

from __future__ import annotations

from collections.abc import Iterator

from perfcli.model import Candidate, KernelFacts, Run
from perfcli.predict.launch import count_moved

LEAST_SHARE = 0.25
"""Of the bytes that Inductor has a kernel read. Right kernels were seen to read half of them and
more (each block counts as the few that were followed), wrong ones a sixteenth and less."""


def list_unread(run: Run) -> Iterator[tuple[KernelFacts, float]]:
    """Yield the generated kernels that read less than ``LEAST_SHARE`` of their input with every
    launch configuration, and the share of it that they read."""
    for kernel in run.kernels:
        if not kernel.bytes_read or kernel.kind == "user" or kernel.unknown_sizes:
            continue
        shares = [_count_read(c, kernel) / kernel.bytes_read for c in kernel.candidates if _sure(c)]
        if shares and max(shares) < LEAST_SHARE:
            yield kernel, max(shares)


def _count_read(candidate: Candidate, kernel: KernelFacts) -> float:
    assert candidate.work is not None
    return count_moved(candidate.work, kernel.buffers)[0]


def _sure(candidate: Candidate) -> bool:
    """Return whether all that a launch reads was followed."""
    work = candidate.work
    return (
        work is not None
        and not work.indirect
        and not work.unknown_loops
        and work.accesses is not None
        and all(access.known for access in work.accesses)
    )
