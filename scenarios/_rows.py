"""What scenarios over a matrix of rows share: its size and element type, forward or training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perfcli.model import Parameter, Scalar

from ._dtypes import FLOATS, torch_dtype

PRESETS: Mapping[str, Mapping[str, Scalar]] = {
    "smoke": {"rows": 128, "columns": 2048},
    "full": {},
}


def parameters(rows: int, columns: int) -> dict[str, Parameter]:
    """Parameters with the given size as the full one."""
    return {
        "rows": Parameter(rows, "rows of the input"),
        "columns": Parameter(columns, "elements of one row"),
        "dtype": Parameter("bfloat16", "element type", FLOATS),
        "mode": Parameter("forward", "forward only, or with backward", ("forward", "training")),
    }


def matrix(params: Mapping[str, Any]) -> Any:
    """Normally distributed rows, which require a gradient when training."""
    import torch

    return torch.randn(
        params["rows"],
        params["columns"],
        dtype=torch_dtype(params["dtype"]),
        requires_grad=params["mode"] == "training",
    )


def vector(params: Mapping[str, Any], fill: float) -> Any:
    """One value per column, a learned weight or bias."""
    import torch

    return torch.full(
        (params["columns"],),
        fill,
        dtype=torch_dtype(params["dtype"]),
        requires_grad=params["mode"] == "training",
    )
