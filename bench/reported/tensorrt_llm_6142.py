from __future__ import annotations

from typing import Any

from reported import Reported, Side

CASE = Reported(
    issue="NVIDIA/TensorRT-LLM#6142",
    kind="recompilation",
    title="every batch size compiles anew until Dynamo gives up and runs eagerly",
    said="config.recompile_limit (8) is reached, later sizes run without compilation; 2025-07",
    rebuilt="pattern",
    seen="a compilation for each batch size; the good twin's sizes are dynamic from the start",
    bad=Side(
        "decode",
        options={"dynamo.automatic_dynamic_shapes": False},
        vary={"batch": (1, 2, 4, 8, 12, 16, 24, 32, 48, 64)},
    ),
    good=Side("decode", dynamic=True, vary={"batch": (2, 4, 8, 12, 16, 24, 32, 48, 64)}),
    codes=frozenset({"PC603"}),
    cause=(r"recompil", r"compil(ed|ations?).*(again|times|guard)", r"limit"),
    cure=(r"dynamic", r"mark_dynamic", r"automatic_dynamic_shapes"),
    metric="recompilations",
)


def decode(batch: int = 1, length: int = 8192, columns: int = 4096) -> Any:
    import torch
    from torch.nn import functional

    weight = torch.nn.Parameter(torch.ones(columns))

    def model(x: torch.Tensor) -> torch.Tensor:
        return functional.silu(functional.rms_norm(x, (columns,), weight, 1e-6))

    return model, (torch.randn(batch, length, columns),)
