from __future__ import annotations

from typing import Any

from reported import Reported, Side

CASE = Reported(
    issue="flashinfer-ai/flashinfer#403",
    kind="CUDA graphs",
    title="an operator that rotates its arguments in place keeps the step out of a CUDA graph",
    said="skipping cudagraphs due to mutated inputs (2 instances); 2024-07",
    rebuilt="pattern",
    seen="the same operator call; the bad one's arguments are the graph's inputs and change",
    bad=Side("rotate", params={"in_place": True}, options={"triton.cudagraphs": True}),
    good=Side("rotate", params={"in_place": False}, options={"triton.cudagraphs": True}),
    codes=frozenset({"PC602"}),
    cause=(r"mutat", r"CUDA graph", r"cudagraph"),
    cure=(r"out of place", r"clone", r"mutat", r"in place", r"copy", r"return"),
)


def rotate(tokens: int = 4, heads: int = 4, in_place: bool = True) -> Any:
    import torch

    def change(query: torch.Tensor) -> None:
        query.mul_(2)

    def make(query: torch.Tensor) -> torch.Tensor:
        return query * 2

    if in_place:
        torch.library.custom_op(
            "reported::turn", change, mutates_args=("query",), schema="(Tensor(a!) query) -> ()"
        )
    else:
        made = torch.library.custom_op(
            "reported::turn", make, mutates_args=(), schema="(Tensor query) -> Tensor"
        )
        made.register_fake(torch.empty_like)

    def model(query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        if in_place:
            torch.ops.reported.turn(query)
            return query + key
        return torch.ops.reported.turn(query) + key

    inputs = (torch.randn(tokens, heads, 128, dtype=torch.bfloat16) for _ in range(2))
    return model, tuple(inputs)
