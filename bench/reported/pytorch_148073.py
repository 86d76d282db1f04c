from __future__ import annotations

from typing import Any

from reported import SMALL_STEP, Reported, Side

CASE = Reported(
    issue="pytorch/pytorch#148073",
    kind="compile time",
    title="sums and products of the last two results double the expression with every step",
    said="compile time grows exponentially: a model went from 1 to 20 minutes; 2025-02",
    rebuilt="published",
    seen="one kernel whose source repeats the same sums and products; the good twin keeps every "
    "second result in a buffer",
    bad=Side("chain"),
    good=Side("chain", options={"realize_opcount_threshold": 10}),
    codes=frozenset({"PC604"}),
    cause=(r"compil(e|ed|ing|ation)( time)? (in|from|took|grew)", r"compile time"),
    cure=(r"realize_", r"detach", r"fewer", r"split"),
    metric="compile time",
    true_of_good=SMALL_STEP,
)


def chain(steps: int = 10, mode: str = "training") -> Any:
    import torch

    def combine(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        for _ in range(steps):
            first, second = first + second, first * second
        return first + second

    inputs = tuple(torch.zeros(1024, requires_grad=True) for _ in range(2))
    return combine, inputs
