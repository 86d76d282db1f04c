"""Registers operators that a CUDA build has kernels for and a CPU build has not, where that changes
the graph: with a CUDA kernel they stay whole in the autograd trace, without one they decompose.

The list is every aten operator with both a CUDA and a CompositeImplicitAutograd kernel, read off
the dispatchers of the CUDA builds 2.11.0+cu130 and 2.15.0+cu132 (the same three).
"""

from __future__ import annotations

from typing import Any

from perfcli.compile.stand_in.device import replace
from perfcli.errors import CompileFailed

OPERATORS = ("_fused_rms_norm", "mish_backward", "silu_backward")

_library: Any = None


def register_missing() -> tuple[str, ...]:
    """Give each of ``OPERATORS`` a CUDA kernel where this torch has none, and return which.

    The kernel is never run: under fake tensors the meta function answers. The registration
    alone makes the dispatcher prefer the operator's own autograd formula.
    """
    global _library
    import torch

    if _library is None:
        _library = torch.library.Library("aten", "IMPL")
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    missing = [
        name
        for name in OPERATORS
        if hasattr(torch.ops.aten, name) and not has_kernel(f"aten::{name}", "CUDA")
    ]
    for name in missing:
        _library.impl(name, _unreachable(name), "CUDA")
    return tuple(missing)


def _unreachable(name: str) -> Any:
    def kernel(*_: Any, **__: Any) -> Any:
        raise CompileFailed(f"aten::{name} was called with real values, and there is no device")

    return kernel


def install() -> None:
    import torch

    replace(torch._C, "_get_cudnn_batch_norm_reserve_space_size", lambda *_: 0)
