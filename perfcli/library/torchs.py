"""How torch's own objects are sent to a worker: by what describes them."""

from __future__ import annotations

from typing import Any

from perfcli.compile import given


def described(torch: Any, value: Any, devices: set[str]) -> Any:
    """As ``__reduce__`` says it; None for what is not torch's, or is sent like anything else.
    Kinds of devices of tensors are added to ``devices``.

    Raises TypeError for what no description stands for.
    """
    if isinstance(value, torch.Tensor):
        return given.tensor, _tensor(torch, value, devices)
    if isinstance(value, torch.device):
        return given.device, (value.type,)
    if isinstance(value, torch._ops.OpOverload):
        return given.operator, (value._schema.name, value._overloadname)
    if isinstance(value, torch._ops.OpOverloadPacket):
        return given.operator, (value._qualified_op_name, None)
    if isinstance(value, torch.nn.Module) and hasattr(value, "_orig_mod"):
        return given.same, (value._orig_mod,)
    if isinstance(value, torch.Generator):
        raise TypeError("a torch.Generator belongs to the device of this process")
    return None


def _tensor(torch: Any, value: Any, devices: set[str]) -> tuple[Any, ...]:
    """The arguments of ``given.tensor``."""
    kind = type(value)
    if kind not in (torch.Tensor, torch.nn.Parameter) and kind.__name__ != "FakeTensor":
        raise TypeError(
            f"a {kind.__name__} is a subclass of torch.Tensor; plain tensors and parameters are "
            "described by shape, strides and dtype"
        )
    if value.layout is not torch.strided or value.is_quantized:
        raise TypeError(f"a tensor of layout {value.layout} or quantised; strided ones are sent")
    devices.add(value.device.type)
    return (
        tuple(map(int, value.shape)),
        tuple(map(int, value.stride())),
        int(value.storage_offset()),
        value.dtype,
        value.device.type,
        bool(value.requires_grad),
        isinstance(value, torch.nn.Parameter),
    )


def eager(fn: Any) -> Any:
    """What ``torch.compile`` was applied to, since it is applied again; others as they are.
    ``torch.compiler.disable`` wraps in the same way (seen in torch 2.11 to 2.15)."""
    if hasattr(fn, "_orig_mod"):
        return fn._orig_mod
    inner = getattr(fn, "_torchdynamo_orig_callable", None)
    # functools.wraps copies these attributes to wrappers of the user's own.
    copied = getattr(fn, "_torchdynamo_wrapper_id", id(fn)) != id(fn)
    disabled = getattr(fn, "_torchdynamo_disable", False)
    return fn if inner is None or copied or disabled else inner
