"""Runs the torch side of the column sum: inputs, reference, and how a plan runs."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

from perfcli.errors import PerfcliError
from perfcli.model import KernelLaunch, LaunchPlan, Problem

from .. import _launching
from .._elements import VECTOR_BYTES
from .._written_module import import_written
from . import finish
from .plan import (
    _aligned_elements,
    _input_count,
    equal_splits,
)
from .source import _input_names, _pointers_source, _tma_source


def inputs(problem: Problem, device: str, seed: int) -> dict[str, Tensor]:
    """Return ``x0``, ``x1``, …: normally distributed, their rows ``problem.stride`` elements
    apart."""
    generator = torch.Generator(device).manual_seed(seed)
    dtype = getattr(torch, problem.dtype)
    shape = (problem.rows, problem.stride)

    def normal() -> Tensor:
        numbers = torch.randn(shape, generator=generator, device=device)
        return numbers.to(dtype)[:, : problem.columns]

    return {name: normal() for name in _input_names(_input_count(problem))}


def reference(problem: Problem, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Compute the sum in float64, one input after the other."""
    sums = [tensors[name].double().sum(0) for name in _input_names(_input_count(problem))]
    return {"out": torch.stack(sums).sum(0)}


def eager(problem: Problem, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Add the inputs in fp32, then the rows, as a user writes it for accuracy."""
    first, *others = (tensors[name] for name in _input_names(_input_count(problem)))
    total = first.float()
    for other in others:
        total = total + other.float()
    return {"out": total.sum(0).to(first.dtype)}


def run(problem: Problem, tensors: Mapping[str, Tensor], plan: LaunchPlan) -> dict[str, Tensor]:
    """Return the column sum by the plan.

    Raises:
        PerfcliError: tensors of another layout than the plan's.
    """
    names = _input_names(_input_count(problem))
    given = {name: tensors[name] for name in names}
    like = given[names[0]]
    out = torch.empty(problem.columns, dtype=like.dtype, device=like.device)
    if not plan.launches:
        return {"out": out.zero_()}
    main = plan.launches[0]
    _check_layout(problem, given, uses_tma=plan.variant == "tma")
    splits = main.grid[1]
    partial = out if splits == 1 else out.new_empty((splits, problem.columns), dtype=torch.float32)
    values: dict[str, Any] = {
        "partial": partial,
        "out": out,
        "rows": problem.rows,
        "columns": problem.columns,
        "column_units": problem.columns // _aligned_elements(problem),
        "stride_units": problem.stride // _aligned_elements(problem),
        "rows_per_split": equal_splits(
            problem.rows, splits, int(str(main.constants["TILE_R"]))
        ).rows,
        "splits": splits,
        "width": problem.columns,
    }
    values.update((name, _argument(tensor, plan.variant, main)) for name, tensor in given.items())
    _launching.launch(sys.modules[__name__], plan, values)
    return {"out": out}


def _argument(tensor: Tensor, variant: str, launch: KernelLaunch) -> Any:
    if variant != "tma":
        return tensor
    block = [int(str(launch.constants[name])) for name in ("TILE_R", "TILE_I")]
    return TensorDescriptor(tensor, list(tensor.shape), [tensor.stride(0), 1], block)


def _check_layout(problem: Problem, tensors: Mapping[str, Tensor], uses_tma: bool) -> None:
    shape = (problem.rows, problem.columns)
    for name, tensor in tensors.items():
        if tuple(tensor.shape) != shape or str(tensor.dtype) != f"torch.{problem.dtype}":
            raise PerfcliError(
                f"expected {shape} {problem.dtype} for {name}, found {tuple(tensor.shape)} "
                f"{tensor.dtype}: all inputs have one shape and dtype"
            )
        if (problem.columns > 1 and tensor.stride(1) != 1) or (
            problem.rows > 1 and tensor.stride(0) != problem.stride
        ):
            raise PerfcliError(
                f"expected {name} with strides ({problem.stride}, 1), found {tensor.stride()}: "
                "call contiguous() first"
            )
        if uses_tma and tensor.data_ptr() % VECTOR_BYTES:
            raise PerfcliError(
                f"expected {name} at a multiple of {VECTOR_BYTES} bytes for TMA, found it "
                f"{tensor.data_ptr() % VECTOR_BYTES} bytes beyond one: use the variant pointers"
            )


def function(name: str) -> Any:
    """Return ``column_sum_finish``, ``column_sum_pointers_<n>`` or ``column_sum_tma_<n>``."""
    if name == "column_sum_finish":
        return finish.column_sum_finish
    kind, _, number = name.rpartition("_")
    source = {"column_sum_pointers": _pointers_source, "column_sum_tma": _tma_source}[kind]
    return getattr(import_written(name, source(int(number))), name)
