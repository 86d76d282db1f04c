# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
# ruff: noqa: ANN001 (arguments of kernels have no Python types)
"""Reduces the losses of rows to one number, and spreads the gradient of it over the rows again: one
launch each, where torch's operators take four."""

from __future__ import annotations

import sys
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from perfcli.errors import PerfcliError
from perfcli.model import KernelLaunch, LaunchPlan

from .._launching import device_of, launch

_MOST_ROWS = 1 << 17
"""What one block adds in a few µs; more rows are added by torch's operators."""
_BLOCK = 2048
REDUCTIONS = ("mean", "sum", "none")


@triton.jit
def reduce(
    losses,
    targets,
    total,
    scale,
    rows,
    IGNORED: tl.constexpr,
    MEAN: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Store the losses' sum or mean, and what the sum was multiplied by."""
    sums = tl.zeros([BLOCK], tl.float32)
    counts = tl.zeros([BLOCK], tl.int32)
    for first in range(0, rows, BLOCK):
        at = first + tl.arange(0, BLOCK)
        sums += tl.load(losses + at, mask=at < rows, other=0.0)
        if MEAN:
            target = tl.load(targets + at, mask=at < rows, other=IGNORED)
            counts += (target != IGNORED).to(tl.int32)
    factor = 1.0
    if MEAN:
        factor = 1.0 / tl.sum(counts).to(tl.float32)
    tl.store(total, tl.sum(sums) * factor)
    tl.store(scale, factor)


@triton.jit
def spread(gradient, scale, out, rows, BLOCK: tl.constexpr):
    """Store the gradient of each row's loss."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(gradient) * tl.load(scale)
    tl.store(out + at, tl.zeros([BLOCK], tl.float32) + value, mask=at < rows)


def function(name: str) -> Any:
    """Return the ``@triton.jit`` function of that name."""
    return {"reduce": reduce, "spread": spread}[name]


def check_reduction(reduction: str) -> None:
    if reduction not in REDUCTIONS:
        raise PerfcliError(f"reduction is {', '.join(REDUCTIONS)}, not {reduction!r}")


def fake_losses(x: Tensor, target: Tensor, reduction: str) -> tuple[Tensor, Tensor, Tensor]:
    """Return what an operator of losses returns, without values: the loss, each row's logarithm of
    its sum of exponentials, and what the losses' sum was multiplied by (nothing: not summed)."""
    check_reduction(reduction)
    lse = x.new_empty(target.shape, dtype=torch.float32)
    whole = reduction == "none"
    loss = x.new_empty(target.shape if whole else (), dtype=torch.float32)
    return loss, lse, x.new_empty((0,) if whole else (), dtype=torch.float32)


def reduce_losses(
    losses: Tensor, targets: Tensor, ignored: int, mean: bool
) -> tuple[Tensor, Tensor]:
    """Return the sum of all losses, or the mean of those whose target is not ignored; and what the
    sum was multiplied by."""
    rows = losses.numel()
    if not 0 < rows <= _MOST_ROWS:
        scale = losses.new_ones(())
        if mean:
            scale = scale / (targets != ignored).sum()
        return losses.sum() * scale, scale
    total, scale = losses.new_empty(()), losses.new_empty(())
    pointers = {"losses": losses, "targets": targets, "total": total, "scale": scale}
    types = {"losses": "*fp32", "targets": "*i64", "total": "*fp32", "scale": "*fp32"}
    constants = {"IGNORED": ignored, "MEAN": mean, "BLOCK": _BLOCK}
    step = KernelLaunch("reduce", (1, 1, 1), {**types, "rows": "i32"}, constants, num_warps=8)
    plan = LaunchPlan("reduce", (step,), "few rows")
    with device_of(losses):
        launch(sys.modules[__name__], plan, {**pointers, "rows": rows})
    return total, scale


def spread_gradient(gradient: Tensor, scale: Tensor, rows: int) -> Tensor:
    """Return the gradient of each row's loss, from that of what they were reduced to; it is theirs
    if there is no scale."""
    if scale.numel() == 0:
        return gradient.reshape(-1).contiguous()
    out = torch.empty(rows, dtype=torch.float32, device=gradient.device)
    if rows == 0:
        return out
    values = {"gradient": gradient, "scale": scale, "out": out, "rows": rows}
    types = {"gradient": "*fp32", "scale": "*fp32", "out": "*fp32", "rows": "i32"}
    grid = (-(-rows // _BLOCK), 1, 1)
    step = KernelLaunch("spread", grid, types, {"BLOCK": _BLOCK}, num_warps=4)
    with device_of(out):
        launch(sys.modules[__name__], LaunchPlan("spread", (step,), "rows"), values)
    return out
