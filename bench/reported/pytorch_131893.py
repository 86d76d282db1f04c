from __future__ import annotations

from typing import Any

from reported import Reported, Side

CASE = Reported(
    issue="pytorch/pytorch#131893",
    kind="recompilation",
    title="a tensor that is never used is guarded by its size, and another size compiles again",
    said="a recompilation for a size mismatch at index 0 of an unused argument; 2024-07",
    rebuilt="published",
    seen="the same kernel in every compilation; the good twin is not given the tensor",
    bad=Side(
        "double",
        params={"unused": True},
        options={"dynamo.automatic_dynamic_shapes": False},
        vary={"columns": (4, 6, 8, 10)},
    ),
    good=Side(
        "double",
        params={"unused": False},
        options={"dynamo.automatic_dynamic_shapes": False},
        vary={"columns": (4, 6, 8, 10)},
    ),
    codes=frozenset({"PC603"}),
    cause=(r"recompil", r"compil(ed|ations?).*(again|times|guard)"),
    cure=(r"dynamic", r"mark_", r"argument"),
    metric="recompilations",
)


def double(rows: int = 67108864, columns: int = 4, unused: bool = True) -> Any:
    import torch

    def model(x: torch.Tensor, *rest: torch.Tensor) -> torch.Tensor:
        return x * 2

    return model, (torch.randn(rows), *([torch.randn(columns)] if unused else []))
