"""Runs a plan: every launch in order, with the tensors and numbers that its arguments name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from importlib.util import find_spec
from typing import Any, Protocol

import torch
import triton
from torch import Tensor

from perfcli.model import KernelLaunch, LaunchPlan, Problem

from ._elements import VECTOR_BYTES

Record = list[tuple[KernelLaunch, Mapping[str, Any]]]
"""Launches, each with its arguments by name."""
_record: ContextVar[Record | None] = ContextVar("_record", default=None)
Watch = Callable[[Any, Sequence[int], Sequence[Any]], None]
_watch: ContextVar[Watch | None] = ContextVar("_watch", default=None)


class _FamilyCode(Protocol):
    """Describes the torch side of a family: a module with these functions, named in
    ``KernelFamily.code``."""

    def inputs(self, problem: Problem, device: str, seed: int) -> dict[str, Tensor]:
        """Return normally distributed inputs of the problem's shape, strides and dtype."""

    def reference(self, problem: Problem, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the outputs in float64, by a formula that shares nothing with the kernels."""

    def run(
        self, problem: Problem, tensors: Mapping[str, Tensor], plan: LaunchPlan
    ) -> dict[str, Tensor]:
        """Return the outputs by the plan's kernels. Allocates outputs and workspace; synchronises
        not."""

    def eager(self, problem: Problem, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the same outputs by torch's own operators, as a user would write it; this is also
        what torch.compile gets."""

    def function(self, name: str) -> Any:
        """Return the ``@triton.jit`` function that a ``KernelLaunch`` names."""


def launch(code: _FamilyCode, plan: LaunchPlan, values: Mapping[str, Any]) -> None:
    """Enqueue the plan's launches on the current stream.

    ``values`` holds every run-time argument of every launch by name.
    """
    record, watch = _record.get(), _watch.get()
    for step in plan.launches:
        arguments = {name: values[name] for name in step.arguments}
        if record is not None:
            record.append((step, arguments))
            continue
        function = code.function(step.function)
        kernel = function[step.grid](**arguments, **step.constants, **step.options)
        if watch is not None:
            watch(kernel, step.grid, _in_order(function, {**arguments, **step.constants}))


def runnable(plan: LaunchPlan) -> LaunchPlan:
    """Return the plan for this Triton: the one without Gluon where it has none. Its interpreter has
    none either."""
    if plan.portable is None:
        return plan
    lacking = triton.knobs.runtime.interpret or find_spec("triton.experimental.gluon") is None
    return plan.portable if lacking else plan


def device_of(tensor: Tensor) -> AbstractContextManager[Any]:
    """Make the tensor's device current: Triton launches on the current device."""
    if tensor.device.type != "cuda":
        return nullcontext()
    guard: AbstractContextManager[Any] = torch.cuda.device(tensor.device)
    return guard


def at_a_vector(x: Tensor) -> Tensor:
    """Return the tensor, or a copy with the same strides, at a multiple of 16 bytes: a plan does
    not see addresses, and words cannot be loaded from all of them."""
    if x.data_ptr() % VECTOR_BYTES == 0:
        return x
    last = sum((size - 1) * apart for size, apart in zip(x.shape, x.stride(), strict=True))
    return torch.as_strided(x.new_empty(last + 1), x.shape, x.stride(), 0).copy_(x)


def _in_order(function: Any, values: Mapping[str, Any]) -> list[Any]:
    """Return all arguments as a compiled kernel takes them: constants too, in the order of the
    signature."""
    parameters = inspect.signature(function.fn).parameters
    return [values.get(name, each.default) for name, each in parameters.items()]


@contextmanager
def watch_launches(watch: Watch) -> Iterator[None]:
    """Call ``watch`` with the compiled kernel, the grid and all arguments of every launch while the
    block runs."""
    token = _watch.set(watch)
    try:
        yield
    finally:
        _watch.reset(token)


@contextmanager
def record_launches() -> Iterator[Record]:
    """Write launches down instead of enqueueing them while the block runs: tensors need no
    memory."""
    record: Record = []
    token = _record.set(record)
    try:
        yield record
    finally:
        _record.reset(token)
