from __future__ import annotations

from typing import Any

from reported import Reported, Side

CASE = Reported(
    issue="pytorch/ao#1869",
    kind="memory access",
    title="casting to MX along rows and along columns reads the matrix twice, once by columns",
    said="a hand-written kernel that reads 32 × 32 tiles once is about 2× as fast; B200, 2025-03",
    rebuilt="pattern",
    seen="two reductions over blocks of 32, the second with elements a row apart; the good twin's "
    "second one has a block axis along the row, as torch makes it since 2.9",
    bad=Side("cast", options={"triton.coalesce_tiling_analysis": False}),
    good=Side("cast"),
    codes=frozenset({"PC207"}),
    cause=(r"uncoalesced", r"sectors", r"elements apart"),
    cure=(r"coalesce_tiling_analysis", r"contiguous", r"layout", r"tiling"),
)


def cast(rows: int = 8192, columns: int = 4096) -> Any:
    import torch

    def scaled(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        blocks = x.float().reshape(-1, 32)
        top = blocks.abs().amax(1, keepdim=True)
        scale = torch.exp2(torch.floor(torch.log2(top)) - 8)
        return (blocks / scale).to(torch.float8_e4m3fn).view(x.shape), scale.view(x.shape[0], -1)

    def both(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (*scaled(x), *scaled(x.t().contiguous()))

    return both, (torch.randn(rows, columns, dtype=torch.bfloat16),)
