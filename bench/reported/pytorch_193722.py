from __future__ import annotations

from typing import Any

from reported import Reported, Side

CASE = Reported(
    issue="pytorch/pytorch#193722",
    kind="memory access",
    title="softmax backward over a tensor whose heads lie innermost loads with stride 16",
    said="1.38 ms at 247 GB/s, with coalesced reads 0.46 ms at 740 GB/s, 3.0×; Intel Max 1550, "
    "2026-08 (intel/intel-xpu-backend-for-triton#7610). The tiling analysis, which avoids it on "
    "NVIDIA, is switched off here",
    rebuilt="published",
    seen="a reduction along keys whose loads of the gradient and the scores have the index "
    "16·r0 + …; in the good twin it is r0 + …",
    bad=Side("heads_innermost", options={"triton.coalesce_tiling_analysis": False}),
    good=Side("heads_outermost"),
    codes=frozenset({"PC207"}),
    cause=(r"uncoalesced", r"sectors", r"stride (of )?16", r"16 elements apart"),
    cure=(r"contiguous", r"layout", r"dim(ension)? order", r"tiling"),
)


def heads_innermost(batch: int = 4, heads: int = 16, length: int = 576) -> Any:
    """Gradient and scores are stored as batch, query, key, head."""
    import torch

    stored = (batch, length, length, heads)
    model, statistics = _softmax_backward(batch, heads, length)
    return model, tuple(torch.randn(stored).permute(0, 3, 1, 2) for _ in range(2)) + statistics


def heads_outermost(batch: int = 4, heads: int = 16, length: int = 576) -> Any:
    """Gradient and scores are stored as batch, head, query, key."""
    import torch

    stored = (batch, heads, length, length)
    model, statistics = _softmax_backward(batch, heads, length)
    return model, tuple(torch.randn(stored) for _ in range(2)) + statistics


def _softmax_backward(batch: int, heads: int, length: int) -> tuple[Any, tuple[Any, ...]]:
    import torch

    def backward(
        gradient: torch.Tensor, scores: torch.Tensor, top: torch.Tensor, total: torch.Tensor
    ) -> torch.Tensor:
        probability = torch.exp(scores - top) / total
        weighted = (gradient * probability).contiguous()
        inner = weighted.sum(-1, keepdim=True)
        return (weighted - probability * inner).contiguous()

    return backward, tuple(torch.rand(batch, heads, length, 1) for _ in range(2))
