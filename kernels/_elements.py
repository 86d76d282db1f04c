"""Says how large elements are, how Triton calls them, and how many a thread loads at once. Pure."""

from __future__ import annotations

from perfcli.model import Problem

ITEM_BYTES = {"bfloat16": 2, "float16": 2, "float32": 4}
TRITON_TYPE = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}
VECTOR_BYTES = 16
"""The bytes that one thread loads with one instruction, at most."""


def vector(problem: Problem) -> int:
    """Return the elements of the widest load."""
    return VECTOR_BYTES // ITEM_BYTES[problem.dtype]
