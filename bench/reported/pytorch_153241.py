from __future__ import annotations

from typing import Any

from reported import SMALL_STEP, Reported, Side

CASE = Reported(
    issue="pytorch/pytorch#153241",
    kind="online softmax",
    title="softmax over few long rows is split, and online softmax is lost",
    said="five kernels instead of three, 63.5 µs instead of 54.9, 1.16×, for 4 × 1,048,589 "
    "bfloat16; B200 (#184069), 2026-05",
    rebuilt="published",
    seen="torch 2.11: maxima in one sweep over the input and sums in a second, each split; 2.13 "
    "takes both in one",
    bad=Side("softmax", torch="2.11"),
    good=Side("softmax"),
    codes=frozenset({"PC201"}),
    cause=(r"two sweeps", r"online", r"split"),
    cure=(r"split_reductions", r"torch 2\.1[3-9]", r"upgrade"),
    true_of_good={**SMALL_STEP, "PC203": "the row is read again to be divided"},
)


def softmax(rows: int = 4, columns: int = 1048576) -> Any:
    import torch

    return lambda x: x.softmax(-1), (torch.randn(rows, columns, dtype=torch.bfloat16),)
