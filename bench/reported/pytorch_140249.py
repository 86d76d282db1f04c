from __future__ import annotations

from typing import Any

from reported import Reported, Side

CASE = Reported(
    issue="pytorch/pytorch#140249",
    kind="extern operators",
    title="logits of 50,257 words are padded for the next matrix product by copying them",
    said="linear and cross entropy 83.3 ms, with padding in place 79.8; llm.c 182.2 and 178.3 ms a "
    "batch; 2024-11",
    rebuilt="scaled",
    seen="a kernel constant_pad_nd that copies the gradient of the logits before the product with "
    "the weight; in place it fills the padding alone",
    bad=Side("loss", options={"inplace_padding": False}),
    good=Side("loss"),
    codes=frozenset({"PC503", "PC402"}),
    cause=(r"\bpad", r"cop(y|ies)"),
    cure=(r"inplace_padding", r"shape_padding", r"50,?304", r"pad the"),
    true_of_good={
        "PC204": "rows of 50,257 half-precision numbers are no multiple of 16 bytes",
        "PC203": "the logits are read again",
    },
)


def loss(rows: int = 8192, columns: int = 768, words: int = 50257, mode: str = "training") -> Any:
    import torch
    from torch.nn import functional

    weight = torch.nn.Parameter(torch.randn(words, columns, dtype=torch.bfloat16))

    def model(x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(functional.linear(x, weight), target)

    x = torch.randn(rows, columns, dtype=torch.bfloat16, requires_grad=True)
    return model, (x, torch.zeros(rows, dtype=torch.int64))
