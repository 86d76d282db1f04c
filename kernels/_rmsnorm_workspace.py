"""What a plan's kernels of RMSNorm need beside inputs and outputs: buffers, TMA descriptors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
import triton
from torch import Tensor

from perfcli.errors import PerfcliError
from perfcli.model import LaunchPlan, Problem


def workspace(problem: Problem, tensors: Mapping[str, Tensor], plan: LaunchPlan) -> dict[str, Any]:
    """What kernels hand over to each other, by argument."""
    x = tensors["x"]
    steps = {step.function: step for step in plan.launches}
    buffers: dict[str, Any] = {}
    if "tiled" in steps:
        buffers["tiles"] = steps["tiled"].constants["TILES"]
    if "shift_weights" in steps:
        copies, width = steps["shift_weights"].grid[1], steps["shift_weights"].constants["WIDTH"]
        buffers |= {"unshifted": tensors["weight"], "weight": x.new_empty((copies, width))}
    if parts := partial_rows(problem, plan):
        buffers["count"] = parts
        width = problem.columns if problem.operation.endswith("backward") else 1
        buffers["partial"] = torch.empty((parts, width), dtype=torch.float32, device=x.device)
    if any("scale" in step.arguments for step in plan.launches):
        buffers["scale"] = torch.empty(problem.rows, dtype=torch.float32, device=x.device)
    return buffers


def partial_rows(problem: Problem, plan: LaunchPlan) -> int:
    """Partial sums: per row and part of it going forward, of the weight's gradient backward."""
    for step in plan.launches:
        if "PARTS" in step.constants and "partial" in step.arguments:
            return problem.rows * int(step.constants["PARTS"] or 1)
        if "partial" in step.arguments and problem.operation.endswith("backward"):
            return step.grid[1] if step.function == "weight_gradient" else step.grid[0]
    return 0


def describe(plan: LaunchPlan, values: dict[str, Any]) -> None:
    """Replaces tensors by TMA descriptors where a kernel takes these, rows seen as lines."""
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


def interpretable(plan: LaunchPlan) -> LaunchPlan:
    """For Triton's interpreter, which runs one program after the other and knows no assembly:
    nobody waits for a program that has not started, and nothing is opaque."""
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
