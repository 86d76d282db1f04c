from __future__ import annotations

from typing import Any

from reported import Reported, Side

CASE = Reported(
    issue="pytorch/pytorch#179423",
    kind="mix-order",
    title="a mix-order reduction takes in so many nodes that it spills",
    said="9 such kernels with 6 to 19 loads made a training step 6.3 ms slower, +6 %; H100, "
    "2026-04",
    rebuilt="pattern",
    seen="one kernel that sums along rows and along columns, reads more than 10 buffers and "
    "spills; the good twin reads at most 10",
    bad=Side("mixed_norm", options={"triton.mix_order_reduction_max_reads": 1000}),
    good=Side("mixed_norm"),
    codes=frozenset({"PC103", "PC101", "PC102", "PC106"}),
    cause=(r"mix-order", r"spill"),
    cure=(r"mix_order_reduction", r"XBLOCK"),
    true_of_good={
        **dict.fromkeys(
            ("PC101", "PC102", "PC106", "PC107"),
            "the forward kernel, no mix-order one, spills as well",
        ),
        "PC502": "three kernels of the backward compute tanh",
    },
)


def mixed_norm(
    rows: int = 98304, columns: int = 512, parts: int = 6, mode: str = "training"
) -> Any:
    import torch
    from torch.nn import functional

    class Mixed(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scales = torch.nn.Parameter(torch.ones(2 * parts, columns))
            self.weight = torch.nn.Parameter(torch.ones(columns))

        def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
            total = sum(
                self.scales[2 * i] * x + self.scales[2 * i + 1] * torch.tanh(x)
                for i, x in enumerate(inputs)
            )
            return functional.rms_norm(total, (columns,), self.weight, 1e-6).to(torch.bfloat16)

    inputs = tuple(
        torch.randn(rows, columns, dtype=torch.bfloat16, requires_grad=True) for _ in range(parts)
    )
    return Mixed(), inputs
