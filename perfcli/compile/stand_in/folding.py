"""Folds constant subgraphs on the CPU, where Inductor computes them on the device. Folding decides
values (bf16 rounds -65504 to -65536) and names, so it cannot be left out.

Tracing does the same with constants of the model: what is made of a tensor of one element whose
value is known is computed at once, a copy to the device included. ``torch.tensor([…],
device="cuda")`` is a constant of the device there. Without one, torch makes it on the CPU and
traces a copy, which is taken out again.

Seen with torch 2.11 to 2.15: ``fx_passes.joint_graph.UniformValueConstantFolder``, which works
on tensors of one element, ``proxy_tensor.unset_fake_temporarily`` around the constants, and
``source_fn_stack``, which says what call of the model a node comes from.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from perfcli.compile.stand_in.device import replace_attribute


def install() -> None:
    """Replace what folds constants. Raises CompileFailed with the name that this torch lacks."""
    from torch._inductor import compile_fx
    from torch._inductor.fx_passes import joint_graph
    from torch._inductor.graph import GraphLowering
    from torch.fx.experimental import proxy_tensor

    replace_attribute(proxy_tensor, "unset_fake_temporarily", _real_on_cpu(proxy_tensor))
    folder = joint_graph.UniformValueConstantFolder
    replace_attribute(folder, "__init__", _wrap_on_cpu(folder.__init__))
    replace_attribute(folder, "run", _wrap_on_cpu(folder.run))
    replace_attribute(folder, "add_node_replacement", _fold_known_only(folder.add_node_replacement))
    replace_attribute(GraphLowering, "constant_name", _copy_on_cpu(GraphLowering.constant_name))
    passes = compile_fx.joint_graph_passes
    replace_attribute(compile_fx, "joint_graph_passes", _make_constants_first(passes))
    replace_attribute(GraphLowering, "get_attr", _place_on_device(GraphLowering.get_attr))


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


def _make_constants_first(function: Any) -> Any:
    """Make constants that ``torch.tensor`` was to make on the device before a graph's passes."""

    @functools.wraps(function)
    def run(graph: Any, *args: Any, **kwargs: Any) -> Any:
        _make_constants(graph)
        return function(graph, *args, **kwargs)

    return run


_VALUES = "constant_values"
"""What a node's constant holds, where a fake tensor stands in the node's module."""


def _make_constants(module: Any) -> None:
    """Take out copies of constants to the device that belong to the call which made the constant.
    Another call's, as in ``torch.tensor([…]).to("cuda")``, is a copy on a device, too."""
    import torch

    copies = (torch.ops.prims.device_put.default, torch.ops.aten._to_copy.default)
    for copy in [node for node in module.graph.nodes if node.target in copies]:
        fresh = copy.args[0]
        made_by, copied_by = fresh.meta.get("source_fn_stack"), copy.meta.get("source_fn_stack")
        if (
            fresh.target is not torch.ops.aten.lift_fresh_copy.default
            or not made_by
            or not copied_by
            or made_by[-1] != copied_by[-1]
        ):
            continue
        constant, on_device = fresh.args[0], copy.meta["val"]
        held = getattr(module, str(constant.target), None)
        if not isinstance(held, torch.Tensor) or _is_uniform(held):
            continue
        constant.meta |= {"val": on_device, _VALUES: held}
        fresh.meta["val"] = on_device
        with on_device.fake_mode:
            fake = torch.empty_like(on_device)
        # Graphs are copied with what they hold, which a fake tensor refuses.
        fake.__deepcopy__ = functools.partial(lambda same, _memo: same, fake)
        setattr(module, str(constant.target), fake)
        copy.replace_all_uses_with(fresh)
        module.graph.erase_node(copy)


def _is_uniform(held: Any) -> bool:
    """Return whether all elements are the same: Inductor folds the copy and all."""
    import torch

    with torch.utils._python_dispatch._disable_current_modes():
        return bool((held == held.flatten()[:1]).all())


def _place_on_device(function: Any) -> Any:
    """Lower a constant of the device with its values, which are on the CPU."""
    import torch
    from torch._inductor import ir
    from torch._inductor.lowering import tensor

    @functools.wraps(function)
    def get_attr(self: Any, target: Any, args: Any, kwargs: Any) -> Any:
        held = self.current_node.meta.get(_VALUES)
        if held is None:
            return function(self, target, args, kwargs)
        device = self.current_node.meta["val"].device
        if self.can_inline_constant(held):
            with torch.utils._python_dispatch._disable_current_modes():
                values = held.tolist()
            return tensor(values, dtype=held.dtype, device=device)
        found = self.add_tensor_constant(held, target)
        buffer = found.data.data
        assert isinstance(buffer, ir.ConstantBuffer)
        buffer.layout.device = device
        return found

    return get_attr
