from __future__ import annotations

from typing import Any

from reported import Reported, Side

CASE = Reported(
    issue="pytorch/pytorch#127011",
    kind="online softmax",
    title="a softmax over long rows takes maximum and sum in two passes over the row",
    said="8.07 ms in two passes, 6.23 in one, eager 6.67, for rows longer than the cache; 2024-05",
    rebuilt="pattern",
    seen="three loops over in_ptr0; the good twin has two, the first of which takes both",
    bad=Side("softmax", options={"online_softmax": False}),
    good=Side("softmax"),
    codes=frozenset({"PC203", "PC201"}),
    cause=(r"online", r"reads its input", r"sweep", r"passes"),
    cure=(r"online_softmax",),
    target="h200",
    true_of_good={
        "PC203": "the row is read again to be divided, in a second loop",
        "PC204": "rows of 50,257 half-precision numbers are no multiple of 16 bytes",
    },
)


def softmax(rows: int = 32768, columns: int = 50257) -> Any:
    import torch

    return lambda x: x.softmax(-1), (torch.randn(rows, columns, dtype=torch.bfloat16),)
