"""Runs the torch side of the softmax family: inputs, references, and how a plan runs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from perfcli.errors import PerfcliError
from perfcli.model import LaunchPlan, Problem

from .. import _launching, _words
from .._elements import VECTOR_BYTES
from . import backward, cached, looped, shared, split, tiled
from .choice import (
    BACKWARD,
    LOSS,
    LOSS_GRADIENT,
    TELLING,
    _padded_count,
)

IGNORED = -100
"""The target whose loss and gradient are 0, as in torch."""
Tensors = Mapping[str, Tensor]


def inputs(problem: Problem, device: str, seed: int) -> dict[str, Tensor]:
    """Return standard normal ``x`` and ``dy`` and what a forward would have saved; random targets,
    of which every seventh is ignored."""
    generator = torch.Generator(device).manual_seed(seed)
    x = normal(problem, device, generator)
    if problem.operation.startswith(LOSS):
        return _loss_inputs(problem, x, generator)
    if problem.operation not in BACKWARD:
        return {"x": x}
    forward = torch.softmax if problem.operation == "softmax-backward" else torch.log_softmax
    for first in range(0, problem.rows, 1024):  # in place: the inputs alone fill the largest GPUs
        piece = x[first : first + 1024]
        piece.copy_(forward(piece.float(), -1))
    return {"y": x, "dy": normal(problem, device, generator)}


def normal(problem: Problem, device: str, generator: torch.Generator) -> Tensor:
    """Return rows ``problem.stride`` elements apart, with NaN between them, which nobody may
    read."""
    dtype = getattr(torch, problem.dtype)
    memory = torch.full((problem.rows, problem.stride), float("nan"), dtype=dtype, device=device)
    x = memory[:, : problem.columns]
    return x.normal_(generator=generator)


def _loss_inputs(problem: Problem, x: Tensor, generator: torch.Generator) -> dict[str, Tensor]:
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
    """Compute the definitions, one after the other; ``lse`` of a row with +∞ is NaN, as its
    gradient is."""
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
    above = _above(x)  # of the lowest numbers, lse and logit would be the same
    logit = above.gather(1, torch.where(counts, target, 0)[:, None])[:, 0]
    loss = above.exp_().sum(-1).log_() - logit
    return {"loss": torch.where(counts, loss, 0.0), "lse": lse}


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
    """Compute the outputs by torch's own operators. Gradients are written out, as autograd would
    call them."""
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


__all__ = ["eager", "function", "inputs", "reference", "run"]

_IN_WORDS = {"FULL", "PEEL"}
"""Constants of the kernels that load words."""
_FILES = (_words, looped, cached, tiled, shared, split, backward)


def run(problem: Problem, tensors: Mapping[str, Tensor], plan: LaunchPlan) -> dict[str, Tensor]:
    """Return the outputs by the plan. An output has no gaps; it begins at an address that is
    congruent to the input's modulo 16, as the peeled kernels want it.

    Raises:
        PerfcliError: tensors of another shape, dtype or layout than the plan's.
    """
    _check_tensors(problem, tensors)
    plan = _launching.runnable(plan)
    in_words = [each.constants for each in plan.launches if each.constants.keys() >= _IN_WORDS]
    if plan.variant == "cluster" or any(not constants["PEEL"] for constants in in_words):
        moved = {n: _launching.at_a_vector(tensors[n]) for n in ("x", "y", "dy") if n in tensors}
        tensors = {**tensors, **moved}
    main = tensors["dy"] if "dy" in tensors else tensors["x"]
    outputs = _outputs_of(problem, main)
    values = {
        **{f"{name}_ptr": tensor for name, tensor in {**tensors, **outputs}.items()},
        **_sizes_of(problem),
        **_workspace_of(problem, plan, main),
    }
    if "y" in tensors:
        values["y_ptr"] = _congruent_to(main, tensors["y"])
    _launching.launch(sys.modules[__name__], plan, values)
    return outputs


def _sizes_of(problem: Problem) -> dict[str, int]:
    return {
        "rows": problem.rows,
        "columns": problem.columns,
        "ignored": IGNORED,
        "x_stride": problem.stride,
        "saved_stride": problem.stride,
        "dy_stride": problem.stride,
        "y_stride": problem.columns,
        "dx_stride": problem.columns,
    }


def _outputs_of(problem: Problem, like: Tensor) -> dict[str, Tensor]:
    if problem.operation == LOSS:
        return {name: like.new_empty(problem.rows, dtype=torch.float32) for name in ("loss", "lse")}
    name = "dx" if problem.operation in BACKWARD else "y"
    return {name: _aligned_as(like, (problem.rows, problem.columns))}


def _aligned_as(like: Tensor, shape: tuple[int, int]) -> Tensor:
    """Return new memory without gaps, at an address congruent to ``like``'s modulo 16."""
    beyond = like.data_ptr() % VECTOR_BYTES // like.element_size()
    memory = like.new_empty(shape[0] * shape[1] + beyond)
    return memory[beyond:].view(shape)


def _congruent_to(like: Tensor, other: Tensor) -> Tensor:
    """Return ``other``, or a copy of it with the same strides, at an address congruent to
    ``like``'s."""
    if (other.data_ptr() - like.data_ptr()) % VECTOR_BYTES == 0:
        return other
    beyond = like.data_ptr() % VECTOR_BYTES // like.element_size()
    memory = other.new_empty(other.shape[0] * other.stride(0) + beyond)
    return torch.as_strided(memory, other.shape, other.stride(), beyond).copy_(other)


def _workspace_of(problem: Problem, plan: LaunchPlan, like: Tensor) -> dict[str, Any]:
    """Return the statistics of chunks, then of whole rows; or a word per chunk."""
    cut = next((each.constants["CHUNK"] for each in plan.launches if "CHUNK" in each.constants), 0)
    if not cut or problem.operation == LOSS_GRADIENT:
        return {}
    chunks = -(-problem.columns // int(str(cut)))
    if plan.variant in TELLING:
        items = problem.rows * chunks
        words = like.new_empty(items, dtype=torch.int64)
        counts = {"items": items, "word_count": items, "chunks": chunks}
        return {**counts, "words": words}
    names = ("sums_ptr",) if problem.operation in BACKWARD else ("peaks_ptr", "totals_ptr")
    room = statistics(like, len(names), problem.rows * (chunks + 1))
    given = dict(zip(names, room, strict=True))
    return {"items": problem.rows * chunks, "chunks": chunks, **given}


def statistics(like: Tensor, arrays: int, count: int) -> Tensor:
    """Return new float32 numbers, each array at a multiple of 16 bytes, as plans say of all
    pointers."""
    return like.new_empty((arrays, _padded_count(count)), dtype=torch.float32)[:, :count]


def _check_tensors(problem: Problem, tensors: Mapping[str, Tensor]) -> None:
    for name, tensor in tensors.items():
        if name in ("x", "y", "dy"):
            _check_matrix(problem, name, tensor)
        elif tuple(tensor.shape) != (problem.rows,) or not tensor.is_contiguous():
            raise PerfcliError(
                f"expected {problem.rows} numbers without gaps for {name}, found shape "
                f"{tuple(tensor.shape)}, strides {tensor.stride()}"
            )


def _check_matrix(problem: Problem, name: str, tensor: Tensor) -> None:
    shape = (problem.rows, problem.columns)
    if tuple(tensor.shape) != shape or tensor.dtype != getattr(torch, problem.dtype):
        raise PerfcliError(
            f"expected {shape} {problem.dtype} for {name}, found {tuple(tensor.shape)} "
            f"{str(tensor.dtype).removeprefix('torch.')}"
        )
    rows_lie_well = problem.rows < 2 or tensor.stride(0) == problem.stride
    columns_lie_well = problem.columns < 2 or tensor.stride(1) == 1
    if tensor.numel() and not (rows_lie_well and columns_lie_well):
        raise PerfcliError(
            f"expected {name} with strides ({problem.stride}, 1), found {tensor.stride()}: call "
            "contiguous() first"
        )


def function(name: str) -> Any:
    """Return the ``@triton.jit`` or ``@gluon.jit`` function of that name."""
    if name.endswith("_cluster"):
        return getattr(import_module(".cluster", __package__), name)
    return next(getattr(file, name) for file in _FILES if hasattr(file, name))
