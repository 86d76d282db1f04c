from __future__ import annotations

from typing import Any

from reported import Reported, Side

CASE = Reported(
    issue="nomic-ai/contrastors#83",
    kind="graph breaks",
    title="a check whether a cached table is an inference tensor breaks the graph in rotary "
    "embedding",
    said="30 % faster training without it; 2025-11",
    rebuilt="pattern",
    seen="two graphs per call with a break at the check; the good twin is one graph",
    bad=Side("embed", params={"check": True}),
    good=Side("embed", params={"check": False}),
    codes=frozenset({"PC403"}),
    cause=(r"graph breaks?",),
    cure=(r"remove", r"outside", r"fullgraph", r"move", r"replace", r"rewrite"),
)


def embed(rows: int = 8192, columns: int = 768, check: bool = True) -> Any:
    import torch

    def model(x: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
        y = torch.nn.functional.gelu(x * 2)
        if check:
            print(end="")
        return y * table + torch.roll(y, 1, -1) * (1 - table)

    return model, (torch.randn(rows, columns), torch.randn(columns))
