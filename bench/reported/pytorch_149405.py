from __future__ import annotations

from typing import Any

from reported import Reported, Side

CASE = Reported(
    issue="pytorch/pytorch#149405",
    kind="recompilation",
    title="a float argument is a constant of the graph, and another value compiles again",
    said="recompiled because L['y'] == 1.5 failed, even with dynamic=True; torch 2.5, 2025-03",
    rebuilt="published",
    seen="a constant in the kernel; the good twin loads the factor",
    bad=Side(
        "scale",
        params={"as_tensor": False},
        options={"dynamo.specialize_float": True},
        vary={"factor": (1.5, 2.5, 3.5, 4.5)},
    ),
    good=Side(
        "scale",
        params={"as_tensor": True},
        options={"dynamo.specialize_float": True},
        vary={"factor": (1.5, 2.5, 3.5, 4.5)},
    ),
    codes=frozenset({"PC603"}),
    cause=(r"recompil", r"compil(ed|ations?).*(again|times|guard)"),
    cure=(r"tensor", r"dynamic", r"specialize_float"),
    metric="recompilations",
)


def scale(rows: int = 67108864, factor: float = 1.5, as_tensor: bool = False) -> Any:
    import torch

    def model(x: torch.Tensor, factor: Any) -> torch.Tensor:
        return x * factor

    return model, (torch.randn(rows), torch.tensor(factor) if as_tensor else factor)
