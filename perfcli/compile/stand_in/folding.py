"""Folds constant subgraphs on the CPU, where Inductor computes them on the device. Folding decides
values (bf16 rounds -65504 to -65536) and names, so it cannot be left out.

Tracing does the same with constants of the model: what is made of a tensor of one element whose
value is known is computed at once, a copy to the device included.

Seen with torch 2.11 to 2.15: ``fx_passes.joint_graph.UniformValueConstantFolder``, which works
on tensors of one element, and ``proxy_tensor.unset_fake_temporarily`` around the constants.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from perfcli.compile.stand_in.device import replace


def install() -> None:
    """Replace what folds constants. Raises CompileFailed with the name that this torch lacks."""
    from torch._inductor.fx_passes import joint_graph
    from torch._inductor.graph import GraphLowering
    from torch.fx.experimental import proxy_tensor

    replace(proxy_tensor, "unset_fake_temporarily", _real_on_cpu(proxy_tensor))
    folder = joint_graph.UniformValueConstantFolder
    replace(folder, "__init__", _wrap_on_cpu(folder.__init__))
    replace(folder, "run", _wrap_on_cpu(folder.run))
    replace(folder, "add_node_replacement", _fold_known_only(folder.add_node_replacement))
    replace(GraphLowering, "constant_name", _copy_on_cpu(GraphLowering.constant_name))


def _wrap_on_cpu(function: Any) -> Any:
    """Return the function with every device argument below it replaced by the CPU."""

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        with _cpu_mode():
            return function(*args, **kwargs)

    return run


def _real_on_cpu(proxy_tensor: Any) -> Any:
    """Compute on the CPU what tracing computes with real values."""
    unset = proxy_tensor.unset_fake_temporarily

    @contextmanager
    def real() -> Iterator[Any]:
        with unset() as mode, _cpu_mode():
            yield mode

    return real


def _copy_on_cpu(function: Any) -> Any:
    """Copy a constant of the graph that is needed on the device, an index of a fancy lookup, from
    the CPU to the CPU; its name says the device all the same."""

    @functools.wraps(function)
    def constant_name(self: Any, name: str, device: Any) -> str:
        import torch

        held = self.constants[name]
        if device is None or held.device == device or device.type == "cpu":
            return str(function(self, name, device))
        copied = f"{name}_{device.type}{device.index or 0}"
        with torch.utils._python_dispatch._disable_current_modes():
            return str(self.allocate_non_dup_const_name(copied, held.clone()))

    return constant_name


def _cpu_mode() -> Any:
    from torch.utils._python_dispatch import TorchDispatchMode

    class OnCpu(TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(
            self, func: Any, _types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            kwargs = {name: _move_to_cpu(value) for name, value in (kwargs or {}).items()}
            return func(*(_move_to_cpu(value) for value in args), **kwargs)

    return OnCpu()


def _move_to_cpu(value: Any) -> Any:
    import torch

    if isinstance(value, torch.device) and value.type != "meta":
        return torch.device("cpu")
    return value


def _fold_known_only(function: Any) -> Any:
    """Fold a constant only where its value is kept: a constant of the model can be a fake tensor
    here."""
    from torch._subclasses.fake_tensor import FakeTensor

    @functools.wraps(function)
    def add(self: Any, node: Any, tensor: Any) -> None:
        if isinstance(tensor, FakeTensor):
            if tensor.constant is None:
                return
            tensor = tensor.constant
        function(self, node, tensor)

    return add
