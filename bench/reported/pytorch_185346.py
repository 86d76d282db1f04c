from __future__ import annotations

from typing import Any

from reported import Reported, Side

CASE = Reported(
    issue="pytorch/pytorch#185346",
    kind="copies",
    title="a dense block's cat is copied into one buffer before batch norm and ReLU read it",
    said="phlippe_densenet slower since cats with several readers are no longer inlined; 2026-06",
    rebuilt="pattern",
    seen="a copy of each convolution's output into the joint buffer (triton_poi_fused_cat…), then "
    "a kernel for the norm; the good twin reads the parts",
    bad=Side("dense"),
    good=Side("dense", options={"force_pointwise_cat": True}),
    codes=frozenset({"PC503", "PC501"}),
    cause=(r"\bcat\b", r"cop(y|ies)"),
    cure=(r"force_pointwise_cat", r"inline", r"in place"),
)


def dense(batch: int = 64, layers: int = 3, growth: int = 16) -> Any:
    import torch
    from torch import nn
    from torch.nn import functional

    widths = [32 + growth * number for number in range(layers)]
    norms = nn.ModuleList([nn.BatchNorm2d(width) for width in widths]).eval()
    weights = nn.ParameterList([torch.randn(growth, width, 3, 3) for width in widths])

    class Dense(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norms, self.weights = norms, weights

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for norm, weight in zip(self.norms, self.weights, strict=True):
                grown = functional.conv2d(functional.relu(norm(x)), weight, padding=1)
                x = torch.cat([grown, x], dim=1)
            return functional.relu(x)

    return Dense().eval(), (torch.randn(batch, 32, 32, 32),)
