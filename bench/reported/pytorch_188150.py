from __future__ import annotations

from typing import Any

from reported import Reported, Side

CASE = Reported(
    issue="pytorch/pytorch#188150",
    kind="CUDA graphs",
    title="with dynamic sizes a CUDA graph is recorded for every length that comes along",
    said="a training step went from 22 to 25 s, as batches are padded to their own longest "
    "sequence; 2026-06",
    rebuilt="pattern",
    seen="symbolic sizes in the kernels and a recording for each length; the good twin pads to one "
    "length",
    bad=Side(
        "norm",
        options={"triton.cudagraphs": True},
        dynamic=True,
        vary={"length": (100, 117, 131, 149, 173)},
    ),
    good=Side("norm", params={"length": 192}, options={"triton.cudagraphs": True}),
    codes=frozenset({"PC602", "PC603"}),
    cause=(r"CUDA graph", r"cudagraph", r"record"),
    cure=(r"pad", r"static", r"cudagraph_", r"fixed"),
    metric="recompilations",
)


def norm(batch: int = 64, length: int = 100, width: int = 4096) -> Any:
    import torch
    from torch.nn import functional

    weight = torch.nn.Parameter(torch.ones(width))

    def model(x: torch.Tensor) -> torch.Tensor:
        return functional.gelu(functional.layer_norm(x, (width,), weight))

    return model, (torch.randn(batch, length, width),)
