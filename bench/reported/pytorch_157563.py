from __future__ import annotations

from typing import Any

from reported import Reported, Side

CASE = Reported(
    issue="pytorch/pytorch#157563",
    kind="peak memory",
    title="a running sum is fused over so many terms that all of them have to be kept",
    said="out of memory where eager needs two buffers at a time; 2025-07",
    rebuilt="pattern",
    seen="one kernel that adds 16 products, 16 buffers alive at once; the good twin adds a few at "
    "a time",
    bad=Side("accumulate"),
    good=Side(
        "accumulate",
        options={"max_fusion_unique_io_buffers": 4, "realize_acc_reads_threshold": 2},
    ),
    codes=frozenset({"PC301", "PC302"}),
    cause=(r"keeps? (all|\d)", r"at once", r"\bterms\b", r"accumulat"),
    cure=(r"max_fusion_unique_io_buffers", r"realize_acc_reads"),
    metric="peak memory",
)


def accumulate(size: int = 8192, terms: int = 16) -> Any:
    import torch

    def model(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        total = x
        for _ in range(terms):
            x = x @ weight
            total = total + x
        return total

    return model, tuple(torch.randn(size, size) for _ in range(2))
