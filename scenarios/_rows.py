"""Defines what scenarios over a matrix of rows share: its size and element type, forward or
training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perfcli.model import Parameter, Problem, Scalar, ScenarioProblem

from ._dtypes import FLOATS, torch_dtype

PRESETS: Mapping[str, Mapping[str, Scalar]] = {
    "smoke": {"rows": 128, "columns": 2048},
    "full": {},
}


def parameters(rows: int, columns: int) -> dict[str, Parameter]:
    """Return parameters with the given size as the full one."""
    return {
        "rows": Parameter(rows, "rows of the input"),
        "columns": Parameter(columns, "elements of one row"),
        "dtype": Parameter("bfloat16", "element type", FLOATS),
        "mode": Parameter("forward", "forward only, or with backward", ("forward", "training")),
    }


def matrix(params: Mapping[str, Any]) -> Any:
    """Return normally distributed rows, which require a gradient when training."""
    import torch

    return torch.randn(
        params["rows"],
        params["columns"],
        dtype=torch_dtype(params["dtype"]),
        requires_grad=params["mode"] == "training",
    )


def vector(params: Mapping[str, Any], fill: float) -> Any:
    """Return one value per column, a learned weight or bias."""
    import torch

    return torch.full(
        (params["columns"],),
        fill,
        dtype=torch_dtype(params["dtype"]),
        requires_grad=params["mode"] == "training",
    )


def row_problems(
    params: Mapping[str, Any],
    family: str,
    operation: str,
    settings: Mapping[str, Scalar] | None = None,
    left_out: str = "",
) -> tuple[ScenarioProblem, ...]:
    """Return what a family of hand-written kernels computes of the matrix, and when training its
    gradient, ``<operation>-backward``."""
    size = (params["rows"], params["columns"], params["dtype"], None, settings or {})
    forward = ScenarioProblem(family, Problem(operation, *size), left_out=left_out)
    if params["mode"] != "training":
        return (forward,)
    return forward, ScenarioProblem(family, Problem(f"{operation}-backward", *size), backward=True)
