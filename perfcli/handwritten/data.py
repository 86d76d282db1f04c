"""Arranges a case's inputs: special values, and how they lie in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from perfcli.model import Case, Problem

LARGE = 1e4
"""Times a normal value; half precision gets a 512th of its largest number where that is less."""


def make_inputs(code: Any, case: Case, problem: Problem, device: str, seed: int) -> dict[str, Any]:
    """Return a case's inputs; what a forward pass saves of them, which ``code.saved`` tells where a
    family has it, is of the values that the case gives them."""
    tensors = arrange(case, problem, code.inputs(problem, device, seed))
    saved = getattr(code, "saved", None)
    return tensors if saved is None else {**tensors, **saved(problem, tensors)}


def arrange(case: Case, problem: Problem, tensors: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tensors with the case's values in the first of the problem's shape, and all of
    that shape laid out as the case says."""
    found = dict(tensors)
    shaped = [name for name, t in found.items() if _is_shaped(t, problem)]
    if shaped:
        found[shaped[0]] = _VALUES[case.data](found[shaped[0]].clone())
    for name in shaped:
        found[name] = _LAYOUTS[case.layout](found[name], problem)
    return found


def _is_shaped(tensor: Any, problem: Problem) -> bool:
    import torch

    return (
        isinstance(tensor, torch.Tensor)
        and tensor.is_floating_point()
        and tuple(tensor.shape) == (problem.rows, problem.columns)
    )


# --- values: each gets a tensor of rows × columns that it may change ----------------------------


def _large(x: Any) -> Any:
    import torch

    return x * min(LARGE, torch.finfo(x.dtype).max / 512)


def _nan(x: Any) -> Any:
    """Return rows of which every other one has a NaN, each time in another place."""
    for row in range(0, x.shape[0], 2):
        if x.shape[1]:
            x[row, (row * 7919) % x.shape[1]] = float("nan")
    return x


def _infinite(x: Any) -> Any:
    """Return rows that have, in turn, ∞, −∞, both, none."""
    if x.shape[1]:
        last = x.shape[1] - 1
        x[0::4, last] = float("inf")
        x[1::4, 0] = -float("inf")
        x[2::4, last // 2] = float("inf")
        x[2::4, 0] = -float("inf")
    return x


def _mask(x: Any, hidden_value: float = -float("inf")) -> Any:
    """Return values as a causal mask leaves them: row *i* has some values in front, then −∞, or
    another value; every fourth row has that throughout."""
    import torch

    rows, columns = x.shape
    kept = torch.arange(rows, device=x.device) * max(columns, 1) // max(rows, 1) + 1
    kept[::4] = 0
    hidden = torch.arange(columns, device=x.device)[None, :] >= kept[:, None]
    return x.masked_fill_(hidden, hidden_value)


def _mask_lowest(x: Any) -> Any:
    """Return masked values as models have them that add the dtype's lowest number."""
    import torch

    return _mask(x, torch.finfo(x.dtype).min)


def _signed_zero(x: Any) -> Any:
    import torch

    return torch.copysign(torch.zeros_like(x), x)


_VALUES: Mapping[str, Callable[[Any], Any]] = {
    "normal": lambda x: x,
    "large": _large,
    "nan": _nan,
    "infinite": _infinite,
    "minus-infinity-masked": _mask,
    "lowest-masked": _mask_lowest,
    "signed-zero": _signed_zero,
    "constant": lambda x: x.fill_(0.5),
}


# --- layouts ------------------------------------------------------------------------------------


def _in_rows(x: Any, problem: Problem) -> Any:
    """Return a copy with the problem's row stride; what lies between rows is NaN, which nobody may
    read."""
    import torch

    if x.shape[0] < 2 or x.stride() == (problem.stride, 1):
        return x
    buffer = torch.full((x.shape[0], problem.stride), float("nan"), dtype=x.dtype, device=x.device)
    buffer[:, : x.shape[1]] = x
    return buffer[:, : x.shape[1]]


def _transpose(x: Any, _problem: Problem) -> Any:
    return x.t().contiguous().t()


def _misalign(x: Any, problem: Problem) -> Any:
    """Return a copy that begins one element behind a boundary of 16 bytes."""
    import torch

    size = max(x.shape[0], 1) * problem.stride + 1
    buffer = torch.full((size,), float("nan"), dtype=x.dtype, device=x.device)
    view = torch.as_strided(buffer, tuple(x.shape), (problem.stride, 1), 1)
    view.copy_(x)
    return view


_LAYOUTS: Mapping[str, Callable[[Any, Problem], Any]] = {
    "contiguous": _in_rows,
    "padded-rows": _in_rows,
    "transposed": _transpose,
    "misaligned": _misalign,
}
