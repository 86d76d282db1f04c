from __future__ import annotations

from typing import Any

from reported import Reported, Side

CASE = Reported(
    issue="pytorch/pytorch#148402",
    kind="narrow and indirect",
    title="softmax over 50,257 columns: rows begin at odd addresses, so every load is 2 bytes wide",
    said="1.42× against rows padded to a multiple of 8; A100 and H100, 2025-03",
    rebuilt="scaled",
    seen="LDG.U16 in the SASS of the row loop; with 50,304 columns LDG.128",
    bad=Side("softmax", params={"columns": 50257}),
    good=Side("softmax", params={"columns": 50304}),
    codes=frozenset({"PC204"}),
    cause=(r"bytes? at a time", r"narrow", r"16-bit loads"),
    cure=(r"50,?304", r"pad"),
    true_of_good={"PC203": "the row is read again in a second loop with either length"},
)


def softmax(rows: int = 8192, columns: int = 50257) -> Any:
    import torch

    return lambda x: x.softmax(-1), (torch.randn(rows, columns, dtype=torch.bfloat16),)
