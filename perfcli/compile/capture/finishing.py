"""Operators of torch that the generated wrapper calls after a kernel, to finish its results.

A mix-order reduction leaves one partial result per block of rows in a workspace; the wrapper then
reduces each of them in "an extra round of reduction" (``codegen/simd.py``), without a node of the
schedule. Seen with torch 2.13.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

# By the reduction that the kernel began: the operator that a method of a tensor calls.
_OPERATORS = {
    "sum": "aten.sum.dim_IntList",
    "max": "aten.amax.default",
    "min": "aten.amin.default",
    "prod": "aten.prod.dim_int",
}
_CAST = "aten.to.dtype"


@dataclass(frozen=True, slots=True)
class Finishing:
    """The operators in the order of their calls, and the bytes that they read and write."""

    operators: tuple[str, ...] = ()
    bytes_moved: int = 0


NO_FINISHING = Finishing()


def read_finishing(kernel: Any) -> Finishing:
    """Return what the wrapper calls after a launch of this kernel; nothing for most kernels."""
    partial = getattr(kernel, "saved_partial_accumulate", ())
    if not partial:
        return NO_FINISHING
    from torch._inductor.virtualized import V

    hint = V.graph.sizevars.optimization_hint
    row = int(hint(kernel.numels["r0_"]))
    (workspace,) = kernel.args.workspace_args
    accumulated = workspace.dtype
    operators: list[str] = []
    # All of the workspace is read once, by one operator or another.
    moved = int(hint(workspace.count)) * accumulated.itemsize
    for each in partial:
        dtype = V.graph.get_dtype(each.buffer_name)
        operators.append(_OPERATORS.get(each.reduction_type, f"aten.{each.reduction_type}"))
        moved += row * accumulated.itemsize
        if dtype != accumulated:
            operators.append(_CAST)
            moved += row * (accumulated.itemsize + dtype.itemsize)
    return Finishing(tuple(operators), moved)
