"""Leads from an operator's tensors to a family's problem, its plan and its kernels."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import triton
from torch import Tensor

from perfcli.errors import PerfcliError
from perfcli.model import KernelFamily, LaunchPlan, Problem, Scalar, Target

from .._launching import device_of
from .dispatch import Operator
from .replay import ALIGNMENT

Key = tuple[str, int, int, str, int, tuple[tuple[str, Scalar], ...]]
_PLANS = 4096
"""Kept; a model with dynamic shapes makes one for each shape."""


class _Targets:
    """Remembers what launches are planned for; a class, since it is told only when operators are
    wanted."""

    ask: Callable[[], Target] | None = None


def plan_for(target: Callable[[], Target]) -> None:
    _Targets.ask = functools.cache(target)
    _plan.cache_clear()


@dataclass(frozen=True, slots=True, eq=False)
class FamilyKernels:
    """Calls a family's kernels; compared by identity, so that plans are cached by it."""

    family: KernelFamily
    code: Any
    """A ``FamilyCode``."""

    def __call__(
        self, operation: str, tensors: Mapping[str, Tensor], settings: Mapping[str, Scalar]
    ) -> dict[str, Tensor]:
        """Return the operation's outputs. Matrices share the first tensor's rows, columns and
        strides.

        Raises:
            PerfcliError: no GPU, tensors on several devices, or what the family cannot do.
        """
        first = next(iter(tensors.values()))
        _check_devices(list(tensors.values()))
        rows, columns = first.shape
        stride = first.stride(0) if rows > 1 and columns else columns
        dtype = str(first.dtype).removeprefix("torch.")
        problem = Problem(operation, rows, columns, dtype, stride, settings)
        key = (operation, rows, columns, dtype, stride, tuple(settings.items()))
        plan = _plan(self, key)
        with device_of(first):
            outputs: dict[str, Tensor] = self.code.run(problem, tensors, plan)
        return outputs


@functools.lru_cache(_PLANS)
def _plan(kernels: FamilyKernels, key: Key) -> LaunchPlan:
    """Return the plan of the problem that ``key`` spells out, which is no key itself: its settings
    are a dict."""
    if _Targets.ask is None:
        raise PerfcliError("nobody said what to plan for: call perfcli.operators.register()")
    operation, rows, columns, dtype, stride, settings = key
    problem = Problem(operation, rows, columns, dtype, stride, dict(settings))
    return kernels.family.plan(problem, _Targets.ask(), None)


def _check_devices(tensors: Sequence[Tensor]) -> None:
    devices = {tensor.device for tensor in tensors}
    if len(devices) > 1:
        raise PerfcliError(
            f"expected all tensors on one device, found {' and '.join(sorted(map(str, devices)))}"
        )
    (device,) = devices
    if device.type == "cuda" or (device.type == "cpu" and triton.knobs.runtime.interpret):
        return
    raise PerfcliError(
        f"perfcli's kernels run on a GPU, and these tensors are on {device}: move them there, or "
        "set TRITON_INTERPRET=1 before triton is imported, for Triton's interpreter on the CPU"
    )


def as_rows(name: str, x: Tensor) -> Tensor:
    """Return all dimensions but the last as one; copied where elements of a row are apart, rows
    overlap or the first one begins between multiples of 16 bytes: a kernel aligns its output as its
    input is, and Inductor counts on outputs that are aligned.

    Raises:
        PerfcliError: a number has no rows.
    """
    if x.dim() == 0:
        raise PerfcliError(f"expected at least one dimension for {name}, found a number")
    columns = x.shape[-1]
    rows = x.reshape(x.numel() // columns if columns else _product(x.shape[:-1]), columns)
    apart = columns > 1 and rows.stride(1) != 1
    overlapping = rows.shape[0] > 1 and rows.stride(0) < columns
    if apart or overlapping or rows.data_ptr() % ALIGNMENT:
        return rows.clone(memory_format=torch.contiguous_format)
    return rows


def _product(sizes: Sequence[int]) -> int:
    result = 1
    for size in sizes:
        result *= size
    return result


def like(x: Tensor) -> Tensor:
    """Return a fake output: of this shape and dtype, without gaps."""
    return x.new_empty(x.shape)


def operator(
    name: str, schema: str, function: Callable[..., Any], fake: Callable[..., Any]
) -> Operator:
    """Return a new operator of ``torch.ops.perfcli``, which changes none of its arguments."""
    return Operator(name, schema, function, fake)
