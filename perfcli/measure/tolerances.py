"""How far compiled results may lie from their reference, by the coarsest dtype at work."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from perfcli.compile.building import Built
from perfcli.compile.modules import modules_of

OUTPUTS = {"bfloat16": 2e-2, "float16": 5e-3, "float32": 1e-4, "float64": 1e-7}
"""Where the scenario names none: largest error as a part of the reference's largest value. About
``torch.testing.assert_close``'s relative tolerances (1.6e-2 for bfloat16, 1e-3 for float16, 1e-7
for float64), and for float32 what Inductor's own benchmarks allow (1e-4). A larger error is not
wrong yet: it is held against eager's own error (``checking``)."""

GRADIENTS = {"bfloat16": 0.1, "float16": 0.05, "float32": 1e-3, "float64": 1e-6}
"""Relative L2 error of a gradient. Every layer of a backward rounds again, and sums of many
gradients cancel: far more than for outputs. A gradient that is wrong is off by its own size."""

INTEGERS = 0.02
"""Share of integers that may differ where they follow from rounded numbers (an ``argmax``)."""


def dtypes_at_work(built: Built, outputs: Iterable[Any]) -> set[str]:
    """Names of all floating-point dtypes that round anything on the way to the outputs."""
    import torch
    from torch.utils import _pytree

    workload = built.workload
    inputs = _pytree.tree_leaves((workload.inputs, dict(workload.kwargs)))
    weights = [p for module in modules_of(workload.call) for p in module.parameters()]
    tensors = [t for t in (*inputs, *weights, *outputs) if isinstance(t, torch.Tensor)]
    found = {_name(t.dtype) for t in tensors if t.is_floating_point() or t.is_complex()}
    named = (built.params.get("dtype"), workload.autocast)
    return found | {str(n) for n in named if n in OUTPUTS}


def tolerance(table: Mapping[str, float], dtypes: Iterable[str]) -> float:
    """The coarsest; of dtypes that the table lacks (float8), two steps of their own precision.
    0 where nothing is rounded: integers only."""
    return max((table.get(name, _steps(name)) for name in dtypes), default=0.0)


def of_outputs(scenarios: Mapping[str, float], dtypes: set[str]) -> float:
    """The scenario's own where it names one of the dtypes, else the default."""
    table = scenarios if dtypes & scenarios.keys() else OUTPUTS
    return tolerance(table, dtypes & table.keys() or dtypes)


def _steps(name: str) -> float:
    import torch

    return float(2 * torch.finfo(getattr(torch, name)).eps)


def _name(dtype: Any) -> str:
    """``complex64`` is made of float32."""
    real = {"complex32": "float16", "complex64": "float32", "complex128": "float64"}
    name = str(dtype).removeprefix("torch.")
    return real.get(name, name)
