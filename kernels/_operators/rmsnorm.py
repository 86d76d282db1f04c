"""Defines ``rms_norm`` over the last dimension, and of a sum, ``rms_norm_residual``; with their
gradients.

The backward computes each row's scale again, so that nothing but the inputs is kept for it.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .. import rmsnorm
from .._norms import code
from .calls import FamilyKernels, as_rows, like, operator

SCHEMAS = {
    "rms_norm": "(Tensor x, Tensor weight, float eps=1e-6) -> Tensor",
    "rms_norm_residual": "(Tensor x, Tensor residual, Tensor weight, float eps=1e-6) "
    "-> (Tensor, Tensor)",
}
KERNELS = FamilyKernels(rmsnorm.FAMILY, code)


def _plain(x: Tensor, weight: Tensor, eps: float = 1e-6) -> Tensor:
    tensors = {"x": as_rows("x", x), "weight": weight.contiguous()}
    return KERNELS("rmsnorm", tensors, {"eps": eps})["y"].view(x.shape)


def _plain_gradient(dy: Tensor, x: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    tensors = {
        "x": as_rows("x", x.contiguous()),
        "weight": weight.contiguous(),
        "dy": as_rows("dy", dy.contiguous()),
    }
    found = KERNELS("rmsnorm-backward", tensors, {"eps": eps})
    return found["dx"].view(x.shape), found["dw"]


def _residual(
    x: Tensor, residual: Tensor, weight: Tensor, eps: float = 1e-6
) -> tuple[Tensor, Tensor]:
    tensors = {
        "x": as_rows("x", x.contiguous()),
        "weight": weight.contiguous(),
        "residual": as_rows("residual", residual.contiguous()),
    }
    found = KERNELS("rmsnorm-residual", tensors, {"eps": eps})
    return found["y"].view(x.shape), found["sum"].view(x.shape)


def _residual_gradient(
    dy: Tensor, dsum: Tensor, total: Tensor, weight: Tensor, eps: float
) -> tuple[Tensor, Tensor]:
    tensors = {
        "x": as_rows("x", total.contiguous()),
        "weight": weight.contiguous(),
        "dy": as_rows("dy", dy.contiguous()),
        "dsum": as_rows("dsum", dsum.contiguous()),
    }
    found = KERNELS("rmsnorm-residual-backward", tensors, {"eps": eps})
    return found["dx"].view(total.shape), found["dw"]


PLAIN = operator("rms_norm", SCHEMAS["rms_norm"], _plain, lambda x, weight, eps=1e-6: like(x))
PLAIN_GRADIENT = operator(
    "rms_norm_backward",
    "(Tensor dy, Tensor x, Tensor weight, float eps) -> (Tensor, Tensor)",
    _plain_gradient,
    lambda dy, x, weight, eps: (like(x), like(weight)),
)
RESIDUAL = operator(
    "rms_norm_residual",
    SCHEMAS["rms_norm_residual"],
    _residual,
    lambda x, residual, weight, eps=1e-6: (like(x), like(x)),
)
RESIDUAL_GRADIENT = operator(
    "rms_norm_residual_backward",
    "(Tensor dy, Tensor dsum, Tensor total, Tensor weight, float eps) -> (Tensor, Tensor)",
    _residual_gradient,
    lambda dy, dsum, total, weight, eps: (like(total), like(weight)),
)


def _setup(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    *tensors, ctx.eps = inputs
    ctx.save_for_backward(*tensors)


def _differentiate(ctx: Any, dy: Tensor) -> Any:
    dx, dw = PLAIN_GRADIENT.call(dy, *ctx.saved_tensors, ctx.eps)
    return dx, dw, None


def _residual_setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    _, _, weight, ctx.eps = inputs
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(output[1], weight)


def _residual_differentiate(ctx: Any, dy: Tensor | None, dsum: Tensor | None) -> Any:
    if dy is None:
        return dsum, dsum, None, None
    if dsum is None:
        dx, dw = PLAIN_GRADIENT.call(dy, *ctx.saved_tensors, ctx.eps)
    else:
        dx, dw = RESIDUAL_GRADIENT.call(dy, dsum, *ctx.saved_tensors, ctx.eps)
    return dx, dx, dw, None


for _each in (PLAIN, RESIDUAL):
    _each.register_autocast(torch.float32)
PLAIN.register_autograd(_differentiate, setup_context=_setup)
RESIDUAL.register_autograd(_residual_differentiate, setup_context=_residual_setup)
CALLS = {"rms_norm": PLAIN.call, "rms_norm_residual": RESIDUAL.call}
