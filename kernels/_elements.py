"""Says how large elements are, how Triton calls them, and how many a thread loads at once; and how
rows lie in memory. Pure."""

from __future__ import annotations

from dataclasses import replace
from math import gcd

from perfcli.model import Problem

ITEM_BYTES = {"bfloat16": 2, "float16": 2, "float32": 4}
TRITON_TYPE = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}
MORE_REGISTERS = 8
"""Of a thread, where registers were counted for sm_90: ptxas 12.8 spills up to 14 words for other
architectures without them."""
VECTOR_BYTES = 16
"""The bytes that one thread loads with one instruction, at most."""


def next_power_of_2(number: int) -> int:
    return 1 << max(number - 1, 0).bit_length()


def vector(problem: Problem) -> int:
    """Return the elements of the widest load."""
    return VECTOR_BYTES // ITEM_BYTES[problem.dtype]


def row_bytes(problem: Problem) -> int:
    """Return the bytes of a row of one matrix."""
    return problem.columns * ITEM_BYTES[problem.dtype]


def matrix_bytes(problem: Problem) -> int:
    """Return the bytes of one matrix, without gaps between its rows."""
    return problem.elements * ITEM_BYTES[problem.dtype]


def without_gap(problem: Problem) -> Problem:
    """Return the problem, of one row without the gap behind it, which nobody reads: where a row
    ends has to follow from its width."""
    return replace(problem, row_stride=None) if problem.rows == 1 else problem


SECTOR_BYTES = 32
"""What memory is read and written by."""


def sector_of(problem: Problem) -> int:
    """Return the elements of a sector of memory."""
    return SECTOR_BYTES // ITEM_BYTES[problem.dtype]


def rows_lie_alike(problem: Problem, apart: int) -> bool:
    """Return whether rows of the input, and of an output without gaps, begin equally far from
    multiples of so many elements."""
    return problem.rows == 1 or (problem.stride - problem.columns) % apart == 0


def widest_alignment(problem: Problem) -> int:
    """Return from which multiples of elements a row's lanes may be counted, in which the rows of
    the output lie as those of the inputs: sectors of memory, or vectors if no more than these do
    so."""
    sector = sector_of(problem)
    return sector if rows_lie_alike(problem, sector) else vector(problem)


def lanes_of(problem: Problem, align: int) -> int:
    """Return the columns of a row, with those of its neighbours that come along: whole words of 16
    bytes, as a mask that ends within one makes all loads under it narrow."""
    wide = vector(problem)
    return -(-(problem.columns + align - gcd(problem.stride, align)) // wide) * wide
