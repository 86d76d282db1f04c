from __future__ import annotations

from typing import Any

from reported import SMALL_STEP, Reported, Side

CASE = Reported(
    issue="pytorch/pytorch#181442",
    kind="split",
    title="mean of a small tensor along the axis that is not contiguous, split into two kernels",
    said="compiled slower than eager's single column reduction for 640 × 256 float32 (640 KB), two "
    "kernels instead of one; GB200, 2026-04",
    rebuilt="published",
    seen="a reduction of 256 elements in two kernels, a few µs each, for 655 kB; the good twin's "
    "reduced axis is the contiguous one: one kernel",
    bad=Side("mean_of_columns"),
    good=Side("mean_of_rows"),
    codes=frozenset({"PC205", "PC210", "PC601"}),
    cause=(r"split", r"launch(es)? decide", r"two kernels", r"idle"),
    cure=(r"split_reductions", r"contiguous", r"CUDA graph", r"cudagraphs"),
    true_of_good=SMALL_STEP,
)


def mean_of_columns(rows: int = 640, columns: int = 256) -> Any:
    import torch

    return lambda x: x.mean(1), (torch.randn(columns, rows).t(),)


def mean_of_rows(rows: int = 640, columns: int = 256) -> Any:
    import torch

    return lambda x: x.mean(1), (torch.randn(rows, columns),)
