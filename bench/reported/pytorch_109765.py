from __future__ import annotations

from typing import Any

from reported import Reported, Side

CASE = Reported(
    issue="pytorch/pytorch#109765",
    kind="too few blocks",
    title="the maximum over a whole layer-normed tensor is taken by one block",
    said="12.77 ms, 0.11 ms where it is split; 2023-09 (delayed scaling of float8)",
    rebuilt="pattern",
    seen="a reduction with one row of 16.8 million elements, in one block; the good twin splits it "
    "over many blocks and a second small kernel",
    bad=Side("norm_and_top", options={"split_reductions": False}),
    good=Side("norm_and_top"),
    codes=frozenset({"PC210", "PC205"}),
    cause=(r"no longer split", r"not split", r"\b(one|1) block\b", r"idle"),
    cure=(r"split_reductions", r"split"),
)


def norm_and_top(rows: int = 8192, columns: int = 2048) -> Any:
    import torch
    from torch.nn import functional

    def normed(x: torch.Tensor, scale: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = functional.layer_norm(x, (columns,))
        return (y.float() * scale).to(torch.float8_e4m3fn), y.abs().amax().float()

    return normed, (torch.randn(rows, columns, dtype=torch.bfloat16), torch.ones(()))
