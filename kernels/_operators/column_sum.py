"""Defines ``column_sum`` of several arrays: over all dimensions but the last, and over the
arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from perfcli.errors import PerfcliError

from .. import column_sum
from ..column_sum import code
from .calls import FamilyKernels, as_rows, operator

SCHEMAS = {"column_sum": "(Tensor[] inputs) -> Tensor"}
KERNELS = FamilyKernels(column_sum.FAMILY, code)


def _sum(inputs: Sequence[Tensor]) -> Tensor:
    if not inputs:
        raise PerfcliError("expected at least one tensor to add, found none")
    rows = [as_rows(f"inputs[{number}]", x) for number, x in enumerate(inputs)]
    if len({each.stride() for each in rows}) > 1:
        rows = [each.contiguous() for each in rows]
    tensors = {f"x{number}": each for number, each in enumerate(rows)}
    return KERNELS(column_sum.OPERATION, tensors, {"inputs": len(rows)})["out"]


def _fake(inputs: Sequence[Tensor]) -> Tensor:
    return inputs[0].new_empty(inputs[0].shape[-1:])


def _setup(ctx: Any, inputs: tuple[Sequence[Tensor]], output: Tensor) -> None:
    ctx.shapes = [x.shape for x in inputs[0]]


def _differentiate(ctx: Any, dout: Tensor) -> Any:
    """Return the gradients: every row of every input gets the same."""
    return [dout.expand(shape) for shape in ctx.shapes]


SUM = operator("column_sum", SCHEMAS["column_sum"], _sum, _fake)
SUM.register_autograd(_differentiate, setup_context=_setup)
SUM.register_autocast(torch.float32)
CALLS = {"column_sum": SUM.call}
