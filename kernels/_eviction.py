"""Says what the L2 cache is to evict first. Pure."""

from __future__ import annotations

from perfcli.model import Problem, Target

from ._elements import ITEM_BYTES

LAST, FIRST = "evict_last", "evict_first"
"""Triton's names for it."""


def policies(problem: Problem, target: Target, matrices: int) -> tuple[str, str]:
    """Return where what is read and what is written goes in the order of eviction; as usual if L2
    holds so many matrices of the problem."""
    moved = matrices * problem.elements * ITEM_BYTES[problem.dtype]
    return (LAST, FIRST) if moved > target.l2_bytes else ("", "")
