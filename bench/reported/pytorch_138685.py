from __future__ import annotations

from typing import Any

from reported import Reported, Side

CASE = Reported(
    issue="pytorch/pytorch#138685",
    kind="peak memory",
    title="the sums of two large products are fused, so that both products are kept at once",
    said="8.886 GB, 4.591 GB not fused, for 7.72 and 7.75 ms; 2024-10",
    rebuilt="published",
    seen="one reduction that reads two buffers of 4.3 GB; the good twin has one for each",
    bad=Side("sums", options={"max_fusion_size": 64}, torch="2.11"),
    good=Side("sums", options={"max_fusion_size": 1}, torch="2.11"),
    codes=frozenset({"PC301", "PC302"}),
    cause=(r"(peak )?memory", r"at once"),
    cure=(r"max_fusion", r"fus(e|ion)"),
    metric="peak memory",
)


def sums(rows: int = 32768, inner: int = 16) -> Any:
    import torch

    def model(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
        return (a @ c).sum(-1) + (b @ c).sum(-1)

    inputs = (torch.randn(rows, inner), torch.randn(rows, inner), torch.randn(inner, rows))
    return model, inputs
