from __future__ import annotations

from typing import Any

from reported import Reported, Side

CASE = Reported(
    issue="Comfy-Org/ComfyUI#6866",
    kind="CUDA graphs",
    title="a tensor on the CPU in the time embedding keeps the whole model out of a CUDA graph",
    said="skipping cudagraphs due to cpu device (arg7_1); Flux, torch 2.6, 2025-02",
    rebuilt="pattern",
    seen="frequencies made on the CPU inside the compiled function; the good twin makes them on "
    "the device",
    bad=Side("embed", params={"on_cpu": True}, options={"triton.cudagraphs": True}),
    good=Side("embed", params={"on_cpu": False}, options={"triton.cudagraphs": True}),
    codes=frozenset({"PC602"}),
    cause=(r"cpu device", r"on the CPU", r"CUDA graph", r"cudagraph"),
    cure=(r"device", r"move", r"\bcuda\b"),
)


def embed(batch: int = 4, width: int = 256, on_cpu: bool = True) -> Any:
    import math

    import torch

    def model(time: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, ...]:
        device = "cpu" if on_cpu else time.device
        steps = torch.arange(width // 2, dtype=torch.float32, device=device)
        frequencies = torch.exp(-math.log(10000) * steps / (width // 2))
        angles = time[:, None] * frequencies.to(time.device)
        embedded = torch.cat([angles.cos(), angles.sin()], -1) @ weight
        return torch.nn.functional.silu(embedded), frequencies

    return model, (torch.randn(batch), torch.randn(width, 1024))
