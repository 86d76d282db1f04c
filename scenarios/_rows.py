"""Defines what scenarios over a matrix of rows share: its size and element type, forward or
training."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from perfcli.model import Parameter, Problem, Scalar, ScenarioProblem

FLOATS = ("bfloat16", "float16", "float32", "float64")

TOLERANCE = {"bfloat16": 2**-7, "float16": 2**-10, "float32": 1e-5, "float64": 1e-12}
"""Largest error, as a part of the reference's largest value, of a computation that keeps its
intermediate values in float32 and rounds its inputs and its result once: two units in the last
place (2⁻⁸ and 2⁻¹¹ relative, half units), and for float32 the summing of up to 2¹⁶ values."""


def torch_dtype(name: object) -> Any:
    """Return ``torch.bfloat16`` for ``bfloat16``."""
    import torch

    return getattr(torch, str(name))


@contextlib.contextmanager
def default_dtype(name: object) -> Iterator[None]:
    """Make new floating-point parameters of this type. Only while building: a default left in place
    would change the type of scalars in the model itself."""
    import torch

    before = torch.get_default_dtype()
    torch.set_default_dtype(torch_dtype(name))
    try:
        yield
    finally:
        torch.set_default_dtype(before)


PRESETS: Mapping[str, Mapping[str, Scalar]] = {"smoke": {"rows": 128, "columns": 2048}, "full": {}}


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
    row_stride: int | None = None,
) -> tuple[ScenarioProblem, ...]:
    """Return what a family of hand-written kernels computes of the matrix, and when training its
    gradient, ``<operation>-backward``."""
    size = (params["rows"], params["columns"], params["dtype"], row_stride, settings or {})
    forward = ScenarioProblem(family, Problem(operation, *size), left_out=left_out)
    if params["mode"] != "training":
        return (forward,)
    return forward, ScenarioProblem(family, Problem(f"{operation}-backward", *size), backward=True)
