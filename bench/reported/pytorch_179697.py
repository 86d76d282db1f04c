from __future__ import annotations

from typing import Any

from reported import SMALL_STEP, Reported, Side

CASE = Reported(
    issue="pytorch/pytorch#179697",
    kind="split",
    title="entropy of one row of 32,768 words is split into many small kernels",
    said="twice as slow as eager: eight launches for one row; not split 36 µs instead of 47 "
    "(a sum); GB200, 2026-04",
    rebuilt="published",
    seen="four kernels of one or two µs each for 131 kB; the good twin is one kernel",
    bad=Side("entropy"),
    good=Side("entropy", options={"split_reductions": False}),
    codes=frozenset({"PC601", "PC205"}),
    cause=(r"\bsplit\b", r"launch"),
    cure=(r"split_reductions", r"CUDA graph", r"cudagraphs"),
    true_of_good=SMALL_STEP,
)


def entropy(rows: int = 1, words: int = 32768) -> Any:
    import torch

    def measure(logits: torch.Tensor) -> torch.Tensor:
        share = torch.softmax(logits, -1)
        return -(share * torch.log(share + 1e-9)).sum(-1)

    return measure, (torch.randn(rows, words),)
