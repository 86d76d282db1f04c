"""The hand-written kernels in your own model, as operators of torch.

    import perfcli.operators

    kernels = perfcli.operators.register()
    y = kernels.rms_norm(x, weight, 1e-6)

Needs torch and triton in this interpreter. docs/kernels.md says what there is.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from perfcli.errors import PerfcliError
from perfcli.machine import targets
from perfcli.model import Target

INTERPRETED_AS = "h100"
"""What is planned for where no GPU is: Triton's interpreter runs such launches as well."""


def register() -> Any:
    """Registers ``softmax``, ``log_softmax``, ``cross_entropy``, ``linear_cross_entropy``,
    ``rms_norm``, ``rms_norm_residual``, ``layer_norm``, ``native_layer_norm``,
    ``layer_norm_residual`` and ``column_sum`` with torch, as ``torch.ops.perfcli``, and gives their
    functions, which are the same operators and faster to call. May be called again. Launches are
    planned for the first GPU that is visible. Raises PerfcliError where torch or triton is not
    installed."""
    try:
        operators = import_module("perfcli.kernels._operators")
    except ModuleNotFoundError as error:
        if error.name not in ("torch", "triton"):
            raise
        raise PerfcliError(
            f"perfcli's kernels need {error.name} in this interpreter: pip install {error.name}"
        ) from error
    return operators.register(_target)


def _target() -> Target:
    return targets.this_gpu() if targets.has_gpu() else targets.get(INTERPRETED_AS)
