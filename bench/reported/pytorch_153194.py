from __future__ import annotations

from typing import Any

from reported import SMALL_STEP, Reported, Side

CASE = Reported(
    issue="pytorch/pytorch#153194",
    kind="memory access",
    title="MX scales rearranged into blocks of 128 × 4 for the matrix product",
    said="the compiled rearrangement of 28672 × 256 bytes is slower than a hand-written kernel "
    "(pytorch/ao#2168, no number in the thread); 2025-05",
    rebuilt="published",
    seen="a pointwise kernel of bytes whose load index jumps by a row every 4 elements; the good "
    "twin arranges rows of 16 bytes",
    bad=Side("arrange", params={"tile": 4}),
    good=Side("arrange", params={"tile": 256}),
    codes=frozenset({"PC207", "PC204"}),
    cause=(r"uncoalesced", r"sectors", r"narrow", r"1 byte", r"elements apart"),
    cure=(r"contiguous", r"layout", r"tiling", r"order", r"wider", r"several elements"),
    true_of_good=SMALL_STEP,
)


def arrange(rows: int = 28672, columns: int = 256, tile: int = 4) -> Any:
    import torch

    def blocked(scales: torch.Tensor) -> torch.Tensor:
        blocks = scales.view(rows // 128, 4, 32, columns // tile, tile)
        return blocks.permute(0, 3, 2, 1, 4).contiguous().flatten()

    return blocked, (torch.zeros(rows, columns, dtype=torch.uint8),)
