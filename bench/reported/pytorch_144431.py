from __future__ import annotations

from typing import Any

from reported import Reported, Side

CASE = Reported(
    issue="pytorch/pytorch#144431",
    kind="split",
    title="the maximum of a transposed matrix takes three stages instead of two",
    said="about 8× slower than of the same matrix in rows, 4096 × 8192 bfloat16; H100, 2025-01",
    rebuilt="published",
    seen="the first stage loads elements that lie a column apart, a third kernel; the good twin's "
    "two stages read rows",
    bad=Side("top", params={"transposed": True}),
    good=Side("top", params={"transposed": False}),
    codes=frozenset({"PC207", "PC205"}),
    cause=(r"uncoalesced", r"sectors", r"split", r"elements apart"),
    cure=(r"contiguous", r"layout", r"order", r"split_reductions", r"\.t\(\)"),
)


def top(rows: int = 4096, columns: int = 8192, transposed: bool = True) -> Any:
    import torch

    x = torch.randn(rows, columns, dtype=torch.bfloat16)
    return lambda x: torch.max(x), (x.t().contiguous().t() if transposed else x,)
