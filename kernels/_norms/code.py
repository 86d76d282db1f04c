"""Runs the torch side of norms: inputs, the float64 reference, and a plan's kernels."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from typing import Any

import torch
import triton
from torch import Tensor
from torch.nn import functional

from perfcli.errors import PerfcliError
from perfcli.model import KernelLaunch, LaunchPlan, Problem

from .. import _words
from .._launching import at_a_vector, launch, runnable
from . import backward, loop, rows, tiled
from .blocks import family, has_mean, has_residual, is_backward


def workspace(problem: Problem, tensors: Mapping[str, Tensor], plan: LaunchPlan) -> dict[str, Any]:
    """Return what kernels hand over to each other, by argument."""
    x = tensors["x"]
    steps = {step.function: step for step in plan.launches}
    named = {name for step in plan.launches for name in step.arguments}
    buffers: dict[str, Any] = {}
    for step in plan.launches:
        if "tiles" in step.arguments:
            buffers["tiles"] = step.constants["TILES"]
    if "shift_weights" in steps:
        copies, width = steps["shift_weights"].grid[1], steps["shift_weights"].constants["WIDTH"]
        for name in ("weight", "bias") if has_mean(problem) else ("weight",):
            plain = "unshifted" if name == "weight" else "unshifted_bias"
            buffers |= {plain: tensors[name], name: x.new_empty((copies, width))}
    parts = max((int(step.constants.get("PARTS") or 1) for step in plan.launches), default=1)
    if "words" in named:
        apart = max(int(step.constants.get("APART") or parts) for step in plan.launches)
        counts = any(step.constants.get("QUEUE") for step in plan.launches)
        size = 1 if counts else problem.rows * apart
        words = torch.empty(size, dtype=torch.int64, device=x.device)
        buffers |= {"words": words, "word_count": words.numel()}
    if "partial" in named:
        buffers["count"] = _partial_sums(plan)
        size = problem.rows * parts
        if is_backward(problem):
            apart = int(steps["sum_partials"].constants["PITCH"] or 0)
            size = buffers["count"] * apart * (2 if has_mean(problem) else 1)
        buffers["partial"] = torch.empty(size, dtype=torch.float32, device=x.device)
    return buffers


def _partial_sums(plan: LaunchPlan) -> int:
    """Return how many sums of the weight's gradient there are to add."""
    for step in plan.launches:
        if step.function == "gradient_ring":
            return int(step.constants["PARTIALS"] or 0)
        if step.function == "gradient_rows":
            return int(step.constants["GROUPS"] or 0)
        if step.function == "gradient_columns":
            return step.grid[1]
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


def _runnable(plan: LaunchPlan) -> LaunchPlan:
    """Return the plan for this Triton. Its interpreter runs one program after the other and knows
    no assembly: nobody waits for a program that has not started, and nothing is opaque."""
    plan = runnable(plan)
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


KERNELS = (rows, tiled, _words, loop, backward)
GLUON = {"gradient_ring": ".ring", "norm_cluster": ".cluster"}
"""Kernels in Gluon, and where they are: not every Triton has it."""


def function(name: str) -> Any:
    """Return the ``@triton.jit`` or ``@gluon.jit`` function that a launch names."""
    if name in GLUON:
        return getattr(import_module(GLUON[name], __package__), name)
    for module in KERNELS:
        if hasattr(module, name):
            return getattr(module, name)
    raise PerfcliError(f"norms have no kernel {name!r}")


def _epsilon(problem: Problem) -> float:
    """Return what is added to the mean of squares; a setting, ``eps``."""
    if "eps" in problem.settings:
        return float(problem.settings.get("eps") or 0.0)
    return 1e-5 if has_mean(problem) else 1e-6


def inputs(problem: Problem, device: str, seed: int) -> dict[str, Tensor]:
    """Return normally distributed inputs: ``x`` with the problem's row stride, ``weight`` about 1,
    and by operation ``bias``, ``residual``, ``dy``, ``dsum``, matrices with the strides of ``x``;
    of ``x`` itself what layer norm's backward gets from its forward."""
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
    if is_backward(problem):
        tensors["dy"] = rows()
        if has_residual(problem):
            tensors["dsum"] = rows()
        return {**tensors, **saved(problem, tensors)}
    if has_mean(problem):
        tensors["bias"] = normal(problem.columns) / 4
    if has_residual(problem):
        tensors["residual"] = rows()
    return tensors


def saved(problem: Problem, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return what layer norm's forward saves of ``x`` for its backward: the mean and 1 / deviation
    of rows. For all else nothing."""
    if not (has_mean(problem) and is_backward(problem)):
        return {}
    variance, mean = torch.var_mean(tensors["x"].float(), dim=1, correction=0)
    return {"mean": mean, "rstd": (variance + _epsilon(problem)).rsqrt()}


def reference(problem: Problem, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Compute the outputs in float64, gradients by the formula of the derivative, not by
    autograd. Layer norm's backward takes its statistics as they are given, where they are."""
    wide = {name: tensor.double() for name, tensor in tensors.items()}
    x, weight = wide["x"], wide["weight"]
    outputs = {}
    if has_residual(problem) and not is_backward(problem):
        x = outputs["sum"] = x + wide["residual"]
    mean = x.mean(dim=1, keepdim=True) if has_mean(problem) else torch.zeros_like(x[:, :1])
    scale = ((x - mean).square().mean(dim=1, keepdim=True) + _epsilon(problem)).rsqrt()
    if "mean" in wide:
        mean, scale = wide["mean"][:, None], wide["rstd"][:, None]
    normal = (x - mean) * scale
    if not is_backward(problem):
        if has_mean(problem):
            outputs |= {"mean": mean[:, 0], "rstd": scale[:, 0]}
            return {"y": normal * weight + wide["bias"], **outputs}
        return {"y": normal * weight, **outputs}
    dy = wide["dy"]
    g = dy * weight
    dx = scale * (g - normal * (g * normal).mean(dim=1, keepdim=True))
    if has_mean(problem):
        dx = dx - scale * g.mean(dim=1, keepdim=True)
    if "dsum" in wide:
        dx = dx + wide["dsum"]
    found = {"dx": dx, "dw": (dy * normal).sum(dim=0)}
    return {**found, "db": dy.sum(dim=0)} if has_mean(problem) else found


def eager(problem: Problem, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the same by torch's own operators, statistics in fp32. Gradients are written out, so
    that torch.compile gets the reductions over rows and columns as one graph."""
    x, weight = tensors["x"], tensors["weight"]
    if not is_backward(problem):
        total = x + tensors["residual"] if "residual" in tensors else x
        shape, eps = (problem.columns,), _epsilon(problem)
        extra = {"sum": total} if "residual" in tensors else {}
        if has_mean(problem):
            y, mean, rstd = torch.native_layer_norm(total, shape, weight, tensors["bias"], eps)
            return {"y": y, "mean": mean[:, 0].float(), "rstd": rstd[:, 0].float(), **extra}
        return {"y": functional.rms_norm(total, shape, weight, eps), **extra}
    wide, dy = x.float(), tensors["dy"].float()
    if has_mean(problem):
        normal = (wide - tensors["mean"][:, None]) * (scale := tensors["rstd"][:, None])
    else:
        scale = (wide.square().mean(dim=1, keepdim=True) + _epsilon(problem)).rsqrt()
        normal = wide * scale
    g = dy * weight.float()
    dx = g - normal * (g * normal).mean(dim=1, keepdim=True)
    if has_mean(problem):
        dx = dx - g.mean(dim=1, keepdim=True)
    dx = dx * scale
    if "dsum" in tensors:
        dx = dx + tensors["dsum"].float()
    found = {"dx": dx.to(x.dtype), "dw": (dy * normal).sum(dim=0).to(x.dtype)}
    return {**found, "db": dy.sum(dim=0).to(x.dtype)} if has_mean(problem) else found


def run(problem: Problem, tensors: Mapping[str, Tensor], plan: LaunchPlan) -> dict[str, Tensor]:
    """Return the outputs by the plan's kernels, contiguous.

    Raises:
        PerfcliError: a tensor's shape, strides or dtype are not the problem's.
    """
    _check(problem, tensors)
    plan = _runnable(plan)
    if any(_takes_words(step) for step in plan.launches):
        tensors = {name: at_a_vector(tensor) for name, tensor in tensors.items()}
    x = tensors["x"]
    outputs = {name: _make(problem, name, x, plan) for name in output_names(problem)}
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
    launch(sys.modules[__name__], plan, values)
    return outputs


def _takes_words(step: KernelLaunch) -> bool:
    """Return whether a kernel loads pairs of half precision at once, or copies 16 bytes at a time
    to shared memory."""
    return step.constants.get("HALVES") == 2 or step.function in GLUON


def output_names(problem: Problem) -> tuple[str, ...]:
    mean, residual = has_mean(problem), has_residual(problem)
    if is_backward(problem):
        return ("dx", "dw", "db") if mean else ("dx", "dw")
    return ("y", *(("sum",) if residual else ()), *(("mean", "rstd") if mean else ()))


def _make(problem: Problem, name: str, x: Tensor, plan: LaunchPlan) -> Tensor:
    """Return memory for an output; zeros for the sums of no rows, and statistics of no columns are
    those of an empty mean."""
    if name in ("mean", "rstd"):
        made = torch.empty if plan.launches else torch.zeros
        found = made(problem.rows, dtype=torch.float32, device=x.device)
        return found if plan.launches else found.fill_(float("nan"))
    make = x.new_empty if plan.launches else x.new_zeros
    shape = (problem.columns,) if name in ("dw", "db") else (problem.rows, problem.columns)
    return make(shape)


def _check(problem: Problem, tensors: Mapping[str, Tensor]) -> None:
    """Check the tensors: kernels take sizes and strides from the problem, so the tensors have to
    have them."""
    for name, tensor in tensors.items():
        dtype = problem.dtype
        if name in ("weight", "bias"):
            shape, strides = [problem.columns], [1]
        elif name in ("mean", "rstd"):
            shape, strides, dtype = [problem.rows], [1], "float32"
        else:
            shape, strides = [problem.rows, problem.columns], [problem.stride, 1]
        pairs = zip(shape, tensor.stride(), strides, strict=False)
        same = all(size <= 1 or has == wanted for size, has, wanted in pairs)
        found = str(tensor.dtype).removeprefix("torch.")
        empty = problem.elements == 0
        if list(tensor.shape) != shape or found != dtype or not (same or empty):
            raise PerfcliError(
                f"{family(problem)}: {name} is {list(tensor.shape)} {found} with "
                f"strides {list(tensor.stride())}, the problem says {shape} {dtype} with "
                f"{strides}: make it contiguous, or plan for what it is"
            )
