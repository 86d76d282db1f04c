from __future__ import annotations

from typing import Any

from reported import SMALL_STEP, Reported, Side

CASE = Reported(
    issue="pytorch/pytorch#194736",
    kind="launch configuration",
    title="max-autotune no longer tries the configuration that the default takes",
    said="row means of 2048 × 1024 float16: 4.83 µs by default (XBLOCK 1, one warp), 5.86 µs with "
    "max-autotune, 1.21×; 2026-08",
    rebuilt="published",
    seen="candidates of the persistent reduction: XBLOCK 1 with one warp by default, without it "
    "with max-autotune",
    bad=Side("means", options={"max_autotune": True}),
    good=Side("means"),
    codes=frozenset({"PC401"}),
    cause=(r"dropped", r"no longer (tried|proposed)", r"configuration"),
    cure=(r"max_autotune", r"default"),
    true_of_good=SMALL_STEP,
)


def means(rows: int = 2048, columns: int = 1024) -> Any:
    import torch

    return lambda x: x.mean(-1), (torch.randn(rows, columns, dtype=torch.float16),)
