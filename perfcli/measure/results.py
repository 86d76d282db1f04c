"""Calls a workload once, compiled or not, and collects all tensors that came of it, by name."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from perfcli.compile import tracing
from perfcli.compile.building import modules_of
from perfcli.measure import snapshot
from perfcli.model import Workload


@dataclass(frozen=True, slots=True)
class Results:
    outputs: Mapping[str, Any]
    gradients: Mapping[str, Any] = field(default_factory=dict)
    """Gradients of the leaves; only of those that got one."""
    changed: Mapping[str, Any] = field(default_factory=dict)
    """Buffers and inputs that were written to."""
    random: bool = False
    """Random numbers were drawn: another implementation draws others."""
    before: Mapping[str, Any] = field(default_factory=dict)
    """The values before the call of what ``changed`` changed, and of all that could have been."""


def collect_results(
    call: Callable[..., Any], workload: Workload, before: snapshot.Snapshot, seed: int
) -> Results:
    """Return the results of ``call`` with the workload's inputs, mode and autocast. What it changed
    in place stays changed."""
    import torch

    torch.manual_seed(seed)
    state = snapshot.random_state()
    leaves = dict(snapshot.named_leaves(workload))
    with tracing.autocast(workload), torch.set_grad_enabled(workload.mode != "forward"):
        result = call(*workload.inputs, **workload.kwargs)
        if workload.mode == "training":
            tracing.backward(result, _fixed_gradient)
    drew = snapshot.has_drawn(state, snapshot.random_state())
    gradients = {name: leaf.grad.detach() for name, leaf in leaves.items() if leaf.grad is not None}
    if workload.mode == "step":  # they lie in the memory that is put back
        gradients = {name: gradient.clone() for name, gradient in gradients.items()}
    for leaf in leaves.values():
        leaf.grad = None
    changed = before.changed(snapshot.state_of(workload))
    return Results(tensors(result), gradients, changed, drew, before.values)


def _fixed_gradient(output: Any) -> Any:
    """Return the gradient of an output: 1 for a loss, else the same random numbers whichever dtype.

    Not ones: rows of a softmax or a norm sum to a constant, whose gradient is rounding alone.
    """
    import torch

    ones = torch.ones_like(output)
    if output.numel() == 1:
        return ones
    generator = torch.Generator(device=output.device).manual_seed(output.numel())
    noise = torch.randn(
        output.shape, generator=generator, device=output.device, dtype=torch.float32
    )
    return ones.copy_(noise.bfloat16())


def tensors(result: Any) -> dict[str, Any]:
    """Return copies of a result's tensors: memory of compiled code may be written to again."""
    return {name: tensor.detach().clone() for name, tensor in _name_tensors(result, "output")}


def _name_tensors(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Yield name and tensor through what pytree knows, and through mappings and dataclasses that it
    does not (the model outputs of transformers, where they are not registered)."""
    import torch
    from torch.utils import _pytree

    if isinstance(value, torch.Tensor):
        yield name, value
    elif isinstance(value, Mapping):
        for key, part in value.items():
            yield from _name_tensors(part, f"{name} {key}")
    elif isinstance(value, tuple | list):
        for number, part in enumerate(value):
            yield from _name_tensors(part, f"{name} {number}")
    elif dataclasses.is_dataclass(value):
        for each in dataclasses.fields(value):
            yield from _name_tensors(getattr(value, each.name), f"{name} {each.name}")
    elif (parts := _pytree.tree_leaves(value)) and parts[0] is not value:
        yield from _name_tensors(parts, name)


@contextlib.contextmanager
def convert_to_float64(workload: Workload) -> Iterator[Workload]:
    """Yield the workload with all that is in floating point exactly converted, without autocast.
    Its modules hold other tensors meanwhile; their own stay where they are in memory."""
    converted: dict[int, Any] = {}
    tables = [
        table
        for module in modules_of(workload.call)
        for part in module.modules()
        for table in (part._parameters, part._buffers)
    ]
    saved = [dict(table) for table in tables]
    try:
        for table in tables:
            for name, tensor in table.items():
                if tensor is not None:
                    table[name] = converted.setdefault(id(tensor), _double(tensor))
        yield double_inputs(workload)
    finally:
        for table, before in zip(tables, saved, strict=True):
            table.update(before)


def double_inputs(workload: Workload) -> Workload:
    """Return only the inputs; module and function as they are."""
    import torch
    from torch.utils import _pytree

    inputs, kwargs = _pytree.tree_map_only(
        torch.Tensor, _double, (workload.inputs, dict(workload.kwargs))
    )
    return replace(workload, inputs=tuple(inputs), kwargs=kwargs, autocast=None)


def _double(tensor: Any) -> Any:
    """Return the tensor in float64, as a leaf of its own; integers are copied, so that nothing is
    written to them."""
    import torch

    new = tensor.detach().clone()
    if tensor.is_floating_point():
        new = new.double()
    elif tensor.is_complex():
        new = new.to(torch.complex128)
    if isinstance(tensor, torch.nn.Parameter):
        return torch.nn.Parameter(new, requires_grad=tensor.requires_grad)
    return new.requires_grad_(tensor.requires_grad)
