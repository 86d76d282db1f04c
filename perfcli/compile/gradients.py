"""Tells whether a model that is compiled forward only looks as if it were meant to be trained."""

from __future__ import annotations

import contextlib
from typing import Any

from perfcli.loading.userfile import FORWARD_ONLY
from perfcli.model import Workload


def modules_of(call: Any) -> list[Any]:
    """Return the modules behind a callable: itself, a bound method's owner, a closure's cells."""
    import torch

    found = [call, getattr(call, "__self__", None)]
    for cell in getattr(call, "__closure__", None) or ():
        with contextlib.suppress(ValueError):  # an empty cell
            found.append(cell.cell_contents)
    return [item for item in found if isinstance(item, torch.nn.Module)]


def forward_only_notes(workload: Workload) -> tuple[str, ...]:
    """Return a note where nobody chose the mode, and parameters of a module in training mode, or
    inputs, require gradients. ``eval()`` says that none are wanted."""
    if not workload.mode_is_default or workload.mode != "forward":
        return ()
    modules = modules_of(workload.call)
    trained = [module for module in modules if module.training]
    if modules and not trained:
        return ()
    if any(p.requires_grad for module in trained for p in module.parameters()):
        return (f"parameters {FORWARD_ONLY}",)
    return (f"inputs {FORWARD_ONLY}",) if _inputs_require_gradients(workload) else ()


def _inputs_require_gradients(workload: Workload) -> bool:
    import torch
    from torch.utils import _pytree

    leaves: list[Any] = _pytree.tree_leaves((workload.inputs, dict(workload.kwargs)))
    return any(isinstance(leaf, torch.Tensor) and leaf.requires_grad for leaf in leaves)
