from __future__ import annotations

from typing import Any

from reported import Reported, Side

CASE = Reported(
    issue="pytorch/pytorch#127011",
    kind="online softmax",
    title="a softmax over long rows takes maximum and sum in two passes over the row",
    said="8.07 ms in two passes, 6.23 in one, eager 6.67, for rows longer than the cache; 2024-05",
    rebuilt="scaled",
    seen="three loops over in_ptr0; the good twin has two, the first of which takes both",
    bad=Side("softmax", options={"online_softmax": False}),
    good=Side("softmax"),
    codes=frozenset({"PC203", "PC201"}),
    cause=(r"online", r"reads its input", r"sweep", r"passes"),
    cure=(r"online_softmax",),
    true_of_good={"PC203": "the row is read again to be divided, in a second loop"},
)


def softmax(rows: int = 8192, columns: int = 50304) -> Any:
    import torch

    return lambda x: x.softmax(-1), (torch.randn(rows, columns, dtype=torch.bfloat16),)
