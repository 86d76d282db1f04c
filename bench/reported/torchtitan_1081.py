from __future__ import annotations

from typing import Any

from reported import Reported, Side

CASE = Reported(
    issue="pytorch/torchtitan#1081",
    kind="recompilation",
    title="training with several resolutions compiles again for each, as sizes stay static under "
    "tensor parallelism",
    said="recompilations and a slow-down expected wherever sequence lengths differ; 2025-04",
    rebuilt="pattern",
    seen="the same kernel, compiled for each length with its number in it; the good twin's length "
    "is a symbol",
    bad=Side(
        "gate",
        options={"dynamo.automatic_dynamic_shapes": False},
        vary={"length": (1024, 1600, 2304, 4096)},
    ),
    good=Side("gate", dynamic=True, vary={"length": (1024, 1600, 2304, 4096)}),
    codes=frozenset({"PC603"}),
    cause=(r"recompil", r"compil(ed|ations?).*(again|times|guard)"),
    cure=(r"dynamic", r"mark_dynamic", r"automatic_dynamic_shapes"),
    metric="recompilations",
    true_of_good={"PC204": "nothing says that dynamic rows begin at multiples of 16 bytes"},
)


def gate(batch: int = 16, length: int = 1024, width: int = 4096) -> Any:
    import torch

    def model(x: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.silu(gate) * x

    inputs = (torch.randn(batch, length, width, dtype=torch.bfloat16) for _ in range(2))
    return model, tuple(inputs)
