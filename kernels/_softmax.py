"""The torch side of the softmax family: inputs, references, and how a plan runs."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from perfcli.errors import PerfcliError
from perfcli.model import LaunchPlan, Problem

from . import (
    _launching,
    _softmax_backward,
    _softmax_cached,
    _softmax_cached_backward,
    _softmax_cooperative,
    _softmax_held,
    _softmax_looped,
    _softmax_split,
    _softmax_split_backward,
    _softmax_streamed,
)
from ._softmax_choice import (
    BACKWARD,
    LOSS,
    LOSS_GRADIENT,
    TELLING,
    VECTOR_BYTES,
    padded_count,
)
from ._softmax_torch import IGNORED, eager, inputs, reference

__all__ = ["eager", "function", "inputs", "reference", "run"]

_FILES = (
    _softmax_looped,
    _softmax_cached,
    _softmax_held,
    _softmax_cooperative,
    _softmax_split,
    _softmax_backward,
    _softmax_cached_backward,
    _softmax_split_backward,
    _softmax_streamed,
)


def run(problem: Problem, tensors: Mapping[str, Tensor], plan: LaunchPlan) -> dict[str, Tensor]:
    """The outputs by the plan. An output has no gaps; it begins at an address that is congruent
    to the input's modulo 16, as the peeled kernels want it.

    Raises:
        PerfcliError: tensors of another shape, dtype or layout than the plan's.
    """
    check_tensors(problem, tensors)
    if plan.variant == "streamed" and tensors["x"].data_ptr() % VECTOR_BYTES:
        tensors = {"x": at_a_vector(tensors["x"])}
    main = tensors["dy"] if "dy" in tensors else tensors["x"]
    outputs = outputs_of(problem, main)
    values = {
        **{f"{name}_ptr": tensor for name, tensor in {**tensors, **outputs}.items()},
        **sizes_of(problem),
        **workspace_of(problem, plan, main),
    }
    if "y" in tensors:
        values["y_ptr"] = congruent_to(main, tensors["y"])
    _launching.launch(sys.modules[__name__], plan, values)
    return outputs


def sizes_of(problem: Problem) -> dict[str, int]:
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


def outputs_of(problem: Problem, like: Tensor) -> dict[str, Tensor]:
    if problem.operation == LOSS:
        loss, lse = statistics(like, 2, problem.rows)
        return {"loss": loss, "lse": lse}
    name = "dx" if problem.operation in BACKWARD else "y"
    return {name: aligned_as(like, (problem.rows, problem.columns))}


def aligned_as(like: Tensor, shape: tuple[int, int]) -> Tensor:
    """New memory without gaps, at an address congruent to ``like``'s modulo 16."""
    beyond = like.data_ptr() % VECTOR_BYTES // like.element_size()
    memory = like.new_empty(shape[0] * shape[1] + beyond)
    return memory[beyond:].view(shape)


def at_a_vector(x: Tensor) -> Tensor:
    """A copy with the same strides at a multiple of 16 bytes: the plan does not see addresses, and
    pairs of halves cannot be loaded from all of them."""
    memory = x.new_empty((x.shape[0] - 1) * x.stride(0) + x.shape[1])
    return torch.as_strided(memory, x.shape, x.stride(), 0).copy_(x)


def congruent_to(like: Tensor, other: Tensor) -> Tensor:
    """``other``, or a copy of it with the same strides, at an address congruent to ``like``'s."""
    if (other.data_ptr() - like.data_ptr()) % VECTOR_BYTES == 0:
        return other
    beyond = like.data_ptr() % VECTOR_BYTES // like.element_size()
    memory = other.new_empty(other.shape[0] * other.stride(0) + beyond)
    return torch.as_strided(memory, other.shape, other.stride(), beyond).copy_(other)


def workspace_of(problem: Problem, plan: LaunchPlan, like: Tensor) -> dict[str, Any]:
    """The statistics of chunks, then of whole rows; or a word per chunk, zeroed."""
    main = plan.launches[0] if plan.launches else None
    if main is None or "CHUNK" not in main.constants or problem.operation == LOSS_GRADIENT:
        return {}
    chunks = -(-problem.columns // int(str(main.constants["CHUNK"])))
    if plan.variant in TELLING:
        items = problem.rows * chunks
        words = like.new_zeros(items, dtype=torch.int64)
        return {"items": items, "chunks": chunks, "words_ptr": words}
    names = ("sums_ptr",) if problem.operation in BACKWARD else ("peaks_ptr", "totals_ptr")
    room = statistics(like, len(names), problem.rows * (chunks + 1))
    return {"chunks": chunks, **dict(zip(names, room, strict=True))}


def statistics(like: Tensor, arrays: int, count: int) -> Tensor:
    """New float32 numbers, each array at a multiple of 16 bytes, as plans say of all pointers."""
    return like.new_empty((arrays, padded_count(count)), dtype=torch.float32)[:, :count]


def check_tensors(problem: Problem, tensors: Mapping[str, Tensor]) -> None:
    for name, tensor in tensors.items():
        if name in ("x", "y", "dy"):
            check_matrix(problem, name, tensor)
        elif tuple(tensor.shape) != (problem.rows,) or not tensor.is_contiguous():
            raise PerfcliError(
                f"expected {problem.rows} numbers without gaps for {name}, found shape "
                f"{tuple(tensor.shape)}, strides {tensor.stride()}"
            )


def check_matrix(problem: Problem, name: str, tensor: Tensor) -> None:
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
    """The ``@triton.jit`` function of that name."""
    return next(getattr(file, name) for file in _FILES if hasattr(file, name))
