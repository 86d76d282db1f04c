from __future__ import annotations

from typing import Any

from reported import Reported, Side

CASE = Reported(
    issue="Comfy-Org/ComfyUI#6866",
    kind="CUDA graphs",
    title="a tensor on the CPU in the time embedding keeps the whole model out of a CUDA graph",
    said="skipping cudagraphs due to cpu device (arg7_1); Flux, torch 2.6, 2025-02",
    rebuilt="pattern",
    seen="a number that the model keeps as a tensor on the CPU is an input of the graph; the good "
    "twin keeps a Python number",
    bad=Side("embed", params={"on_cpu": True}, options={"triton.cudagraphs": True}),
    good=Side("embed", params={"on_cpu": False}, options={"triton.cudagraphs": True}),
    codes=frozenset({"PC602"}),
    cause=(r"cpu device", r"on the CPU", r"CUDA graph", r"cudagraph"),
    cure=(r"device", r"move", r"\bcuda\b"),
)


def embed(batch: int = 4, width: int = 256, on_cpu: bool = True) -> Any:
    import torch

    with torch.device("cpu"):
        period = torch.tensor(10000.0) if on_cpu else 10000.0

    def model(time: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        steps = torch.arange(width // 2, dtype=torch.float32, device=time.device)
        angles = time[:, None] * period ** (-2 * steps / width)
        embedded = torch.cat([angles.cos(), angles.sin()], -1) @ weight
        return torch.nn.functional.silu(embedded)

    return model, (torch.randn(batch), torch.randn(width, 1024))
