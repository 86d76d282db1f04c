"""Softmax, its logarithm, cross-entropy and their gradients in torch: inputs, float64 references,
and what a user would write."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor
from torch.nn import functional as F

from perfcli.model import Problem

from ._softmax_choice import BACKWARD, LOSS

IGNORED = -100
"""The target whose loss and gradient are 0, as in torch."""
Tensors = Mapping[str, Tensor]


def inputs(problem: Problem, device: str, seed: int) -> dict[str, Tensor]:
    """Standard normal ``x`` and ``dy`` and what a forward would have saved; random targets, of
    which every seventh is ignored."""
    generator = torch.Generator(device).manual_seed(seed)
    x = normal(problem, device, generator)
    if problem.operation.startswith(LOSS):
        return loss_inputs(problem, x, generator)
    if problem.operation not in BACKWARD:
        return {"x": x}
    forward = torch.softmax if problem.operation == "softmax-backward" else torch.log_softmax
    for first in range(0, problem.rows, 1024):  # in place: the inputs alone fill the largest GPUs
        piece = x[first : first + 1024]
        piece.copy_(forward(piece.float(), -1))
    return {"y": x, "dy": normal(problem, device, generator)}


def normal(problem: Problem, device: str, generator: torch.Generator) -> Tensor:
    """Rows ``problem.stride`` elements apart, with NaN between them, which nobody may read."""
    dtype = getattr(torch, problem.dtype)
    memory = torch.full((problem.rows, problem.stride), float("nan"), dtype=dtype, device=device)
    x = memory[:, : problem.columns]
    return x.normal_(generator=generator)


def loss_inputs(problem: Problem, x: Tensor, generator: torch.Generator) -> dict[str, Tensor]:
    rows, device = (problem.rows,), x.device
    target = torch.randint(0, max(problem.columns, 1), rows, generator=generator, device=device)
    target[3::7] = IGNORED
    if problem.operation == LOSS:
        return {"x": x, "target": target}
    lse = torch.empty(rows, device=device)
    for first in range(0, problem.rows, 1024):
        lse[first : first + 1024] = torch.logsumexp(x[first : first + 1024].float(), -1)
    dloss = torch.randn(rows, generator=generator, device=device)
    return {"x": x, "target": target, "lse": lse, "dloss": dloss}


# --- references, in float64 -----------------------------------------------------------------------


def reference(problem: Problem, tensors: Tensors) -> dict[str, Tensor]:
    """The definitions, one after the other; ``lse`` of a row with +∞ is NaN, as its gradient is."""
    exact = {n: t.double() if t.is_floating_point() else t for n, t in tensors.items()}
    return _REFERENCES[problem.operation](exact)


def _above(x: Tensor) -> Tensor:
    return x - x.amax(-1, keepdim=True) if x.numel() else x


def _softmax(t: Tensors) -> dict[str, Tensor]:
    weights = _above(t["x"]).exp_()
    return {"y": weights.div_(weights.sum(-1, keepdim=True))}


def _log_softmax(t: Tensors) -> dict[str, Tensor]:
    above = _above(t["x"])
    return {"y": above - above.exp().sum(-1, keepdim=True).log()}


def _cross_entropy(t: Tensors) -> dict[str, Tensor]:
    x, target = t["x"], t["target"]
    counts = target != IGNORED
    lse = torch.logsumexp(x, -1)
    lse = torch.where((x == float("inf")).any(-1), float("nan"), lse)
    logit = x.gather(1, torch.where(counts, target, 0)[:, None])[:, 0]
    return {"loss": torch.where(counts, lse - logit, 0.0), "lse": lse}


def _softmax_backward(t: Tensors) -> dict[str, Tensor]:
    total = (t["y"] * t["dy"]).sum(-1, keepdim=True)
    return {"dx": t["y"] * (t["dy"] - total)}


def _log_softmax_backward(t: Tensors) -> dict[str, Tensor]:
    return {"dx": t["dy"] - t["y"].exp() * t["dy"].sum(-1, keepdim=True)}


def _cross_entropy_backward(t: Tensors) -> dict[str, Tensor]:
    counts = t["target"] != IGNORED
    dx = (t["x"] - t["lse"][:, None]).exp_()
    rows = torch.arange(len(dx), device=dx.device)
    dx[rows, torch.where(counts, t["target"], 0)] -= 1.0
    dx *= t["dloss"][:, None]
    return {"dx": torch.where(counts[:, None], dx, 0.0)}


_REFERENCES: Mapping[str, Callable[[Tensors], dict[str, Tensor]]] = {
    "softmax": _softmax,
    "log-softmax": _log_softmax,
    "cross-entropy": _cross_entropy,
    "softmax-backward": _softmax_backward,
    "log-softmax-backward": _log_softmax_backward,
    "cross-entropy-backward": _cross_entropy_backward,
}


# --- as a user writes it --------------------------------------------------------------------------


def eager(problem: Problem, tensors: Tensors) -> dict[str, Tensor]:
    """By torch's own operators. Gradients are written out, as autograd would call them."""
    return _EAGER[problem.operation](tensors)


def _eager_cross_entropy(t: Tensors) -> dict[str, Tensor]:
    x = t["x"].float()
    loss = F.cross_entropy(x, t["target"], ignore_index=IGNORED, reduction="none")
    return {"loss": loss, "lse": torch.logsumexp(x, -1)}


def _eager_softmax_backward(t: Tensors) -> dict[str, Tensor]:
    y, dy = t["y"], t["dy"]
    return {"dx": torch.ops.aten._softmax_backward_data(dy, y, -1, y.dtype)}


def _eager_log_softmax_backward(t: Tensors) -> dict[str, Tensor]:
    y, dy = t["y"], t["dy"]
    return {"dx": torch.ops.aten._log_softmax_backward_data(dy, y, -1, y.dtype)}


def _eager_cross_entropy_backward(t: Tensors) -> dict[str, Tensor]:
    x, counts = t["x"], t["target"] != IGNORED
    columns = torch.arange(x.shape[1], device=x.device)
    chances = (x.float() - t["lse"][:, None]).exp()
    chances = chances - (columns == t["target"][:, None]).float()
    return {"dx": torch.where(counts[:, None], chances * t["dloss"][:, None], 0.0).to(x.dtype)}


_EAGER: Mapping[str, Callable[[Tensors], dict[str, Tensor]]] = {
    "softmax": lambda t: {"y": torch.softmax(t["x"], -1)},
    "log-softmax": lambda t: {"y": torch.log_softmax(t["x"], -1)},
    "cross-entropy": _eager_cross_entropy,
    "softmax-backward": _eager_softmax_backward,
    "log-softmax-backward": _eager_log_softmax_backward,
    "cross-entropy-backward": _eager_cross_entropy_backward,
}
