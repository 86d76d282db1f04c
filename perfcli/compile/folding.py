"""Inductor folds constant subgraphs by computing them on the device; here they are computed on
the CPU. It decides values (bf16 rounds -65504 to -65536) and names, so it cannot be left out.

Seen with torch 2.11 to 2.15: ``fx_passes.joint_graph.UniformValueConstantFolder``, which works
on tensors of one element.
"""

from __future__ import annotations

import functools
from typing import Any

from perfcli.compile.standins import replace


def install() -> None:
    from torch._inductor.fx_passes import joint_graph

    folder = joint_graph.UniformValueConstantFolder
    replace(folder, "__init__", _on_cpu(folder.__init__))
    replace(folder, "run", _on_cpu(folder.run))
    replace(folder, "add_node_replacement", _known_only(folder.add_node_replacement))


def _on_cpu(function: Any) -> Any:
    """The function with every device argument below it replaced by the CPU."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class OnCpu(TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(
            self, func: Any, _types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            kwargs = {name: _cpu(value) for name, value in (kwargs or {}).items()}
            return func(*(_cpu(value) for value in args), **kwargs)

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        with OnCpu():
            return function(*args, **kwargs)

    return run


def _cpu(value: Any) -> Any:
    import torch

    if isinstance(value, torch.device) and value.type != "meta":
        return torch.device("cpu")
    return value


def _known_only(function: Any) -> Any:
    """A constant of the model can be a fake tensor here: folded where its value is kept."""
    from torch._subclasses.fake_tensor import FakeTensor

    @functools.wraps(function)
    def add(self: Any, node: Any, tensor: Any) -> None:
        if isinstance(tensor, FakeTensor):
            if tensor.constant is None:
                return
            tensor = tensor.constant
        function(self, node, tensor)

    return add
