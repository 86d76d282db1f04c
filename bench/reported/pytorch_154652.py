from __future__ import annotations

from typing import Any

from reported import SMALL_STEP, Reported, Side

CASE = Reported(
    issue="pytorch/pytorch#154652",
    kind="compile time",
    title="every pair of the many kernels that read one buffer is tried as a fusion",
    said="compile time quadratic in the number of nodes; mended by trying at most 64 neighbours "
    "(#154688), 2025-05",
    rebuilt="pattern",
    seen="the same 300 kernels on both sides; the bad one tries all pairs of them",
    bad=Side("readers", options={"max_fusion_buffer_group_pairwise_attempts": 100000}),
    good=Side("readers"),
    codes=frozenset({"PC604"}),
    cause=(r"compil(e|ed|ing|ation)( time)? (in|from|took|grew)", r"compile time"),
    cure=(r"pairwise_attempts", r"fewer", r"split"),
    metric="compile time",
    true_of_good=SMALL_STEP,
)


def readers(count: int = 300) -> Any:
    import torch

    def scale(x: torch.Tensor, *parts: torch.Tensor) -> list[torch.Tensor]:
        return [part * x[0] for part in parts]

    parts = tuple(torch.randn(4096) for _ in range(count))
    return scale, (torch.randn(1), *parts)
