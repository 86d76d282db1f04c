from __future__ import annotations

from typing import Any

from reported import SMALL_STEP, Reported, Side

CASE = Reported(
    issue="vllm-project/vllm#26682",
    kind="launches",
    title="norms and rotations of queries and keys are kernels of their own, as their sizes differ",
    said="five kernels after the projection of a decode step, two with combo kernels; Qwen3-0.6B, "
    "2025-10",
    rebuilt="pattern",
    seen="a kernel each for queries and keys, about 2 µs of work altogether; with combo kernels "
    "the same work in fewer launches",
    bad=Side("rotate"),
    good=Side("rotate", options={"combo_kernels": True}),
    codes=frozenset({"PC601"}),
    cause=(r"launch", r"host"),
    cure=(r"combo_kernels", r"CUDA graph", r"cudagraphs"),
    true_of_good=SMALL_STEP,
)


def rotate(tokens: int = 16, heads: int = 16, groups: int = 8, width: int = 128) -> Any:
    import torch
    from torch.nn import functional

    weight = torch.nn.Parameter(torch.ones(width, dtype=torch.bfloat16))

    def turn(x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
        x = functional.rms_norm(x, (width,), weight, 1e-6)
        first, second = x.chunk(2, dim=-1)
        return torch.cat([first * cosine - second * sine, second * cosine + first * sine], -1)

    def rotated(row: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> Any:
        query, key = row.split([heads * width, groups * width], dim=-1)
        query, key = query.view(tokens, heads, width), key.view(tokens, groups, width)
        return turn(query, cosine, sine), turn(key, cosine, sine)

    row = torch.randn(tokens, (heads + groups) * width, dtype=torch.bfloat16)
    angles = tuple(torch.randn(tokens, 1, width // 2, dtype=torch.bfloat16) for _ in range(2))
    return rotated, (row, *angles)
