"""Makes tensors of the inputs that were typed on the command line (``--input x=8x128:bf16``)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from perfcli.loading.inputs import GivenInput
from perfcli.model import Workload


def make_inputs(workload: Workload) -> tuple[Workload, tuple[str, ...]]:
    """Return the workload with a tensor or a plain value for each input that was typed, on the
    default device, and notes about what was done to the model for them."""
    given = (*workload.inputs, *workload.kwargs.values())
    typed = [each for each in given if isinstance(each, GivenInput)]
    if not typed:
        return workload, ()
    training = workload.mode == "training"

    def make(value: Any) -> Any:
        return _make(value, training) if isinstance(value, GivenInput) else value

    inputs = tuple(make(each) for each in workload.inputs)
    kwargs = {name: make(each) for name, each in workload.kwargs.items()}
    return replace(workload, inputs=inputs, kwargs=kwargs), _convert(workload.call, typed)


def _make(given: GivenInput, training: bool) -> Any:
    import torch

    if given.shape is None:
        return given.value
    dtype = getattr(torch, given.dtype)
    tensor = _fill(given, dtype)
    if given.layout:
        tensor = tensor.contiguous(memory_format=getattr(torch, given.layout))
    elif given.strides:
        placed = torch.empty_strided(given.shape, given.strides, dtype=dtype)
        tensor = placed.copy_(tensor)
    wanted = training and given.is_floating if given.grad is None else given.grad
    return tensor.requires_grad_() if wanted else tensor


def _fill(given: GivenInput, dtype: Any) -> Any:
    """Return a tensor with random values. Those of whole numbers are 0 or 1 unless ``below`` says
    otherwise: every table that they may be looked up in has as many entries."""
    import torch

    if given.is_floating:
        plain = dtype if dtype.itemsize > 1 else torch.float32
        return torch.randn(given.shape, dtype=plain).to(dtype)
    high = 2 if dtype is torch.bool else given.below or 2
    return torch.randint(0, high, given.shape, dtype=torch.int64).to(dtype)


def _convert(call: Any, typed: list[GivenInput]) -> tuple[str, ...]:
    """Convert a module, all of whose weights are float32, to the one half precision that all of
    its inputs have, and return a note of it: eager code would refuse most such calls."""
    import torch

    dtypes = {each.dtype for each in typed if each.shape is not None and each.is_floating}
    if not isinstance(call, torch.nn.Module) or dtypes not in ({"bfloat16"}, {"float16"}):
        return ()
    own = {t.dtype for t in (*call.parameters(), *call.buffers()) if t.is_floating_point()}
    if own != {torch.float32}:
        return ()
    (name,) = dtypes
    call.to(getattr(torch, name))
    return (
        f"the weights of {type(call).__name__} were float32 and its inputs are {name}: the model "
        f"was converted, as by .to(torch.{name})",
    )
