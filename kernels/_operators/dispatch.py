"""Registers operators with torch: what a call runs on a device, under autograd, autocast and modes.

``torch.library.custom_op`` does that too, in Python code that takes longer than a kernel's launch.
Here a call goes through torch's dispatcher into one Python function for autograd, and from there
straight to the kernels, if there is nothing between the two (a mode, a subclass of Tensor). Calls
from Python pass even the dispatcher, if nothing else could have a say: ``direct.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from .direct import make_direct
from .replay import PlanReplay

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
        self._run = PlanReplay(function, schema)
        self._below: dict[int, Any] = {}
        _LIBRARY.define(f"{name}{schema}", tags=torch.Tag.pt2_compliant_tag)
        self._called: Any = getattr(torch.ops.perfcli, name).default
        _LIBRARY.impl(name, self._run, "CompositeExplicitAutograd")
        torch.library.register_fake(self.name, fake, lib=_LIBRARY)
        self._listed = "Tensor[]" in schema.split("->")[0]
        self.register_autograd(self._refuse, setup_context=_keep_nothing)
        call = self._differentiate_list if self._listed else self._differentiate
        _LIBRARY.impl(name, call, "Autograd", with_keyset=True)

    def register_autograd(
        self, gradient: Gradient, *, setup_context: Setup, constant: int | None = None
    ) -> None:
        """Give it a gradient, as ``torch.library.register_autograd`` would; outputs from the number
        ``constant`` on have none. Then ``call`` calls it."""
        self._autograd = setup_context, gradient, self._listed
        self._node = _make_node(*self._autograd, constant)
        self.call = make_direct(self._run, self._called, self._node)

    def register_autocast(self, dtype: torch.dtype) -> None:
        """Cast floating-point arguments to a dtype where autocast is enabled; also of the operators
        that were defined by ``define_first``, which lead past it."""
        for name in self._names:
            for device in ("cuda", "cpu"):
                torch.library.register_autocast(name, device, dtype, lib=_LIBRARY)

    def define_first(
        self, name: str, schema: str, cast: Callable[..., Sequence[Any]] | None = None
    ) -> Callable[..., Any]:
        """Define an operator with the same arguments that returns the first output alone, and
        return what calls it. ``cast`` does what autocast asks for, if it is enabled."""

        def call(keyset: Any, *arguments: Any) -> Any:
            if cast is not None:
                arguments = tuple(cast(*arguments))
            if self._find_below(keyset) is None:
                return self._differentiate(keyset, *arguments)[0]
            return self._called(*arguments)[0]

        _LIBRARY.define(f"{name}{schema}", tags=torch.Tag.pt2_compliant_tag)
        _LIBRARY.impl(name, call, "CompositeImplicitAutograd", with_keyset=True)
        self._names.append(f"{NAMESPACE}::{name}")
        self._run.first = {}
        called = getattr(torch.ops.perfcli, name).default
        node = _make_node(*self._autograd, first=True)
        return make_direct(self._run, called, node, self._run.first)

    def _differentiate(self, keyset: Any, *arguments: Any) -> Any:
        run = self._find_run(keyset)
        if torch.is_grad_enabled():
            for each in arguments:
                if isinstance(each, Tensor) and each.requires_grad:
                    left_out = self._run.defaults[len(arguments) :]
                    return self._node.apply(run, *arguments, *left_out)
        return run(*arguments)

    def _differentiate_list(self, keyset: Any, tensors: Sequence[Tensor]) -> Any:
        run = self._find_run(keyset)
        if torch.is_grad_enabled() and any(each.requires_grad for each in tensors):
            return self._node.apply(run, *tensors)
        return run(tensors)

    def _find_below(self, keyset: Any) -> Any:
        """Return the dispatch keys below autograd; nothing if the kernels come next."""
        number = keyset.raw_repr()
        if number not in self._below:
            self._below[number] = _below_autograd(keyset)
        return self._below[number]

    def _find_run(self, keyset: Any) -> Callable[..., Any]:
        """Return what computes the outputs, below autograd."""
        below = self._find_below(keyset)
        return self._run if below is None else partial(self._called.redispatch, below)

    def _refuse(self, _ctx: Any, *_gradients: Any) -> Any:
        raise RuntimeError(
            f"{self.name} has no gradient: perfcli's operators have no gradients of gradients"
        )


def _make_node(
    setup: Setup,
    gradient: Gradient,
    listed: bool,
    constant: int | None = None,
    first: bool = False,
) -> Any:
    """Return autograd's function of ``run``, which computes the outputs, and its arguments; of a
    list's tensors one by one: autograd does not look into lists. ``first``: it returns the first
    output alone, since each takes time."""

    class Node(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, run: Callable[..., Any], *given: Any) -> Any:
            if listed:
                given = (given,)
            result = run(*given)
            setup(ctx, given, result)
            if constant is not None:
                ctx.mark_non_differentiable(*result[constant:])
            return result[0] if first else result

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            found = gradient(ctx, *gradients)
            return (None, *found) if isinstance(found, tuple | list) else (None, found)

    return Node


def _keep_nothing(_ctx: Any, _arguments: tuple[Any, ...], _result: Any) -> None:
    """Keep nothing for a gradient that there is not."""


def _below_autograd(keyset: Any) -> Any:
    """Return the dispatch keys below autograd; nothing if only the kernels are there."""
    while "Autograd" in repr(keyset):
        keyset = keyset.remove(keyset.highestPriorityTypeId())
    rest, names = keyset, set()
    while (key := rest.highestPriorityTypeId()) and str(key) != "DispatchKey.Undefined":
        names.add(str(key).removeprefix("DispatchKey."))
        rest = rest.remove(key)
    return None if names & _DEVICES and names <= _DEVICES | _PASSED else keyset
