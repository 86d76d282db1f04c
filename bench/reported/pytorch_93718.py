from __future__ import annotations

from typing import Any

from reported import SMALL_STEP, Reported, Side

CASE = Reported(
    issue="pytorch/pytorch#93718",
    kind="lost fusion",
    title="softmax over the outer dimension is several kernels",
    said="not fused into one kernel, unlike softmax over the inner dimension; 2023-02",
    rebuilt="pattern",
    seen="kernels for maximum, sum and quotient, and each reads the input; the good twin's rows "
    "are contiguous: one kernel",
    bad=Side("softmax", params={"outer": True}),
    good=Side("softmax", params={"outer": False}),
    codes=frozenset({"PC501", "PC210", "PC203"}),
    cause=(r"fus(ed|ion|e)\b", r"\bsplit\b", r"read(s its input)? again"),
    cure=(r"contiguous", r"transpose", r"split_reductions", r"layout"),
    true_of_good=SMALL_STEP,
)


def softmax(rows: int = 4096, columns: int = 1024, outer: bool = True) -> Any:
    import torch

    sizes = (rows, columns) if outer else (columns, rows)
    return lambda x: x.softmax(0 if outer else 1), (torch.randn(sizes),)
