"""Says what the L2 cache is to evict first. Pure."""

from __future__ import annotations

from perfcli.model import Problem, Target

from ._elements import matrix_bytes

LAST, FIRST = "evict_last", "evict_first"
"""Triton's names for it."""
FROM_SIZES = 8
"""Sizes of L2 that a kernel moves from which it gains by it, whatever came before it and comes
after it. It saves 1 to 4 percent of its time then, but a few microseconds are lost if its input has
just been written, of which L2 holds a part: of 537 MB and more it is between 0.4 percent slower and
4 faster, together with the kernel that comes next as well; of 377 MB 0.2 to 2 percent slower, and
of 134 MB 1 to 9 (H200, 2026-11-29; bench/next_kernel.py)."""
READ_UP_TO_SIZES = 5
"""Sizes of L2 up to which a kernel that only reads gains by reading such that L2 keeps what others
have left in it, which would have to be written to memory: of 268 MB 2 to 4 percent after a kernel
that wrote its input, and 0.5 to 2 of the time of both with a kernel that reads the input again or
copies something else (after writes elsewhere 0 to 1.4 alone, and −1.6 to −0.2 of both); at 411 MB
it gains nothing, and at 524 it loses 1 to 4 (the same day)."""


def policies(problem: Problem, target: Target, matrices: int) -> tuple[str, str]:
    """Return where what is read and what is written goes in the order of eviction, by a kernel that
    moves so many matrices of the problem; "" is as usual."""
    return (LAST, FIRST) if sizes_of_l2(problem, target, matrices) > FROM_SIZES else ("", "")


def read_policy(problem: Problem, target: Target) -> str:
    """Return where what is read goes, by a kernel that writes no matrix."""
    return FIRST if 1 < sizes_of_l2(problem, target, 1) <= READ_UP_TO_SIZES else ""


def sizes_of_l2(problem: Problem, target: Target, matrices: int) -> float:
    """Return how many times L2 could be filled with so many matrices."""
    return matrices * matrix_bytes(problem) / target.l2_bytes
