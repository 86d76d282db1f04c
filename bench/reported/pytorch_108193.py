from __future__ import annotations

from typing import Any

from reported import Reported, Side

CASE = Reported(
    issue="pytorch/pytorch#108193",
    kind="overfusion",
    title="pointwise work fused into a reduction needs more registers than there are and spills",
    said="111 registers alone, 255 and spills when fused, as each thread holds four times as many "
    "elements; 2023-09",
    rebuilt="pattern",
    seen="one persistent reduction that holds many rows at once and spills; the good twin has "
    "smaller fusions",
    bad=Side("norms"),
    good=Side("norms", options={"max_fusion_size": 4}),
    codes=frozenset({"PC101", "PC106", "PC104", "PC102"}),
    cause=(r"spill", r"registers"),
    cure=(r"max_fusion", r"persistent_reductions", r"XBLOCK", r"coordinate_descent", r"warps"),
)


def norms(rows: int = 65536, columns: int = 1024, heads: int = 12) -> Any:
    import torch

    def model(x: torch.Tensor, *weights: torch.Tensor) -> tuple[torch.Tensor, ...]:
        parts = [torch.tanh(x.float() * weight) for weight in weights]
        tops = [part.amax(-1, keepdim=True) for part in parts]
        total = sum(torch.exp(part - top) for part, top in zip(parts, tops, strict=True))
        return tuple((part - total / heads).to(x.dtype) for part in parts[:2])

    x = torch.randn(rows, columns, dtype=torch.bfloat16)
    return model, (x, *(torch.randn(columns) for _ in range(heads)))
