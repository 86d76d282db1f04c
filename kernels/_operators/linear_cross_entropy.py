"""Defines ``linear_cross_entropy`` of rows, a matrix of classes and targets: the cross-entropy of
``x @ weight.T``, whose logits are never stored; with its gradients.

The losses are float32, as those of ``cross_entropy``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from perfcli.errors import PerfcliError

from .. import linear_cross_entropy
from ..linear_cross_entropy import code
from ..linear_cross_entropy.plan import BACKWARD, FORWARD
from .calls import FamilyKernels, as_rows, like, operator
from .reduction import check_reduction, fake_losses, reduce_losses, spread_gradient

_ARGUMENTS = (
    "(Tensor x, Tensor weight, Tensor target, str reduction='mean', int ignore_index=-100, "
    "float label_smoothing=0.0, float softcap=0.0)"
)
SCHEMAS = {"linear_cross_entropy": f"{_ARGUMENTS} -> Tensor"}
KERNELS = FamilyKernels(linear_cross_entropy.FAMILY, code)


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


def _compute(
    x: Tensor,
    weight: Tensor,
    target: Tensor,
    reduction: str = "mean",
    ignore_index: int = code.IGNORED,
    label_smoothing: float = 0.0,
    softcap: float = 0.0,
) -> tuple[Tensor, Tensor, Tensor]:
    check_reduction(reduction)
    tensors = _tensors(x, weight, target)
    settings = _settings(weight, ignore_index, label_smoothing, softcap)
    found = KERNELS(FORWARD, tensors, settings | {"reduction": reduction})
    lse = found["lse"].view(target.shape)
    if reduction == "none":
        return found["loss"].view(target.shape), lse, x.new_empty(0, dtype=torch.float32)
    if "total" in found:
        return found["total"], lse, found["scale"]
    mean = reduction == "mean"
    loss, scale = reduce_losses(found["loss"], tensors["target"], ignore_index, mean)
    return loss, lse, scale


def _gradients(
    dloss: Tensor,
    x: Tensor,
    weight: Tensor,
    target: Tensor,
    lse: Tensor,
    scale: Tensor,
    ignored: int,
    smoothing: float,
    softcap: float,
) -> tuple[Tensor, Tensor]:
    tensors = _tensors(x, weight, target)
    tensors |= {"lse": lse.reshape(-1), "dloss": spread_gradient(dloss, scale, target.numel())}
    settings = _settings(weight, ignored, smoothing, softcap)
    found = KERNELS(BACKWARD, tensors, settings)
    return found["dx"].view(x.shape), found["dweight"]


PARTS = operator(
    "linear_cross_entropy_parts",
    f"{_ARGUMENTS} -> (Tensor, Tensor, Tensor)",
    _compute,
    lambda x, _, target, reduction="mean", *_rest: fake_losses(x, target, reduction),
)
GRADIENTS = operator(
    "linear_cross_entropy_backward",
    "(Tensor dloss, Tensor x, Tensor weight, Tensor target, Tensor lse, Tensor scale, int ignored, "
    "float smoothing, float softcap) -> (Tensor, Tensor)",
    _gradients,
    lambda dloss, x, weight, *_: (like(x), like(weight)),
)


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    x, weight, target, _, *ctx.settings = inputs
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(x, weight, target, *output[1:])


def _differentiate(ctx: Any, dloss: Tensor | None, *_: None) -> Any:
    if dloss is None:
        return (None,) * 7
    return (*GRADIENTS.call(dloss, *ctx.saved_tensors, *ctx.settings), *(None,) * 5)


def _cast(x: Tensor, weight: Tensor, *others: Any) -> Sequence[Any]:
    """Cast as autocast does for a linear layer, whose work this is."""
    if torch.is_autocast_enabled(x.device.type):
        dtype = torch.get_autocast_dtype(x.device.type)
        return x.to(dtype), weight.to(dtype), *others
    return x, weight, *others


PARTS.register_autograd(_differentiate, setup_context=_setup, constant=1)
CALLS = {name: PARTS.define_first(name, schema, cast=_cast) for name, schema in SCHEMAS.items()}
