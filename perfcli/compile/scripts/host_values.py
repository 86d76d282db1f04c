"""Gives a script its tensors: those of the device are fake, without memory and values; those of the
host stay real as long as they are small, so that the sizes, orders and schedules that are computed
from them are what they are everywhere. Parameters are fake wherever they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from perfcli.compile.capture.eager_operators import EagerOperator, make_counting_mode
from perfcli.compile.capture.operator_tensors import count_asked_elements, list_tensors
from perfcli.compile.scripts.known_values import KnownValues
from perfcli.compile.stand_in.device import replace_for_block

MOST_ELEMENTS = 1 << 20
"""Of a real tensor: larger ones cost time and memory, and nobody decides by their values."""
_HOST = ("cpu", "meta")
_PINNING = ("aten::_pin_memory", "aten::pin_memory", "aten::is_pinned")


def make_mode(known: KnownValues, eager: list[EagerOperator]) -> Any:
    """Return a ``FakeTensorMode`` that leaves what happens on the host alone, and tells ``known``
    of all else, ``eager`` of what runs outside of graphs."""
    import torch
    import torch._dynamo
    from torch._ops import HigherOrderOperator

    class HostValues(make_counting_mode(eager)):  # type: ignore[misc]
        depth = 0
        """How many operators are being run: what they are made of inside is fake throughout."""

        @torch._dynamo.disable  # type: ignore[untyped-decorator]
        def __torch_dispatch__(
            self,
            func: Any,
            types: Sequence[type],
            args: Sequence[Any] = (),
            kwargs: Mapping[str, Any] | None = None,
        ) -> Any:
            own = dict(kwargs or {})
            if self.depth or isinstance(func, HigherOrderOperator):
                return super().__torch_dispatch__(func, types, args, own)
            if func._schema.name in _PINNING:
                return args[0] if func._schema.name != "aten::is_pinned" else False
            if _reached_whole(func):
                with self:
                    return func.decompose(*args, **own)
            own.pop("pin_memory", None)
            if _stays_on_host(args, own):
                return func(*args, **own)
            generator = own.get("generator")
            if generator is not None and generator.device.type not in _HOST:
                del own["generator"]  # one of the device has no numbers
            args, types = tuple(map(_unwrap, args)), tuple(_plain_types(types))
            with known.following(self, func, args, own) as followed:
                if not followed.is_answered:
                    self.depth += 1
                    try:
                        followed.result = super().__torch_dispatch__(func, types, args, own)
                    finally:
                        self.depth -= 1
            return followed.result

    return HostValues(allow_non_fake_inputs=True)


def _reached_whole(func: Any) -> Any:
    """Return whether an operator that is made of others has come as a whole: inference mode leaves
    out autograd, which takes them apart everywhere else before they get here."""
    import torch

    of_torchscript = func.namespace == "prim"  # the dispatcher does not know them
    return torch.is_inference_mode_enabled() and not of_torchscript and func._can_decompose()


def _stays_on_host(args: Any, kwargs: Mapping[str, Any]) -> bool:
    """Return whether an operator has only real tensors of the host to work on, makes none of the
    device, and none that is large."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensor

    device = kwargs.get("device")
    if device is not None and torch.device(device).type not in _HOST:
        return False
    elements = 0
    given = (*args, *kwargs.values())
    if any(isinstance(value, torch.device) and value.type not in _HOST for value in given):
        return False
    for value in list_tensors(given):
        if isinstance(value, FakeTensor) or value.device.type not in _HOST:
            return False
        elements += value.numel() if value.device.type == "cpu" else 0
    if elements == 0 and (device is None or torch.device(device).type == "cpu"):
        elements = count_asked_elements(args)
    return elements <= MOST_ELEMENTS


def _unwrap(value: Any) -> Any:
    """Return a tensor of a class that only hears of functions, such as an image of torchvision's
    transforms, as the plain tensor that it is: fake tensors don't mix with others."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensor

    if isinstance(value, list | tuple):
        return type(value)(map(_unwrap, value)) if type(value) in (list, tuple) else value
    if not isinstance(value, torch.Tensor) or isinstance(value, FakeTensor):
        return value
    if type(value) in (torch.Tensor, torch.nn.Parameter) or not _is_plain(type(value)):
        return value
    with torch._C.DisableTorchFunctionSubclass():
        return value.as_subclass(torch.Tensor)


def _is_plain(kind: type) -> bool:
    """Return whether a class of tensors leaves operators to torch."""
    import torch

    return kind.__torch_dispatch__ is torch._C._disabled_torch_dispatch_impl  # type: ignore[attr-defined]


def _plain_types(types: Sequence[type]) -> Iterator[type]:
    import torch

    for kind in types:
        yield torch.Tensor if issubclass(kind, torch.Tensor) and _is_plain(kind) else kind


@contextmanager
def keep_parameters_fake(mode: Any) -> Iterator[None]:
    """Make each parameter that is created while the block runs a fake tensor of ``mode``."""
    import torch

    made = torch.nn.Parameter.__new__

    def make(cls: Any, data: Any = None, requires_grad: bool = True) -> Any:
        if type(data) is torch.Tensor and data.device.type == "cpu":
            data = mode.from_tensor(data.detach())
        return made(cls, data, requires_grad)

    with replace_for_block(torch.nn.Parameter, __new__=make):
        yield
