from __future__ import annotations

from typing import Any

from reported import Reported, Side

CASE = Reported(
    issue="pytorch/pytorch#194858",
    kind="lost fusion",
    title="a cat of a tensor and its negation is no longer inlined into the argmax that reads it",
    said="one kernel became several, a regression of Reformer's hashing; 2026-08",
    rebuilt="published",
    seen="a kernel that writes the halves of a buffer and a reduction that reads it; the good twin "
    "is one kernel",
    bad=Side("bucket"),
    good=Side("bucket", options={"force_pointwise_cat": True}),
    codes=frozenset({"PC501", "PC503"}),
    cause=(r"\bcat\b", r"fus(ed|ion|e)\b"),
    cure=(r"force_pointwise_cat", r"inline"),
)


def bucket(rows: int = 65536, columns: int = 64) -> Any:
    import torch

    def hashed(x: torch.Tensor) -> torch.Tensor:
        rotated = torch.sin(x)
        return torch.cat([rotated, -rotated], dim=-1).argmax(-1)

    return hashed, (torch.randn(rows, columns, dtype=torch.float16),)
