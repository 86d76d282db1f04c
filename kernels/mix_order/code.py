"""Runs the torch side of the mix-order reduction: inputs, reference, and how a plan runs."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from perfcli.errors import PerfcliError
from perfcli.model import LaunchPlan, Problem

from .. import _launching
from .._written_module import import_written
from ..column_sum import finish
from ..column_sum.plan import equal_splits
from .plan import _read_count
from .source import _mix_order_source, _reads_of

EPSILON = 1e-6


def inputs(problem: Problem, device: str, seed: int) -> dict[str, Tensor]:
    """Return ``grad``, ``x0`` …, ``residual0`` …: normally distributed; ``weight0`` … around 1, and
    the reciprocal root mean square of each ``x``, ``rstd0`` …, in fp32."""
    generator = torch.Generator(device).manual_seed(seed)
    reads = _reads_of(_read_count(problem))
    dtype = getattr(torch, problem.dtype)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, device=device)

    tensors = {name: normal(problem.rows, problem.columns).to(dtype) for name in reads.names}
    for norm, name in enumerate(reads.norms):
        tensors[f"weight{norm}"] = 1 + 0.1 * normal(problem.columns)
        squares = tensors[name].float().square().mean(1)
        tensors[f"rstd{norm}"] = torch.rsqrt(squares + EPSILON)
    return tensors


def reference(problem: Problem, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Apply the chain rule by autograd in float64, with ``rstd`` taken as it is given: for one
    norm, ``y = x · rstd · w`` with ``d rstd / dx = −rstd³ · x / N``."""
    reads = _reads_of(_read_count(problem))
    given = {name: tensor.double() for name, tensor in tensors.items()}
    d = given["grad"]
    out = {}
    for norm, name in enumerate(reads.norms):
        x, rstd = given[name], given[f"rstd{norm}"][:, None]
        weight = given[f"weight{norm}"]
        out[f"dweight{norm}"] = torch.einsum("mn,mn,m->n", d, x, rstd[:, 0])
        dy = d * weight
        d = rstd * dy - rstd**3 * x * torch.einsum("mn,mn->m", dy, x)[:, None] / max(
            problem.columns, 1
        )
        for residual in reads.residuals[norm]:
            d = d + given[residual]
    return {"dx": d, **out}


def eager(problem: Problem, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Compute the gradients as torch's decomposition of the RMSNorm backward does, in fp32."""
    reads = _reads_of(_read_count(problem))
    d = tensors["grad"].float()
    out = {}
    for norm, name in enumerate(reads.norms):
        rstd = tensors[f"rstd{norm}"][:, None]
        h = tensors[name].float() * rstd
        out[f"dweight{norm}"] = (d * h).sum(0)
        dy = d * tensors[f"weight{norm}"]
        d = rstd * (dy - h * (dy * h).mean(1, keepdim=True))
        for residual in reads.residuals[norm]:
            d = d + tensors[residual].float()
    return {"dx": d.to(tensors["grad"].dtype), **out}


def run(problem: Problem, tensors: Mapping[str, Tensor], plan: LaunchPlan) -> dict[str, Tensor]:
    """Compute ``dx`` and the weight gradients by the plan.

    Raises:
        PerfcliError: an input that is not contiguous, or not of the problem's shape and dtype.
    """
    reads = _reads_of(_read_count(problem))
    norms = len(reads.norms)
    _check_layout(problem, {name: tensors[name] for name in reads.names})
    grad = tensors["grad"]
    dx = torch.empty_like(grad)
    gradients = torch.zeros((norms, problem.columns), dtype=torch.float32, device=grad.device)
    if plan.launches:
        main = plan.launches[0]
        blocks = main.grid[0]
        values: dict[str, Any] = {
            **{f"{name}_ptr": tensors[name] for name in reads.names},
            **{name: tensors[name] for name in main.arguments if name in tensors},
            "dx": dx,
            "partial": gradients.new_empty((blocks, norms * problem.columns)),
            "rows": problem.rows,
            "rows_per_block": equal_splits(
                problem.rows, blocks, int(str(main.constants["BLOCK"]))
            ).rows,
            "out": gradients,
            "splits": blocks,
            "columns": problem.columns,
            "width": norms * problem.columns,
        }
        _launching.launch(sys.modules[__name__], plan, values)
    return {"dx": dx} | {f"dweight{norm}": gradients[norm] for norm in range(norms)}


def _check_layout(problem: Problem, tensors: Mapping[str, Tensor]) -> None:
    shape = (problem.rows, problem.columns)
    for name, tensor in tensors.items():
        right = tuple(tensor.shape) == shape and str(tensor.dtype) == f"torch.{problem.dtype}"
        if not right or not tensor.is_contiguous():
            raise PerfcliError(
                f"expected {name} contiguous, {shape} {problem.dtype}, found {tuple(tensor.shape)} "
                f"{tensor.dtype} with strides {tensor.stride()}: call contiguous() first"
            )


def function(name: str) -> Any:
    """Return ``mix_order_<reads>``, or the kernel that adds the blocks' weight gradients."""
    if name == "column_sum_finish":
        return finish.column_sum_finish
    return getattr(import_written(name, _mix_order_source(int(name.rpartition("_")[2]))), name)
