"""Registers operators with torch: what a call runs on a device, under autograd, autocast and modes.

``torch.library.custom_op`` does that too, in Python code that takes longer than a kernel's launch.
Here a call goes through torch's dispatcher into one Python function for autograd, and from there
straight to the kernels, if there is nothing between the two (a mode, a subclass of Tensor). All of
it is torch's public interface, 2.11 to 2.13.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from .replay import make_replay

NAMESPACE = "perfcli"
_LIBRARY = torch.library.Library(NAMESPACE, "FRAGMENT")
_DEVICES, _PASSED = {"CPU", "CUDA"}, {"BackendSelect", "ADInplaceOrView"}
"""Below autograd the kernels come next where one of the first is, and nothing but the others."""
Setup = Callable[[Any, tuple[Any, ...], Any], None]
Gradient = Callable[..., Any]


class Operator:
    """Is an operator of ``torch.ops.perfcli`` that changes none of its arguments."""

    def __init__(
        self, name: str, schema: str, function: Callable[..., Any], fake: Callable[..., Any]
    ) -> None:
        self.name = f"{NAMESPACE}::{name}"
        self._names = [self.name]
        self._run = make_replay(function, schema)
        self._defaults = _defaults_of(function)
        self._below: dict[int, Any] = {}
        _LIBRARY.define(f"{name}{schema}", tags=torch.Tag.pt2_compliant_tag)
        self._called: Any = getattr(torch.ops.perfcli, name).default
        _LIBRARY.impl(name, self._run, "CompositeExplicitAutograd")
        torch.library.register_fake(self.name, fake, lib=_LIBRARY)
        self._listed = "Tensor[]" in schema.split("->")[0]
        self._node = self._make_node(_keep_nothing, self._refuse)
        call = self._differentiate_list if self._listed else self._differentiate
        _LIBRARY.impl(name, call, "Autograd", with_keyset=True)

    def __call__(self, *arguments: Any) -> Any:
        return self._called(*arguments)

    def register_autograd(self, gradient: Gradient, *, setup_context: Setup) -> None:
        """Give it a gradient, as ``torch.library.register_autograd`` would."""
        self._node = self._make_node(setup_context, gradient)

    def register_autocast(self, dtype: torch.dtype) -> None:
        """Cast floating-point arguments to a dtype where autocast is enabled; also of the operators
        that were defined by ``define_first``, which lead past it."""
        for name in self._names:
            for device in ("cuda", "cpu"):
                torch.library.register_autocast(name, device, dtype, lib=_LIBRARY)

    def define_first(self, name: str, schema: str) -> None:
        """Define an operator with the same arguments that returns the first output alone."""

        def call(keyset: Any, *arguments: Any) -> Any:
            if self._find_below(keyset) is None:
                return self._differentiate(keyset, *arguments)[0]
            return self._called(*arguments)[0]

        _LIBRARY.define(f"{name}{schema}", tags=torch.Tag.pt2_compliant_tag)
        _LIBRARY.impl(name, call, "CompositeImplicitAutograd", with_keyset=True)
        self._names.append(f"{NAMESPACE}::{name}")

    def _differentiate(self, keyset: Any, *arguments: Any) -> Any:
        below = self._find_below(keyset)
        if torch.is_grad_enabled():
            for each in arguments:
                if isinstance(each, Tensor) and each.requires_grad:
                    left_out = self._defaults[len(arguments) :]
                    return self._node.apply(*arguments, *left_out, below)
        return (
            self._run(*arguments) if below is None else self._called.redispatch(below, *arguments)
        )

    def _differentiate_list(self, keyset: Any, tensors: Sequence[Tensor]) -> Any:
        """Hand autograd the tensors of the only argument one by one: it does not look into
        lists."""
        below = self._find_below(keyset)
        if torch.is_grad_enabled() and any(each.requires_grad for each in tensors):
            return self._node.apply(*tensors, below)
        return self._run(tensors) if below is None else self._called.redispatch(below, tensors)

    def _find_below(self, keyset: Any) -> Any:
        """Return the dispatch keys below autograd; nothing if the kernels come next."""
        number = keyset.raw_repr()
        if number not in self._below:
            self._below[number] = _below_autograd(keyset)
        return self._below[number]

    def _make_node(self, setup: Setup, gradient: Gradient) -> Any:
        run, called, listed = self._run, self._called, self._listed

        class Node(torch.autograd.Function):  # type: ignore[misc]
            @staticmethod
            def forward(ctx: Any, *arguments: Any) -> Any:
                given, below = arguments[:-1], arguments[-1]
                if listed:
                    given = (given,)
                result = run(*given) if below is None else called.redispatch(below, *given)
                setup(ctx, given, result)
                return result

            @staticmethod
            def backward(ctx: Any, *gradients: Any) -> Any:
                found = gradient(ctx, *gradients)
                return (*found, None) if isinstance(found, tuple | list) else (found, None)

        return Node

    def _refuse(self, _ctx: Any, *_gradients: Any) -> Any:
        raise RuntimeError(
            f"{self.name} has no gradient: perfcli's operators have no gradients of gradients"
        )


def _keep_nothing(_ctx: Any, _arguments: tuple[Any, ...], _result: Any) -> None:
    """Keep nothing for a gradient that there is not."""


def _defaults_of(function: Callable[..., Any]) -> tuple[Any, ...]:
    """Return the default of every parameter; the dispatcher leaves out trailing arguments that have
    theirs."""
    return tuple(each.default for each in inspect.signature(function).parameters.values())


def _below_autograd(keyset: Any) -> Any:
    """Return the dispatch keys below autograd; nothing if only the kernels are there."""
    while "Autograd" in repr(keyset):
        keyset = keyset.remove(keyset.highestPriorityTypeId())
    rest, names = keyset, set()
    while (key := rest.highestPriorityTypeId()) and str(key) != "DispatchKey.Undefined":
        names.add(str(key).removeprefix("DispatchKey."))
        rest = rest.remove(key)
    return None if names & _DEVICES and names <= _DEVICES | _PASSED else keyset
