"""Defines ``softmax`` and ``log_softmax`` over the last dimension, with their gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .. import softmax
from ..softmax import code
from .calls import FamilyKernels, as_rows, like, operator

SCHEMAS = {"softmax": "(Tensor x) -> Tensor", "log_softmax": "(Tensor x) -> Tensor"}
_BACKWARD = "(Tensor dy, Tensor y) -> Tensor"
KERNELS = FamilyKernels(softmax.FAMILY, code)


def _forward(operation: str) -> Callable[[Tensor], Tensor]:
    def forward(x: Tensor) -> Tensor:
        return KERNELS(operation, {"x": as_rows("x", x)}, {})["y"].view(x.shape)

    return forward


def _gradient(operation: str) -> Callable[[Tensor, Tensor], Tensor]:
    def gradient(dy: Tensor, y: Tensor) -> Tensor:
        rows = {"y": as_rows("y", y.contiguous()), "dy": as_rows("dy", dy.contiguous())}
        return KERNELS(operation, rows, {})["dx"].view(y.shape)

    return gradient


def _define(name: str, operation: str) -> Callable[..., Any]:
    backward = operator(
        f"{name}_backward", _BACKWARD, _gradient(f"{operation}-backward"), lambda dy, y: like(y)
    )
    forward = operator(name, SCHEMAS[name], _forward(operation), like)

    def setup(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(output)

    def differentiate(ctx: Any, dy: Tensor) -> Any:
        (y,) = ctx.saved_tensors
        return backward.call(dy, y)

    forward.register_autograd(differentiate, setup_context=setup)
    forward.register_autocast(torch.float32)
    return forward.call


CALLS = {
    "softmax": _define("softmax", "softmax"),
    "log_softmax": _define("log_softmax", "log-softmax"),
}
