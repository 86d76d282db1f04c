from __future__ import annotations

from typing import Any

from reported import SMALL_STEP, Reported, Side

CASE = Reported(
    issue="huggingface/diffusers#3218",
    kind="graph breaks",
    title="attention processors that Dynamo cannot follow break the graph in every block",
    said="over 100 graph breaks in one pipeline; 2023-04",
    rebuilt="pattern",
    seen="a graph break in each block, so that scale, bias and gate are kernels of their own "
    "graphs; the good twin is one graph",
    bad=Side("blocks", params={"log": True}),
    good=Side("blocks", params={"log": False}),
    codes=frozenset({"PC403"}),
    cause=(r"graph breaks?",),
    cure=(r"remove", r"disable", r"outside", r"fullgraph", r"move", r"replace"),
    true_of_good=SMALL_STEP,
)


def blocks(layers: int = 4, rows: int = 4096, columns: int = 320, log: bool = True) -> Any:
    import torch

    class Block(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = torch.nn.Parameter(torch.ones(columns))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = torch.nn.functional.silu(x * self.scale)
            if log:
                torch._dynamo.graph_break()
            return x + y * torch.sigmoid(y)

    return torch.nn.Sequential(*(Block() for _ in range(layers))), (torch.randn(rows, columns),)
