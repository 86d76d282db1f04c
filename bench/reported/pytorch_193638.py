from __future__ import annotations

from typing import Any

from reported import Reported, Side

CASE = Reported(
    issue="pytorch/pytorch#193638",
    kind="extern operators",
    title="a matrix product whose number of rows is odd is padded along its rows, for nothing",
    said="145 pairs of pad and trim; 73.05 ms, without them 71.57, 2.0 %; B200, 2026-08",
    rebuilt="pattern",
    seen="a kernel that copies the left matrix into a padded one and one that copies the result "
    "out; the good twin calls the product alone",
    bad=Side("product", options={"force_shape_pad": True}),
    good=Side("product", options={"shape_padding": False}),
    codes=frozenset({"PC503", "PC402"}),
    cause=(r"\bpad", r"cop(y|ies)"),
    cure=(r"shape_pad", r"pad_m_dim", r"multiple of"),
)


def product(rows: int = 4095, inner: int = 4096, columns: int = 4096) -> Any:
    import torch

    def model(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return (x @ weight).relu()

    left = torch.randn(rows, inner, dtype=torch.bfloat16)
    return model, (left, torch.randn(inner, columns, dtype=torch.bfloat16))
