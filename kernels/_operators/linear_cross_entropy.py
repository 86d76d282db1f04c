"""Defines ``linear_cross_entropy`` of rows, a matrix of classes and targets: the cross-entropy of
``x @ weight.T``, whose logits are never stored; with its gradients.

The losses are float32, as those of ``cross_entropy``.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from perfcli.errors import PerfcliError

from .. import linear_cross_entropy as family
from ..linear_cross_entropy import code
from .calls import FamilyKernels, as_rows, like, operator
from .cross_entropy import REDUCTIONS
from .dispatch import NAMESPACE

SCHEMAS = {
    "linear_cross_entropy": "(Tensor x, Tensor weight, Tensor target, str reduction='mean', "
    "int ignore_index=-100, float label_smoothing=0.0, float softcap=0.0) -> Tensor"
}
KERNELS = FamilyKernels(family.FAMILY, code)
_SETTINGS = "int ignored, float smoothing, float softcap"


def _tensors(x: Tensor, weight: Tensor, target: Tensor) -> dict[str, Tensor]:
    if weight.dim() != 2 or weight.shape[1] != x.shape[-1] or weight.dtype != x.dtype:
        raise PerfcliError(
            f"expected {x.dtype} weights (classes, {x.shape[-1]}) for x of {tuple(x.shape)}, found "
            f"{weight.dtype} of {tuple(weight.shape)}"
        )
    if target.shape != x.shape[:-1] or target.dtype != torch.int64:
        raise PerfcliError(
            f"expected int64 targets of shape {tuple(x.shape[:-1])} for x of {tuple(x.shape)}, "
            f"found {target.dtype} of {tuple(target.shape)}"
        )
    rows = as_rows("x", x).contiguous()
    return {"x": rows, "weight": weight.contiguous(), "target": target.reshape(-1).contiguous()}


def _settings(weight: Tensor, ignored: int, smoothing: float, softcap: float) -> dict[str, Any]:
    numbers = {"ignored": ignored, "smoothing": smoothing, "softcap": softcap}
    return {"classes": weight.shape[0], **numbers}


def _rows(
    x: Tensor, weight: Tensor, target: Tensor, ignored: int, smoothing: float, softcap: float
) -> tuple[Tensor, Tensor]:
    settings = _settings(weight, ignored, smoothing, softcap)
    found = KERNELS(family.FORWARD, _tensors(x, weight, target), settings)
    return found["loss"].view(target.shape), found["lse"].view(target.shape)


def _rows_fake(x: Tensor, weight: Tensor, target: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    shape = x.shape[:-1]
    return (x.new_empty(shape, dtype=torch.float32), x.new_empty(shape, dtype=torch.float32))


def _gradients(
    dloss: Tensor,
    x: Tensor,
    weight: Tensor,
    target: Tensor,
    lse: Tensor,
    ignored: int,
    smoothing: float,
    softcap: float,
) -> tuple[Tensor, Tensor]:
    tensors = _tensors(x, weight, target)
    tensors |= {"lse": lse.reshape(-1), "dloss": dloss.reshape(-1).contiguous()}
    settings = _settings(weight, ignored, smoothing, softcap)
    found = KERNELS(family.BACKWARD, tensors, settings)
    return found["dx"].view(x.shape), found["dweight"]


ROWS = operator(
    "linear_cross_entropy_rows",
    f"(Tensor x, Tensor weight, Tensor target, {_SETTINGS}) -> (Tensor, Tensor)",
    _rows,
    _rows_fake,
)
GRADIENTS = operator(
    "linear_cross_entropy_backward",
    f"(Tensor dloss, Tensor x, Tensor weight, Tensor target, Tensor lse, {_SETTINGS}) "
    "-> (Tensor, Tensor)",
    _gradients,
    lambda dloss, x, weight, *_: (like(x), like(weight)),
)


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    *tensors, ctx.ignored, ctx.smoothing, ctx.softcap = inputs
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(*tensors, output[1])


def _differentiate(ctx: Any, dloss: Tensor, _dlse: Tensor) -> Any:
    found = GRADIENTS(dloss, *ctx.saved_tensors, ctx.ignored, ctx.smoothing, ctx.softcap)
    return (*found, None, None, None, None)


ROWS.register_autograd(_differentiate, setup_context=_setup)


def linear_cross_entropy(
    x: Tensor,
    weight: Tensor,
    target: Tensor,
    reduction: str = "mean",
    ignore_index: int = code.IGNORED,
    label_smoothing: float = 0.0,
    softcap: float = 0.0,
) -> Tensor:
    """Compute the loss by the operator for rows and torch's own, which have the gradient."""
    if reduction not in REDUCTIONS:
        raise PerfcliError(f"reduction is {', '.join(REDUCTIONS)}, not {reduction!r}")
    if torch.is_autocast_enabled(x.device.type):  # as a linear layer, whose work it does
        dtype = torch.get_autocast_dtype(x.device.type)
        x, weight = x.to(dtype), weight.to(dtype)
    losses: Tensor = torch.ops.perfcli.linear_cross_entropy_rows(
        x, weight, target, ignore_index, label_smoothing, softcap
    )[0]
    if reduction == "none":
        return losses
    if reduction == "sum":
        return losses.sum()
    return losses.sum() / (target != ignore_index).sum()


_NAME = "linear_cross_entropy"
torch.library.define(f"{NAMESPACE}::{_NAME}", SCHEMAS[_NAME])
torch.library.impl(f"{NAMESPACE}::{_NAME}", "CompositeImplicitAutograd", linear_cross_entropy)
