"""Defines ``cross_entropy`` of logits (…, classes) and targets (…), with its gradient.

The losses are float32 whatever the logits are; a target of −100 counts nothing, as in torch. An
operator of its own gives also what the gradient needs: each row's logarithm of its sum of
exponentials, and what the losses' sum was multiplied by.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from perfcli.errors import PerfcliError

from ..softmax.code import IGNORED
from .calls import as_rows, like, operator
from .reduction import check_reduction, fake_losses, reduce_losses, spread_gradient
from .softmax import KERNELS

SCHEMAS = {"cross_entropy": "(Tensor x, Tensor target, str reduction='mean') -> Tensor"}


def _compute(x: Tensor, target: Tensor, reduction: str = "mean") -> tuple[Tensor, Tensor, Tensor]:
    _check(x, target, reduction)
    targets = target.reshape(-1).contiguous()
    found = KERNELS("cross-entropy", {"x": as_rows("x", x), "target": targets}, {})
    lse = found["lse"].view(target.shape)
    if reduction == "none":
        return found["loss"].view(target.shape), lse, x.new_empty(0, dtype=torch.float32)
    loss, scale = reduce_losses(found["loss"], targets, IGNORED, reduction == "mean")
    return loss, lse, scale


def _check(x: Tensor, target: Tensor, reduction: str) -> None:
    check_reduction(reduction)
    if target.shape != x.shape[:-1] or target.dtype != torch.int64:
        raise PerfcliError(
            f"expected int64 targets of shape {tuple(x.shape[:-1])} for logits of "
            f"{tuple(x.shape)}, found {target.dtype} of {tuple(target.shape)}"
        )


def _fake(x: Tensor, target: Tensor, reduction: str = "mean") -> tuple[Tensor, Tensor, Tensor]:
    _check(x, target, reduction)
    return fake_losses(x, target, reduction)


def _gradient(dloss: Tensor, x: Tensor, target: Tensor, lse: Tensor, scale: Tensor) -> Tensor:
    tensors = {
        "x": as_rows("x", x),
        "target": target.reshape(-1).contiguous(),
        "lse": lse.reshape(-1).contiguous(),
        "dloss": spread_gradient(dloss, scale, target.numel()),
    }
    return KERNELS("cross-entropy-backward", tensors, {})["dx"].view(x.shape)


PARTS = operator(
    "cross_entropy_parts",
    "(Tensor x, Tensor target, str reduction='mean') -> (Tensor, Tensor, Tensor)",
    _compute,
    _fake,
)
GRADIENT = operator(
    "cross_entropy_backward",
    "(Tensor dloss, Tensor x, Tensor target, Tensor lse, Tensor scale) -> Tensor",
    _gradient,
    lambda dloss, x, target, lse, scale: like(x),
)


def _setup(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, ...]) -> None:
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*inputs[:2], *output[1:])


def _differentiate(ctx: Any, dloss: Tensor | None, *_others: None) -> Any:
    if dloss is None:
        return None, None, None
    return GRADIENT.call(dloss, *ctx.saved_tensors), None, None


PARTS.register_autograd(_differentiate, setup_context=_setup, constant=1)
CALLS = {"cross_entropy": PARTS.define_first("cross_entropy", SCHEMAS["cross_entropy"])}
