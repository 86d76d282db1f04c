"""Puts everything that a step may change back after it was run for another reason than timing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from perfcli.compile.building import modules_of, optimizers_of
from perfcli.model import Workload


class Snapshot:
    """Holds values of parameters, buffers, inputs and the state of optimizers, the gradients that a
    step finds, and the state of the random generators."""

    def __init__(self, workload: Workload) -> None:
        self._tensors = state_of(workload)
        self._random = random_state()
        self.values = {name: t.detach().clone() for name, t in self._tensors.items()}
        self._gradients = [
            (leaf, leaf.grad, None if leaf.grad is None else leaf.grad.detach().clone())
            for leaf in _leaves_of_step(workload)
        ]

    def restore(self) -> None:
        """Restore the values into the same memory: compiled code may hold on to addresses."""
        import torch

        with torch.no_grad():
            for name, tensor in self._tensors.items():
                # Most are only read: not written to, they cost nothing and keep their version.
                if not _equal(tensor, self.values[name]):
                    tensor.copy_(self.values[name])
            for leaf, gradient, value in self._gradients:
                leaf.grad = gradient
                if gradient is not None:
                    gradient.copy_(value)
        cpu, device = self._random
        torch.set_rng_state(cpu)
        if device is not None:
            torch.cuda.set_rng_state(device)

    def changed(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """Return copies of those of ``state`` that are not what they were."""
        return {
            name: tensor.detach().clone()
            for name, tensor in state.items()
            if name in self.values and not _equal(tensor, self.values[name])
        }


def state_of(workload: Workload) -> dict[str, Any]:
    """Return tensors that a call could change in place, by name."""
    found = dict(named_leaves(workload, all_inputs=True))
    for module in modules_of(workload.call):
        found.update(module.named_buffers())
    for number, optimizer in enumerate(optimizers_of(workload.call)):
        found.update(_named_state(optimizer, f"optimizer {number}", found.values()))
    return {name: t for name, t in found.items() if not _overlaps(t)}


def _named_state(optimizer: Any, name: str, known: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    """Yield an optimizer's parameters that are not known from a module, its state, and a learning
    rate that is a tensor."""
    import torch

    seen = {id(tensor) for tensor in known}
    for number, group in enumerate(optimizer.param_groups):
        for key, value in group.items():
            if isinstance(value, torch.Tensor):
                yield f"{name} group {number} {key}", value
        for place, parameter in enumerate(group["params"]):
            if id(parameter) not in seen:
                yield f"{name} group {number} parameter {place}", parameter
            for key, value in optimizer.state.get(parameter, {}).items():
                if isinstance(value, torch.Tensor):
                    yield f"{name} group {number} {key} {place}", value


def _leaves_of_step(workload: Workload) -> list[Any]:
    """Return the tensors whose gradients a whole step may use or leave behind; none for a step that
    begins without gradients."""
    if workload.mode != "step":
        return []
    found = {id(leaf): leaf for _, leaf in named_leaves(workload)}
    for optimizer in optimizers_of(workload.call):
        for group in optimizer.param_groups:
            found |= {id(parameter): parameter for parameter in group["params"]}
    return list(found.values())


def named_leaves(workload: Workload, all_inputs: bool = False) -> Iterator[tuple[str, Any]]:
    """Yield the model's parameters, and inputs that require a gradient (or all)."""
    import torch
    from torch.utils import _pytree

    for module in modules_of(workload.call):
        yield from module.named_parameters()
    inputs = [(f"input {n}", value) for n, value in enumerate(workload.inputs)]
    for name, value in (*inputs, *((f"input {k}", v) for k, v in workload.kwargs.items())):
        parts = _pytree.tree_leaves(value)
        for number, part in enumerate(parts):
            if isinstance(part, torch.Tensor) and (all_inputs or part.requires_grad):
                yield (name if len(parts) == 1 else f"{name}[{number}]"), part


def random_state() -> tuple[Any, Any]:
    """Return the state of the CPU's generator, and of the current GPU's where one is in use."""
    import torch

    in_use = torch.cuda.is_available() and torch.cuda.is_initialized()
    return torch.get_rng_state(), torch.cuda.get_rng_state() if in_use else None


def has_drawn(before: tuple[Any, Any], after: tuple[Any, Any]) -> bool:
    """Return whether random numbers were drawn between two states."""
    import torch

    pairs = zip(before, after, strict=True)
    return any(a is not None and b is not None and not torch.equal(a, b) for a, b in pairs)


def _equal(tensor: Any, saved: Any) -> bool:
    import torch

    with torch.no_grad():
        return bool(tensor.shape == saved.shape and torch.equal(tensor, saved.to(tensor.dtype)))


def _overlaps(tensor: Any) -> bool:
    """Return whether a tensor is expanded: several elements are one, so nothing can be written to
    it."""
    import torch

    if tensor.layout != torch.strided or tensor.is_nested:
        return False
    return any(n > 1 and step == 0 for n, step in zip(tensor.size(), tensor.stride(), strict=True))
