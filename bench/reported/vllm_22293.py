from __future__ import annotations

from typing import Any

from reported import SMALL_STEP, Reported, Side

CASE = Reported(
    issue="vllm-project/vllm#22293",
    kind="launches",
    title="rotary embedding is two kernels as soon as there are fewer key than query heads",
    said="one kernel for equal numbers of heads, two for grouped-query attention; slow in profiles "
    "of decoding; 2025-08",
    rebuilt="pattern",
    seen="two pointwise kernels of 1 to 2 µs for a few tokens; the good twin rotates queries and "
    "keys as one tensor",
    bad=Side("rotate", params={"joint": False}),
    good=Side("rotate", params={"joint": True}),
    codes=frozenset({"PC601", "PC501"}),
    cause=(r"launch", r"fus(ed|ion|e)\b"),
    cure=(r"combo_kernels", r"CUDA graph", r"cudagraphs", r"one tensor", r"together"),
    true_of_good=SMALL_STEP,
)


def rotate(tokens: int = 8, heads: int = 32, groups: int = 8, joint: bool = False) -> Any:
    import torch

    width = 128

    def turn(x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
        first, second = x.float().chunk(2, dim=-1)
        turned = [first * cosine - second * sine, second * cosine + first * sine]
        return torch.cat(turned, -1).to(x.dtype)

    def model(row: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> Any:
        together = row.view(tokens, heads + groups, width)
        if joint:
            return turn(together, cosine, sine)
        query, key = together.split([heads, groups], dim=1)
        return turn(query, cosine, sine), turn(key, cosine, sine)

    row = torch.randn(tokens, (heads + groups) * width, dtype=torch.bfloat16)
    return model, (row, *(torch.randn(tokens, 1, width // 2) for _ in range(2)))
