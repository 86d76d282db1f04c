"""Registers the hand-written kernels as operators of torch, ``torch.ops.perfcli.…``.

They have a fake implementation and a gradient, so they can stand in a model that is compiled with
torch.compile, with static shapes or dynamic ones. To Inductor each is one opaque call: nothing is
fused into it, which is what these kernels are for. Gradients of gradients are not there.

``perfcli.operators.register`` imports this module: importing it is what registers. The families'
planners choose kernels and launches at each call, from the tensors' sizes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from perfcli.model import Target

from . import calls, column_sum, cross_entropy, layernorm, linear_cross_entropy, rmsnorm, softmax

SCHEMAS = {
    **softmax.SCHEMAS,
    **cross_entropy.SCHEMAS,
    **linear_cross_entropy.SCHEMAS,
    **rmsnorm.SCHEMAS,
    **layernorm.SCHEMAS,
    **column_sum.SCHEMAS,
}
"""Every operator that is meant to be called, without its namespace."""


def register(target: Callable[[], Target]) -> Any:
    """Return ``torch.ops.perfcli``; ``target`` says what launches are planned for, and is asked
    once."""
    calls.plan_for(target)
    return torch.ops.perfcli
