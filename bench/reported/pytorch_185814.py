from __future__ import annotations

from typing import Any

from reported import Reported, Side

CASE = Reported(
    issue="pytorch/pytorch#185814",
    kind="launch configuration",
    title="RMSNorm backward: XBLOCK follows the number of rows and ignores their length",
    said="up to 4.4× slower than with XBLOCK 1 at 131072 × 16384, about 10 % of the bandwidth; "
    "GB200, 2026-06",
    rebuilt="published",
    seen="the mix-order kernel has XBLOCK 2 or more for rows of 16,384 elements and spills; "
    "without mix-order reductions none does",
    bad=Side("norm"),
    good=Side("norm", options={"triton.mix_order_reduction": False}),
    codes=frozenset({"PC106", "PC101", "PC103"}),
    cause=(r"XBLOCK", r"spill"),
    cure=(r"XBLOCK", r"mix_order_reduction", r"coordinate_descent"),
    true_of_good={"PC206": "without mix-order reductions the gradient is read twice"},
)


def norm(rows: int = 131072, columns: int = 16384, mode: str = "training") -> Any:
    import torch
    from torch.nn import functional

    weight = torch.nn.Parameter(torch.ones(columns, dtype=torch.bfloat16))
    x = torch.randn(rows, columns, dtype=torch.bfloat16, requires_grad=True)
    return lambda x: functional.rms_norm(x, (columns,), weight, 1e-6), (x,)
