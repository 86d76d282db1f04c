"""Answers whether a matrix product is padded, which Inductor times on a device, from estimates.

Seen with torch 2.11 to 2.13.
"""

from __future__ import annotations

from typing import Any

from perfcli.model import Target
from perfcli.predict.padding import PaddedMatrix, predict_padding


def decide(
    target: Target, match: Any, mat1: Any, mat2: Any, op: Any, input: Any = None
) -> bool | None:
    """Return what ``pad_mm._should_pad`` is expected to find on the target; None where the
    estimate does not know such products."""
    import torch

    precision = _name_precision(mat1.dtype)
    if precision is None or mat1.dtype != mat2.dtype:
        return None
    left, right = (_describe(match, name, t) for name, t in (("mat1", mat1), ("mat2", mat2)))
    batch = _size(mat1.shape[0]) if op is torch.ops.aten.bmm else 1
    return predict_padding(left, right, batch, precision, input is not None, target)


def _describe(match: Any, name: str, matrix: Any) -> PaddedMatrix:
    from torch._inductor.fx_passes import pad_mm

    alignment = pad_mm.get_alignment_size(matrix)
    rows, columns = (_size(n) for n in matrix.shape[-2:])
    more = [pad_mm.get_padded_length(n, alignment) for n in matrix.shape[-2:]]
    return PaddedMatrix(
        rows,
        columns,
        rows + more[0],
        columns + more[1],
        transposed=columns > 1 and _size(matrix.stride()[-1]) != 1,
        free=pad_mm.should_exclude_padding_time(match, name),
    )


def _size(size: Any) -> int:
    """Return a size, or the hint of a symbolic one."""
    return size if isinstance(size, int) else int(size.node.hint)


def _name_precision(dtype: Any) -> str | None:
    import torch

    if dtype == torch.float32:
        return "fp32" if torch.get_float32_matmul_precision() == "highest" else "tf32"
    return {torch.bfloat16: "bf16", torch.float16: "fp16"}.get(dtype)
