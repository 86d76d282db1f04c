"""Lets compiled optimizers make their state, which Dynamo has them do while it traces, with fake
tensors: it turns all modes off for that, and parameters that are fake have no memory to make
real state beside.

Seen with torch 2.11 to 2.13: ``OptimizerVariable.call_method`` runs the optimizer's own
``_init_group``.
"""

from __future__ import annotations

import functools
from typing import Any

from perfcli.compile.stand_in.device import replace_attribute


def install(mode: Any) -> None:
    """Run ``_init_group`` under ``mode`` (a ``FakeTensorMode``) when Dynamo asks for it, and what
    moves the number of steps, which a script has as a real tensor, to the device."""
    from torch._dynamo.variables.optimizer import OptimizerVariable

    original = OptimizerVariable.call_method

    @functools.wraps(original)
    def call_method(self: Any, tx: Any, name: str, *args: Any, **kwargs: Any) -> Any:
        optimizer = self.value
        if name != "_init_group" or not hasattr(optimizer, name):
            return original(self, tx, name, *args, **kwargs)
        own = vars(optimizer).get(name)
        optimizer._init_group = _run_under(mode, optimizer._init_group)
        try:
            return original(self, tx, name, *args, **kwargs)
        finally:
            del optimizer._init_group
            if own is not None:
                optimizer._init_group = own

    replace_attribute(OptimizerVariable, "call_method", call_method)
    move = getattr(OptimizerVariable, "move_step_if_cpu", None)
    if move is not None:
        replace_attribute(OptimizerVariable, "move_step_if_cpu", _run_under(mode, move))


def _run_under(mode: Any, function: Any) -> Any:
    def run(*args: Any, **kwargs: Any) -> Any:
        with mode:
            return function(*args, **kwargs)

    return run
