"""Runs the torch side of linear-cross-entropy: inputs, references, products and chunks."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from perfcli.model import LaunchPlan, Problem

from .. import _launching
from . import chunks, fused
from .plan import BACKWARD, FORWARD, classes_of, setting

IGNORED = -100
"""The target whose loss and gradient are 0, as in torch, unless a problem's settings name
another."""
_ROWS = 512
"""Rows of which a reference has the logits at a time."""
Tensors = Mapping[str, Tensor]


def inputs(problem: Problem, device: str, seed: int) -> dict[str, Tensor]:
    """Return standard normal ``x``, weights that make logits about as large as 1, and random
    targets, of which every seventh is ignored; backward, what a forward would have saved, too."""
    generator = torch.Generator(device).manual_seed(seed)
    dtype = getattr(torch, problem.dtype)
    classes, hidden = classes_of(problem), problem.columns

    def normal(*shape: int) -> Tensor:
        return torch.empty(shape, dtype=dtype, device=device).normal_(generator=generator)

    x, weight = normal(problem.rows, hidden), normal(classes, hidden)
    weight /= max(hidden, 1) ** 0.5
    target = torch.randint(0, classes, (problem.rows,), generator=generator, device=device)
    target[3::7] = _ignored(problem)
    found = {"x": x, "weight": weight, "target": target}
    if problem.operation == FORWARD:
        return found
    forward = replace(problem, operation=FORWARD)
    lse = torch.empty(problem.rows, device=device)
    for rows, logits in _logits(forward, found, torch.float32):
        lse[rows] = logits.logsumexp(-1)
    dloss = torch.randn(problem.rows, generator=generator, device=device)
    return {**found, "lse": lse, "dloss": dloss}


def _ignored(problem: Problem) -> int:
    return int(str(problem.settings.get("ignored", IGNORED)))


# --- references, and as a user writes it ----------------------------------------------------------


def _logits(problem: Problem, t: Tensors, dtype: torch.dtype) -> Iterator[tuple[slice, Tensor]]:
    """Yield the logits of some rows at a time."""
    cap = setting(problem, "softcap")
    for first in range(0, problem.rows, _ROWS):
        rows = slice(first, first + _ROWS)
        logits = t["x"][rows].to(dtype) @ t["weight"].to(dtype).T
        yield rows, cap * torch.tanh(logits / cap) if cap else logits


def reference(problem: Problem, tensors: Tensors) -> dict[str, Tensor]:
    """Compute the definitions in float64; gradients by autograd."""
    return _compute(problem, tensors, torch.float64)


def eager(problem: Problem, tensors: Tensors) -> dict[str, Tensor]:
    """Compute the outputs by torch's own operators, some rows at a time."""
    found = _compute(problem, tensors, tensors["x"].dtype)
    if problem.operation == FORWARD:
        return {name: each.float() for name, each in found.items()}
    return found


def _compute(problem: Problem, tensors: Tensors, dtype: torch.dtype) -> dict[str, Tensor]:
    backward = problem.operation == BACKWARD
    x, weight = (tensors[n].detach().to(dtype).requires_grad_(backward) for n in ("x", "weight"))
    precise = torch.float64 if dtype == torch.float64 else torch.float32
    found: dict[str, list[Tensor]] = {"loss": [], "lse": []}
    with torch.set_grad_enabled(backward):
        for rows, logits in _logits(problem, {"x": x, "weight": weight}, dtype):
            target, wide = tensors["target"][rows], logits.to(precise)
            loss = F.cross_entropy(
                wide,
                target,
                ignore_index=_ignored(problem),
                reduction="none",
                label_smoothing=setting(problem, "smoothing"),
            )
            if backward:
                loss.backward(tensors["dloss"][rows].to(precise))
            found["loss"].append(loss.detach())
            found["lse"].append(wide.detach().logsumexp(-1))
    if backward:
        zero = {"dx": (x.grad, x), "dweight": (weight.grad, weight)}
        return {n: torch.zeros_like(of) if g is None else g for n, (g, of) in zero.items()}
    empty = tensors["x"].new_zeros(0, dtype=precise)
    return {name: torch.cat(each) if each else empty for name, each in found.items()}


# --- the kernels ----------------------------------------------------------------------------------


def run(problem: Problem, tensors: Tensors, plan: LaunchPlan) -> dict[str, Tensor]:
    """Return the outputs by the plan's launches."""
    x, weight = tensors["x"], tensors["weight"]
    if not plan.launches:
        if problem.operation == BACKWARD:
            return {"dx": torch.zeros_like(x), "dweight": torch.zeros_like(weight)}
        return dict.fromkeys(("loss", "lse"), x.new_zeros(problem.rows, dtype=torch.float32))
    smoothing, classes = setting(problem, "smoothing"), classes_of(problem)
    values: dict[str, Any] = {
        **{f"{name}_ptr": tensor for name, tensor in tensors.items()},
        "classes": classes,
        "cap": setting(problem, "softcap"),
        "ignored": _ignored(problem),
        "kept": 1.0 - smoothing,
        "share": smoothing / classes,
    }
    if plan.variant == "fused":
        return _run_tiles(problem, x, values, plan)
    chunk = int(str(plan.launches[0].constants["CHUNK"]))
    buffer = x.new_empty((problem.rows, chunk))

    def launch(first: int) -> Tensor:
        """Make the logits from class ``first`` on, and launch the plan on them."""
        columns = min(chunk, classes - first)
        logits = buffer[:, :columns]
        torch.mm(x, weight[first : first + columns].T, out=logits)
        place = {"logits_ptr": logits, "first": first, "columns": columns, "stride": chunk}
        _launching.launch(sys.modules[__name__], plan, values | place)
        return logits

    if problem.operation == BACKWARD:
        return _gradients(x, weight, chunk, launch)
    arrays = ("loss", "lse", "peaks", "totals", "picked", "sums")
    rows = {name: x.new_empty(problem.rows, dtype=torch.float32) for name in arrays}
    values |= {f"{name}_ptr": each for name, each in rows.items()}
    for first in range(0, classes, chunk):
        launch(first)
    return {"loss": rows["loss"], "lse": rows["lse"]}


def _run_tiles(
    problem: Problem, x: Tensor, values: Mapping[str, Any], plan: LaunchPlan
) -> dict[str, Tensor]:
    """Return the losses by two kernels of our own; with a reduction also their sum or mean,
    and what the sum was multiplied by."""
    tiles = plan.launches[0].grid[0]
    shapes: dict[str, tuple[int, ...]] = dict.fromkeys(
        ("peaks", "totals", "sums"), (tiles, problem.rows)
    )
    shapes |= dict.fromkeys(("picked", "loss", "lse"), (problem.rows,))
    shapes |= {"total": (), "scale": ()}
    made = {name: x.new_empty(shape, dtype=torch.float32) for name, shape in shapes.items()}
    numbers = {"rows": problem.rows, "columns": problem.columns, "tiles": tiles}
    pointers = {f"{name}_ptr": each for name, each in made.items()}
    _launching.launch(sys.modules[__name__], plan, {**values, **numbers, **pointers})
    reduced = bool(plan.launches[1].constants["REDUCED"])
    names = ("loss", "lse", "total", "scale") if reduced else ("loss", "lse")
    return {name: made[name] for name in names}


def _gradients(
    x: Tensor, weight: Tensor, chunk: int, launch: Callable[[int], Tensor]
) -> dict[str, Tensor]:
    dweight = torch.empty_like(weight)
    if chunk >= len(weight):  # nothing to add up
        logits = launch(0)
        torch.mm(logits.T, x, out=dweight)
        return {"dx": torch.mm(logits, weight), "dweight": dweight}
    total, end = _float_sum(x, dweight, chunk)
    total.zero_()
    dx = total if end == len(weight) and total.dtype == x.dtype else None
    for first in range(0, len(weight), chunk):
        logits = launch(first)
        if first >= end and dx is None:
            dx = total.to(x.dtype)  # before the next line writes where the sum is
        torch.mm(logits.T, x, out=dweight[first : first + chunk])
        _add_product(total if dx is None else dx, logits, weight[first : first + chunk])
    return {"dx": total.to(x.dtype) if dx is None else dx, "dweight": dweight}


def _float_sum(x: Tensor, dweight: Tensor, chunk: int) -> tuple[Tensor, int]:
    """Return memory of ``x``'s shape for sums in float32, and the class at which it ends to be
    free: it is that of the last gradients of ``weight``, if they are half of them or fewer."""
    classes = len(dweight)
    if x.dtype == torch.float32 or not x.numel():
        return torch.empty_like(x, dtype=torch.float32), classes
    taken = -(-x.numel() * 4 // (dweight.element_size() * dweight.shape[1]))
    if 2 * taken > classes or dweight.shape[1] % 8:
        return torch.empty_like(x, dtype=torch.float32), classes
    memory = dweight[classes - taken :].view(-1).view(torch.float32)
    return memory[: x.numel()].view_as(x), (classes - taken) // chunk * chunk


def _add_product(total: Tensor, left: Tensor, right: Tensor) -> None:
    if total.dtype == left.dtype:
        total.addmm_(left, right)
    elif total.device.type == "cuda":
        torch.addmm(total, left, right, out_dtype=total.dtype, out=total)
    else:
        total.addmm_(left.to(total.dtype), right.to(total.dtype))


def function(name: str) -> Any:
    """Return the ``@triton.jit`` function of that name."""
    return getattr(fused if hasattr(fused, name) else chunks, name)
