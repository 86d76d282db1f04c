"""Gives a script tensors: those of the device are fake, without memory and values; those of the
host stay real as long as they are small, so that sizes, orders and schedules that are computed from
them are what they are everywhere.

Of a fake tensor one value is known where it is the same everywhere: ``torch.ones`` and what is
computed from it. All other values that a script reads are assumed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

MOST_ELEMENTS = 1 << 20
"""Of a real tensor: larger ones cost time, and nobody reads their values."""


def make_mode() -> Any:
    """Return a ``FakeTensorMode`` that leaves what happens on the host alone."""
    from torch._subclasses import FakeTensorMode

    class HostValues(FakeTensorMode):  # type: ignore[misc]
        def __torch_dispatch__(
            self,
            func: Any,
            types: Sequence[type],
            args: Sequence[Any] = (),
            kwargs: Mapping[str, Any] | None = None,
        ) -> Any:
            own = dict(kwargs or {})
            if func._schema.name in _PINNING:
                return args[0] if func._schema.name != "aten::is_pinned" else False
            own.pop("pin_memory", None)
            if _stays_on_host(args, own):
                return func(*args, **own)
            return super().__torch_dispatch__(func, types, args, own)

    return HostValues(allow_non_fake_inputs=True)


_PINNING = ("aten::_pin_memory", "aten::pin_memory", "aten::is_pinned")


def _stays_on_host(args: Any, kwargs: Mapping[str, Any]) -> bool:
    """Return whether an operator has only real tensors of the host to work on, makes none of the
    device, and none that is large."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensor

    device = kwargs.get("device")
    if device is not None and torch.device(device).type not in ("cpu", "meta"):
        return False
    elements = 0
    for value in _flatten(args, kwargs):
        if isinstance(value, FakeTensor):
            return False
        if isinstance(value, torch.Tensor):
            if value.device.type not in ("cpu", "meta"):
                return False
            elements += value.numel() if value.device.type == "cpu" else 0
        elif isinstance(value, torch.device) and value.type not in ("cpu", "meta"):
            return False
    if elements == 0 and (device is None or torch.device(device).type == "cpu"):
        elements = _asked_elements(args)
    return elements <= MOST_ELEMENTS


def _flatten(args: Any, kwargs: Mapping[str, Any]) -> list[Any]:
    found: list[Any] = []
    for value in (*args, *kwargs.values()):
        found += value if isinstance(value, list | tuple) else [value]
    return found


def _asked_elements(args: Any) -> int:
    """Return how many elements a factory is asked for: ``empty([8, 128])``, ``arange(1000)``."""
    for value in args:
        if isinstance(value, list | tuple) and all(isinstance(n, int) for n in value):
            return math.prod(value)
    return max((n for n in args if isinstance(n, int) and not isinstance(n, bool)), default=0)
