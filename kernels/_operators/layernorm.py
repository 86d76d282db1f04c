"""Defines ``layer_norm`` over the last dimension, and of a sum, ``layer_norm_residual``; with their
gradients.

The backward takes each row's mean and 1 / deviation, in float32, which ``native_layer_norm`` and
``layer_norm_residual`` return, too, as ``torch.native_layer_norm`` does.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .. import layernorm
from .._norms import code
from .calls import FamilyKernels, as_rows, like, operator

SCHEMAS = {
    "layer_norm": "(Tensor x, Tensor weight, Tensor bias, float eps=1e-5) -> Tensor",
    "native_layer_norm": "(Tensor x, Tensor weight, Tensor bias, float eps=1e-5) "
    "-> (Tensor, Tensor, Tensor)",
    "layer_norm_residual": "(Tensor x, Tensor residual, Tensor weight, Tensor bias, "
    "float eps=1e-5) -> (Tensor, Tensor, Tensor, Tensor)",
}
KERNELS = FamilyKernels(layernorm.FAMILY, code)


def _plain(
    x: Tensor, weight: Tensor, bias: Tensor, eps: float = 1e-5
) -> tuple[Tensor, Tensor, Tensor]:
    tensors = {
        "x": as_rows("x", x),
        "weight": weight.contiguous(),
        "bias": bias.contiguous(),
    }
    found = KERNELS("layernorm", tensors, {"eps": eps})
    rows = x.shape[:-1]
    return found["y"].view(x.shape), found["mean"].view(rows), found["rstd"].view(rows)


def _residual(
    x: Tensor, residual: Tensor, weight: Tensor, bias: Tensor, eps: float = 1e-5
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    tensors = {
        "x": as_rows("x", x.contiguous()),
        "weight": weight.contiguous(),
        "bias": bias.contiguous(),
        "residual": as_rows("residual", residual.contiguous()),
    }
    found = KERNELS("layernorm-residual", tensors, {"eps": eps})
    shape, rows = x.shape, x.shape[:-1]
    statistics = found["mean"].view(rows), found["rstd"].view(rows)
    return found["y"].view(shape), found["sum"].view(shape), *statistics


def _gradient(
    dy: Tensor, x: Tensor, weight: Tensor, mean: Tensor, rstd: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    tensors = {
        "x": as_rows("x", x.contiguous()),
        "weight": weight.contiguous(),
        "dy": as_rows("dy", dy.contiguous()),
        "mean": mean.reshape(-1),
        "rstd": rstd.reshape(-1),
    }
    found = KERNELS("layernorm-backward", tensors, {})
    return found["dx"].view(x.shape), found["dw"], found["db"]


def _residual_gradient(
    dy: Tensor, dsum: Tensor, total: Tensor, weight: Tensor, mean: Tensor, rstd: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    tensors = {
        "x": as_rows("x", total.contiguous()),
        "weight": weight.contiguous(),
        "dy": as_rows("dy", dy.contiguous()),
        "dsum": as_rows("dsum", dsum.contiguous()),
        "mean": mean.reshape(-1),
        "rstd": rstd.reshape(-1),
    }
    found = KERNELS("layernorm-residual-backward", tensors, {})
    return found["dx"].view(total.shape), found["dw"], found["db"]


def _statistics(x: Tensor) -> tuple[Tensor, Tensor]:
    mean = x.new_empty(x.shape[:-1], dtype=torch.float32)
    return mean, torch.empty_like(mean)


PLAIN = operator(
    "native_layer_norm",
    SCHEMAS["native_layer_norm"],
    _plain,
    lambda x, weight, bias, eps=1e-5: (like(x), *_statistics(x)),
)
PLAIN_GRADIENT = operator(
    "layer_norm_backward",
    "(Tensor dy, Tensor x, Tensor weight, Tensor mean, Tensor rstd) -> (Tensor, Tensor, Tensor)",
    _gradient,
    lambda dy, x, weight, mean, rstd: (like(x), like(weight), like(weight)),
)
RESIDUAL = operator(
    "layer_norm_residual",
    SCHEMAS["layer_norm_residual"],
    _residual,
    lambda x, residual, weight, bias, eps=1e-5: (like(x), like(x), *_statistics(x)),
)
RESIDUAL_GRADIENT = operator(
    "layer_norm_residual_backward",
    "(Tensor dy, Tensor dsum, Tensor total, Tensor weight, Tensor mean, Tensor rstd) "
    "-> (Tensor, Tensor, Tensor)",
    _residual_gradient,
    lambda dy, dsum, total, weight, mean, rstd: (like(total), like(weight), like(weight)),
)


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    x, weight, _, _ = inputs
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(x, weight, *output[1:])


def _differentiate(ctx: Any, dy: Tensor | None, *_: Any) -> Any:
    if dy is None:
        return None, None, None, None
    return *PLAIN_GRADIENT.call(dy, *ctx.saved_tensors), None


def _residual_setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(output[1], inputs[2], *output[2:])


def _residual_differentiate(ctx: Any, dy: Tensor | None, dsum: Tensor | None, *_: Any) -> Any:
    if dy is None:
        return dsum, dsum, None, None, None
    if dsum is None:
        dx, dw, db = PLAIN_GRADIENT.call(dy, *ctx.saved_tensors)
    else:
        dx, dw, db = RESIDUAL_GRADIENT.call(dy, dsum, *ctx.saved_tensors)
    return dx, dx, dw, db, None


PLAIN.register_autograd(_differentiate, setup_context=_setup, constant=1)
RESIDUAL.register_autograd(_residual_differentiate, setup_context=_residual_setup, constant=2)
CALLS = {
    "layer_norm": PLAIN.define_first("layer_norm", SCHEMAS["layer_norm"]),
    "native_layer_norm": PLAIN.call,
    "layer_norm_residual": RESIDUAL.call,
}
for _each in (PLAIN, RESIDUAL):
    _each.register_autocast(torch.float32)
