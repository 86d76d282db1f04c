from __future__ import annotations

from typing import Any

from reported import Reported, Side

CASE = Reported(
    issue="pytorch/pytorch#133242",
    kind="memory access",
    title="a float8 cast and its transposed copy in one kernel read the input twice",
    said="at most 1.4 TB/s where other float8 kernels reach 2.2; H100, 2024-08",
    rebuilt="pattern",
    seen="a 2-D tiled pointwise kernel that loads its input with two indices, one of which strides "
    "by a row, or stores bytes a column apart; the good twin writes the cast alone",
    bad=Side("cast_both_ways"),
    good=Side("cast"),
    codes=frozenset({"PC207", "PC204", "PC203"}),
    cause=(r"uncoalesced", r"sectors", r"narrow", r"twice", r"again"),
    cure=(r"layout", r"contiguous", r"tiling", r"kernel of its own", r"separate"),
)


def cast_both_ways(rows: int = 4096, columns: int = 4096) -> Any:
    import torch

    def both(x: torch.Tensor, scale: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        small = (x * scale).clamp(-448, 448).to(torch.float8_e4m3fn)
        return small, small.t().contiguous()

    return both, (torch.randn(rows, columns, dtype=torch.bfloat16), torch.ones(()))


def cast(rows: int = 4096, columns: int = 4096) -> Any:
    import torch

    def once(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        return (x * scale).clamp(-448, 448).to(torch.float8_e4m3fn)

    return once, (torch.randn(rows, columns, dtype=torch.bfloat16), torch.ones(()))
