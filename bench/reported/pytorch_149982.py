from __future__ import annotations

from typing import Any

from reported import Reported, Side

CASE = Reported(
    issue="pytorch/pytorch#149982",
    kind="memory access",
    title="MX scales along the other axis: maxima of 32 elements that lie a row apart",
    said="0.6 to 0.7 TB/s along dim 1, 2.0 to 2.2 TB/s along dim 0 (107.6 µs at 4096×4096), 2.8×; "
    "H100, 2025-03. Since torch 2.9 a tiling made for this case, switched off here",
    rebuilt="published",
    seen="the persistent reduction over 32 elements loads with 4096·r0 + …, one program of X rows "
    "that lie 131,072 elements apart; the tiled form has a second block axis along the row",
    bad=Side("scale_columns", options={"triton.coalesce_tiling_analysis": False}),
    good=Side("scale_columns"),
    codes=frozenset({"PC207"}),
    cause=(r"uncoalesced", r"sectors", r"elements apart", r"stride"),
    cure=(r"coalesce_tiling_analysis", r"tiling", r"contiguous", r"layout"),
)


def scale_columns(rows: int = 4096, columns: int = 4096, block: int = 32) -> Any:
    import torch

    def scale(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        blocks = x.t().contiguous().reshape(-1, block)
        top = blocks.abs().amax(1, keepdim=True)
        return (blocks / top).reshape(columns, rows).t(), top

    return scale, (torch.randn(rows, columns, dtype=torch.bfloat16),)
