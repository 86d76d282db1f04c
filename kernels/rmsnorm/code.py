"""Runs the torch side of RMSNorm: inputs, the float64 reference, and a plan's kernels."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
import triton
from torch import Tensor
from torch.nn import functional

from perfcli.errors import PerfcliError
from perfcli.model import LaunchPlan, Problem

from .._launching import launch
from . import backward, loop, rows, tiled


def workspace(problem: Problem, tensors: Mapping[str, Tensor], plan: LaunchPlan) -> dict[str, Any]:
    """Return what kernels hand over to each other, by argument."""
    x = tensors["x"]
    steps = {step.function: step for step in plan.launches}
    buffers: dict[str, Any] = {}
    if "tiled" in steps:
        buffers["tiles"] = steps["tiled"].constants["TILES"]
    if "shift_weights" in steps:
        copies, width = steps["shift_weights"].grid[1], steps["shift_weights"].constants["WIDTH"]
        buffers |= {"unshifted": tensors["weight"], "weight": x.new_empty((copies, width))}
    if parts := _partial_rows(problem, plan):
        buffers["count"] = parts
        width = problem.columns if problem.operation.endswith("backward") else 1
        buffers["partial"] = torch.empty((parts, width), dtype=torch.float32, device=x.device)
    if any("scale" in step.arguments for step in plan.launches):
        buffers["scale"] = torch.empty(problem.rows, dtype=torch.float32, device=x.device)
    return buffers


def _partial_rows(problem: Problem, plan: LaunchPlan) -> int:
    """Return partial sums: per row and part of it going forward, of the weight's gradient
    backward."""
    for step in plan.launches:
        if "PARTS" in step.constants and "partial" in step.arguments:
            return problem.rows * int(step.constants["PARTS"] or 1)
        if "partial" in step.arguments and problem.operation.endswith("backward"):
            return step.grid[1] if step.function == "weight_gradient" else step.grid[0]
    return 0


def _describe(plan: LaunchPlan, values: dict[str, Any]) -> None:
    """Replace tensors by TMA descriptors where a kernel takes these, rows seen as lines."""
    for step in plan.launches:
        for name, kind in step.arguments.items():
            if kind.startswith("tensordesc"):
                values[name] = descriptor(values[name], step.constants)


def descriptor(rows: Tensor, constants: Mapping[str, Any]) -> Any:
    from triton.tools.tensor_descriptor import TensorDescriptor

    if rows.data_ptr() % 16:
        raise PerfcliError(
            "rmsnorm: tma needs a tensor that starts at a multiple of 16 bytes, this one does not: "
            "copy it, or use full-tile"
        )
    width, block = constants["WIDTH"], constants["BLOCK"]
    lines = rows.unflatten(1, (rows.shape[1] // width, width))
    return TensorDescriptor.from_tensor(lines, [constants["ROWS"], block // width, width])


def _interpretable(plan: LaunchPlan) -> LaunchPlan:
    """Return the plan for Triton's interpreter, which runs one program after the other and knows no
    assembly: nobody waits for a program that has not started, and nothing is opaque."""
    if not triton.knobs.runtime.interpret:
        return plan
    simple = {"POLLS": 1, "OPAQUE": False}
    steps = tuple(
        replace(
            step,
            constants={
                **step.constants,
                **{k: v for k, v in simple.items() if k in step.constants},
            },
        )
        for step in plan.launches
    )
    return replace(plan, launches=steps)


KERNELS = (rows, tiled, loop, backward)


def function(name: str) -> Any:
    """Return the ``@triton.jit`` function that a launch names."""
    for module in KERNELS:
        if hasattr(module, name):
            return getattr(module, name)
    raise PerfcliError(f"rmsnorm has no kernel {name!r}")


def _epsilon(problem: Problem) -> float:
    """Return what is added to the mean of squares; a setting, ``eps``."""
    return float(problem.settings.get("eps") or 0.0) if "eps" in problem.settings else 1e-6


def inputs(problem: Problem, device: str, seed: int) -> dict[str, Tensor]:
    """Return normally distributed inputs: ``x`` with the problem's row stride, ``weight`` about 1,
    and by operation ``residual``, ``dy``, ``dsum``, all with the strides of ``x``."""
    generator = torch.Generator(device=device).manual_seed(seed)
    dtype: torch.dtype = getattr(torch, problem.dtype)

    def normal(*shape: int) -> Tensor:
        wide = torch.randn(*shape, generator=generator, device=device, dtype=torch.float32)
        return wide.to(dtype)

    def rows() -> Tensor:
        elements = max(problem.rows - 1, 0) * problem.stride + problem.columns
        if problem.rows == 0:
            elements = 0
        flat = normal(elements)
        return flat.as_strided((problem.rows, problem.columns), (problem.stride, 1))

    tensors = {"x": rows(), "weight": 1 + normal(problem.columns) / 4}
    if problem.operation == "rmsnorm-residual":
        tensors["residual"] = rows()
    if problem.operation.endswith("backward"):
        tensors["dy"] = rows()
    if problem.operation == "rmsnorm-residual-backward":
        tensors["dsum"] = rows()
    return tensors


def reference(problem: Problem, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Compute the outputs in float64, gradients by the formula of the derivative, not by
    autograd."""
    wide = {name: tensor.double() for name, tensor in tensors.items()}
    x, weight = wide["x"], wide["weight"]
    outputs = {}
    if problem.operation == "rmsnorm-residual":
        x = outputs["sum"] = x + wide["residual"]
    scale = (x.square().mean(dim=1, keepdim=True) + _epsilon(problem)).rsqrt()
    if not problem.operation.endswith("backward"):
        return {"y": x * scale * weight, **outputs}
    normal, dy = x * scale, wide["dy"]
    g = dy * weight
    dx = scale * (g - normal * (g * normal).mean(dim=1, keepdim=True))
    if "dsum" in wide:
        dx = dx + wide["dsum"]
    return {"dx": dx, "dw": (dy * normal).sum(dim=0)}


def eager(problem: Problem, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the same by torch's own operators, statistics in fp32. Gradients are written out, so
    that torch.compile gets the reductions over rows and columns as one graph."""
    x, weight = tensors["x"], tensors["weight"]
    if not problem.operation.endswith("backward"):
        total = x + tensors["residual"] if "residual" in tensors else x
        y = functional.rms_norm(total, (problem.columns,), weight, _epsilon(problem))
        return {"y": y, "sum": total} if "residual" in tensors else {"y": y}
    wide, dy = x.float(), tensors["dy"].float()
    scale = (wide.square().mean(dim=1, keepdim=True) + _epsilon(problem)).rsqrt()
    normal, g = wide * scale, dy * weight.float()
    dx = scale * (g - normal * (g * normal).mean(dim=1, keepdim=True))
    if "dsum" in tensors:
        dx = dx + tensors["dsum"].float()
    return {"dx": dx.to(x.dtype), "dw": (dy * normal).sum(dim=0).to(x.dtype)}


def run(problem: Problem, tensors: Mapping[str, Tensor], plan: LaunchPlan) -> dict[str, Tensor]:
    """Return the outputs by the plan's kernels, contiguous.

    Raises:
        PerfcliError: a tensor's shape, strides or dtype are not the problem's.
    """
    _check(problem, tensors)
    x = tensors["x"]
    contiguous = (problem.rows, problem.columns)
    names = {"rmsnorm": ("y",), "rmsnorm-residual": ("y", "sum")}.get(problem.operation, ("dx",))
    outputs = {name: x.new_empty(contiguous) for name in names}
    if problem.operation.endswith("backward"):
        make = x.new_empty if plan.launches else x.new_zeros
        outputs["dw"] = make((problem.columns,))
    values: dict[str, Any] = {
        **tensors,
        **outputs,
        **workspace(problem, tensors, plan),
        "rows": problem.rows,
        "eps": _epsilon(problem),
    }
    values["total"] = outputs.get("sum")
    values["source"] = outputs.get("sum", x)
    _describe(plan, values)
    launch(sys.modules[__name__], _interpretable(plan), values)
    return outputs


def _check(problem: Problem, tensors: Mapping[str, Tensor]) -> None:
    """Check the tensors: kernels take sizes and strides from the problem, so the tensors have to
    have them."""
    for name, tensor in tensors.items():
        if name == "weight":
            shape, strides = [problem.columns], [1]
        else:
            shape, strides = [problem.rows, problem.columns], [problem.stride, 1]
        pairs = zip(shape, tensor.stride(), strides, strict=False)
        same = all(size <= 1 or has == wanted for size, has, wanted in pairs)
        dtype = str(tensor.dtype).removeprefix("torch.")
        empty = problem.elements == 0
        if list(tensor.shape) != shape or dtype != problem.dtype or not (same or empty):
            raise PerfcliError(
                f"rmsnorm: {name} is {list(tensor.shape)} {dtype} with strides "
                f"{list(tensor.stride())}, the problem says {shape} {problem.dtype} with "
                f"{strides}: make it contiguous, or plan for what it is"
            )
