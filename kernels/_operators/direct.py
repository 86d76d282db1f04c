"""Calls an operator from Python straight to its kernels, where nothing stands between: torch's
dispatcher takes longer than a launch.

Whatever else could have a say sends the call to the dispatcher: autocast, modes, torch.compile and
other tracers, the transforms of ``torch.func``, profilers, tensors that are more than memory with
strides; and so does a layout that has not been there yet.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .replay import IS_WATCHED, PlanReplay, Records, define

_SEES = {
    "compiles": torch.compiler.is_dynamo_compiling,
    "has_mode": torch._C._len_torch_dispatch_stack,
    "has_function_mode": torch._C._is_torch_function_mode_enabled,
    "transforms": torch._C._are_functorch_transforms_active,
    "traces": torch._C._is_tracing,
    "casts": torch.is_autocast_enabled,
    "profiles": torch.autograd._profiler_enabled,
}
"""What has a say in a call; torch.compile's first, which sees nothing behind it."""


def make_direct(
    replay: PlanReplay, operator: Callable[..., Any], node: Any, first: Records | None = None
) -> Callable[..., Any]:
    """Return a function of an operator's arguments. ``node`` is autograd's function of what
    computes the outputs and the arguments; ``first`` is given for an operator, and a node, that
    return the first output of ``replay`` alone."""
    parameters = replay.parameters
    tensors = [name for kind, name in parameters if kind == "Tensor"]
    lists = [name for kind, name in parameters if kind == "Tensor[]"]
    strange = [f"type({each}) not in plain or {each}.is_neg()" for each in tensors]
    strange += [f"type({each}) not in (list, tuple) or is_strange({each})" for each in lists]
    needs = [f"{each}.requires_grad" for each in tensors]
    needs += [f"any([t.requires_grad for t in {each}])" for each in lists]
    spread = ", ".join(f"*{name}" if name in lists else name for _, name in parameters)
    accepted = ", ".join(
        name if default is inspect.Parameter.empty else f"{name}={default!r}"
        for (_, name), default in zip(parameters, replay.defaults, strict=True)
    )
    text = f"""
def call({accepted}):
    if {" or ".join(f"{each}()" for each in _SEES)} or {" or ".join(strange)}:
        return operator({replay.given})
    try:
        key = {replay.write_key()}
    except RuntimeError:
        return operator({replay.given})
    if has_grad() and ({" or ".join(needs)}):
        found = get_all(key)
        if found is not None and not {IS_WATCHED}:
            return apply(found, {spread})
    else:
        found = get(key)
        if found is not None and not {IS_WATCHED}:
            return found({replay.given})
    return operator({replay.given})
"""
    names = {
        **_SEES,
        "operator": operator,
        "plain": _PLAIN,
        "is_strange": _is_strange,
        "has_grad": torch.is_grad_enabled,
        "get_all": replay.direct.get,
        "get": replay.direct.get if first is None else first.get,
        "apply": super(torch.autograd.Function, node).apply,
    }
    return define("call", text, names)


_PLAIN = frozenset((Tensor, torch.nn.Parameter))


def _is_strange(tensors: Any) -> bool:
    return not _PLAIN.issuperset(map(type, tensors)) or any(x.is_neg() for x in tensors)
