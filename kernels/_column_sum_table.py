"""Which tile, warps and blocks a column sum is launched with, and where each row comes from.

Measured on an H200 on 2026-11-22, torch 2.11.0, triton 3.6.0, L2 flushed; TB/s of the chosen row,
and a copy of as many bytes in the same run:

| rows × columns, inputs, dtype | copy | pointers | tma | Inductor | max-autotune |
| --- | --- | --- | --- | --- | --- |
| 65536 × 4096, 1, float32 | 4.18 | 4.26 | 4.26 | 4.05 | 4.05 |
| 65536 × 4096, 3, float32 | 4.30 | 4.47 | 4.48 | 4.14 | 4.34 |
| 65536 × 4096, 5, bfloat16 | 4.23 | 4.46 | 4.44 | 3.14 | 4.18 |
| 65536 × 4096, 16, bfloat16 | 4.29 | 4.52 | 4.52 | 3.13 | 3.57 |
| 4096 × 65536, 1, float32 | 4.19 | 4.26 | 4.27 | 4.06 | 4.06 |
| 262144 × 1024, 3, bfloat16 | 4.23 | 4.36 | 4.34 | 4.00 | 4.02 |

A copy writes half of its bytes, which costs the memory turnarounds that a sum does not have.
"""

from __future__ import annotations

from perfcli.model import Problem, Target

from ._column_sum_launch import input_count
from ._column_sum_plan import ITEM_BYTES, VECTOR_BYTES, Pointers, Tma, aligned_elements

_FEW_INPUTS = 7
_MANY_INPUTS = 28
_BYTES_PER_STAGE = 48 * 1024
_MEASURED = "H200, 2026-11-22, triton 3.6.0"


def pointers_of(problem: Problem, target: Target) -> tuple[Pointers, str]:
    """Few inputs: one block per multiprocessor, as wide as its threads have 16-byte vectors, with
    three tiles of up to 48 KiB on their way to shared memory (cp.async). Twice the warps for half
    precision on sm_100, where 8 warps spill 4 words (262144 × 1024, 3 inputs; triton 3.7.1, not
    timed). Many inputs keep enough bytes in flight by themselves: loads into registers, narrower
    tiles."""
    inputs, vector = input_count(problem), VECTOR_BYTES // ITEM_BYTES[problem.dtype]
    if aligned_elements(problem) < vector:
        return _narrow(inputs), "rows not at multiples of 16 bytes: narrow loads (not measured)"
    if target.vendor != "nvidia":
        return _without_copies(inputs, target.warp_size * vector), "no cp.async; not measured"
    if inputs <= _FEW_INPUTS:
        rows = _power_of_2_below(_BYTES_PER_STAGE // (inputs * 256 * VECTOR_BYTES))
        warps = 16 if target.capability >= (10, 0) and vector == 8 else 8
        wide = Pointers(min(rows, 8), 256 * vector, warps, blocks_per_sm=1, num_stages=4)
        return wide, f"up to {_FEW_INPUTS} inputs: three tiles in flight ({_MEASURED})"
    if inputs <= _MANY_INPUTS:
        return Pointers(2 * vector, 256, 8, 4), f"many inputs: loads into registers ({_MEASURED})"
    why = "very many inputs: one vector of each at a time, two spill (not measured)"
    return Pointers(vector, 256, 8, 4), why


def tma_of(problem: Problem, target: Target) -> tuple[Tma, str]:
    """Few inputs: two tiles of each in flight; 4 to 7 of half precision, whose larger tiles spill
    (5 inputs, triton 3.7), as three smaller ones. Many: one, since with two such tiles Triton
    spills (float16, 14 to 56 inputs), and 16 inputs were 1 % slower."""
    inputs = input_count(problem)
    if 4 <= inputs <= _FEW_INPUTS and ITEM_BYTES[problem.dtype] == 2:
        return Tma(4, 3, 4), f"three small tiles of each input, three blocks ({_MEASURED})"
    if inputs <= _FEW_INPUTS:
        return Tma(3, 1, 4), f"two tiles of each input in flight ({_MEASURED})"
    return Tma(2, 1, 4), f"one tile of each input in flight ({_MEASURED})"


def _narrow(inputs: int) -> Pointers:
    """About 32 loads per thread in flight, whatever their width."""
    loads = _power_of_2_below(32 // inputs)
    side_by_side = min(loads, 4)
    return Pointers(loads // side_by_side, 256 * side_by_side, 8, 4)


def _without_copies(inputs: int, columns_per_warp: int) -> Pointers:
    """As many vectors of each input as registers take; a part of one where there are very many."""
    if inputs > _MANY_INPUTS:
        return Pointers(1, 512, 4, 4)
    return Pointers(4 if inputs <= _FEW_INPUTS else 1, 4 * columns_per_warp, 4, 4)


def _power_of_2_below(number: int) -> int:
    return 1 << (max(number, 1).bit_length() - 1)
