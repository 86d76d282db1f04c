from __future__ import annotations

from typing import Any

from reported import Reported, Side

CASE = Reported(
    issue="unslothai/unsloth-zoo#1003",
    kind="recompilation",
    title="one forward that all norms of a model share is compiled for each width of their weights",
    said="17 of 25 recompilations of Gemma 4 are this one frame, about 384 entries possible, and a "
    "T4 reaches the limit; 2026-08",
    rebuilt="pattern",
    seen="a compilation for each width, for the guard on the parameter's size; the good twin's "
    "weights are plain tensors with dynamic sizes",
    bad=Side("norm", params={"parameter": True}, vary={"columns": (64, 256, 512, 768, 1536)}),
    good=Side(
        "norm",
        params={"parameter": False},
        dynamic=True,
        vary={"columns": (64, 256, 512, 768, 1536)},
    ),
    codes=frozenset({"PC603"}),
    cause=(r"recompil", r"compil(ed|ations?).*(again|times|guard)"),
    cure=(r"force_parameter_static_shapes", r"dynamic", r"parameter"),
    metric="recompilations",
)


def norm(rows: int = 1048576, columns: int = 64, parameter: bool = True) -> Any:
    import torch
    from torch.nn import functional

    weight = torch.ones(columns)

    def model(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return functional.rms_norm(x, (x.shape[-1],), weight, 1e-6)

    return model, (torch.randn(rows, columns), torch.nn.Parameter(weight) if parameter else weight)
