"""Registers the hand-written kernels as operators of torch, ``torch.ops.perfcli.…``, and gives
functions that call them.

They have a fake implementation and a gradient, so they can stand in a model that is compiled with
torch.compile, with static shapes or dynamic ones. To Inductor each is one opaque call: nothing is
fused into it, which is what these kernels are for. Gradients of gradients are not there.

``perfcli.operators.register`` imports this module: importing it is what registers. The families'
planners choose kernels and launches at the first call of each layout.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from perfcli.model import Target

from . import calls, column_sum, cross_entropy, layernorm, linear_cross_entropy, rmsnorm, softmax

MODULES = (softmax, cross_entropy, linear_cross_entropy, rmsnorm, layernorm, column_sum)
CALLS = SimpleNamespace(**{name: call for each in MODULES for name, call in each.CALLS.items()})
"""What calls every operator that is meant to be called."""


def register(target: Callable[[], Target]) -> Any:
    """Return what calls the operators; ``target`` says what launches are planned for, and is asked
    once."""
    calls.plan_for(target)
    return CALLS
