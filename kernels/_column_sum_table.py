"""Which tile, warps and blocks a column sum is launched with, and where each row comes from."""

from __future__ import annotations

from perfcli.model import Problem, Target

from ._column_sum_launch import input_count
from ._column_sum_plan import ITEM_BYTES, Pointers, Tma

_UNMEASURED = "not measured yet"


def pointers_of(problem: Problem, target: Target) -> tuple[Pointers, str]:
    vector = 16 // ITEM_BYTES[problem.dtype]
    warps = 8 if target.warp_size == 32 else 4
    rows = 8 if input_count(problem) == 1 else 4 if input_count(problem) <= 3 else 2
    return Pointers(rows, warps * target.warp_size * vector, warps, 4), _UNMEASURED


def tma_of(problem: Problem, target: Target) -> tuple[Tma, str]:
    """Two tiles in flight where the smallest tile allows it, one where it does not."""
    many = input_count(problem) * ITEM_BYTES[problem.dtype] > 28 * 4
    return Tma(num_stages=2 if many else 3, blocks_per_sm=1), _UNMEASURED
