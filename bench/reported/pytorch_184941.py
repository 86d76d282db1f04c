from __future__ import annotations

from typing import Any

from reported import Reported, Side

CASE = Reported(
    issue="pytorch/pytorch#184941",
    kind="split",
    title="batch norm's statistics are split, so that normalising is a kernel of its own that "
    "reads everything again",
    said="three kernels instead of one for 128 × 384 × 8 × 8; B200, 2026-05",
    rebuilt="published",
    seen="a split reduction, a small one and a pointwise kernel that loads the input again; the "
    "good twin is one kernel",
    bad=Side("normalise"),
    good=Side("normalise", options={"split_reductions": False}),
    codes=frozenset({"PC205", "PC501", "PC203", "PC601"}),
    cause=(r"\bsplit\b", r"read again", r"fus(ed|ion|e)\b"),
    cure=(r"split_reductions", r"cooperative_reductions"),
)


def normalise(batch: int = 128, channels: int = 384, side: int = 8) -> Any:
    import torch

    def model(x: torch.Tensor) -> torch.Tensor:
        variance, mean = torch.var_mean(x, dim=[0, 2, 3], correction=0, keepdim=True)
        return (x - mean) * torch.rsqrt(variance + 1e-5)

    return model, (torch.randn(batch, channels, side, side),)
