"""Defines ``cross_entropy`` of logits (…, classes) and targets (…), with its gradient.

The losses are float32 whatever the logits are; a target of −100 counts nothing, as in torch.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from perfcli.errors import PerfcliError

from ..softmax.code import IGNORED
from .calls import as_rows, like, operator
from .dispatch import NAMESPACE
from .softmax import KERNELS

SCHEMAS = {"cross_entropy": "(Tensor x, Tensor target, str reduction='mean') -> Tensor"}
REDUCTIONS = ("mean", "sum", "none")


def _rows(x: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    if target.shape != x.shape[:-1] or target.dtype != torch.int64:
        raise PerfcliError(
            f"expected int64 targets of shape {tuple(x.shape[:-1])} for logits of "
            f"{tuple(x.shape)}, found {target.dtype} of {tuple(target.shape)}"
        )
    tensors = {"x": as_rows("x", x), "target": target.reshape(-1).contiguous()}
    found = KERNELS("cross-entropy", tensors, {})
    # Two halves of one buffer; an operator's outputs may not share one.
    return found["loss"].view(target.shape), found["lse"].view(target.shape).clone()


def _rows_fake(x: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    shape = x.shape[:-1]
    return (x.new_empty(shape, dtype=torch.float32), x.new_empty(shape, dtype=torch.float32))


def _gradient(dloss: Tensor, x: Tensor, target: Tensor, lse: Tensor) -> Tensor:
    tensors = {
        "x": as_rows("x", x),
        "target": target.reshape(-1).contiguous(),
        "lse": lse.reshape(-1).contiguous(),
        "dloss": dloss.reshape(-1).contiguous(),
    }
    return KERNELS("cross-entropy-backward", tensors, {})["dx"].view(x.shape)


ROWS = operator(
    "cross_entropy_rows", "(Tensor x, Tensor target) -> (Tensor, Tensor)", _rows, _rows_fake
)
GRADIENT = operator(
    "cross_entropy_backward",
    "(Tensor dloss, Tensor x, Tensor target, Tensor lse) -> Tensor",
    _gradient,
    lambda dloss, x, target, lse: like(x),
)


def _setup(ctx: Any, inputs: tuple[Tensor, Tensor], output: tuple[Tensor, Tensor]) -> None:
    lse = output[1]
    ctx.mark_non_differentiable(lse)
    ctx.save_for_backward(*inputs, lse)


def _differentiate(ctx: Any, dloss: Tensor, _dlse: Tensor) -> Any:
    return GRADIENT(dloss, *ctx.saved_tensors), None


ROWS.register_autograd(_differentiate, setup_context=_setup)


def cross_entropy(x: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    """Compute the loss by the operator for rows and torch's own, which have the gradient."""
    if reduction not in REDUCTIONS:
        raise PerfcliError(f"reduction is {', '.join(REDUCTIONS)}, not {reduction!r}")
    losses: Tensor = torch.ops.perfcli.cross_entropy_rows(x, target)[0]
    if reduction == "none":
        return losses
    if reduction == "sum":
        return losses.sum()
    return losses.sum() / (target != IGNORED).sum()


torch.library.define(f"{NAMESPACE}::cross_entropy", SCHEMAS["cross_entropy"])
torch.library.impl(f"{NAMESPACE}::cross_entropy", "CompositeImplicitAutograd", cross_entropy)
