from __future__ import annotations

from typing import Any

from reported import Reported, Side

CASE = Reported(
    issue="pytorch/pytorch#124131",
    kind="memory access",
    title="a persistent reduction writes its rows into columns of the output",
    said="really bad stores, as a block is one row wide; reported by internal users, 2024-04",
    rebuilt="pattern",
    seen="a persistent reduction that stores neighbouring elements a row apart; the good twin "
    "stores rows",
    bad=Side("normalise", params={"transposed": True}),
    good=Side("normalise", params={"transposed": False}),
    codes=frozenset({"PC207"}),
    cause=(r"uncoalesced", r"sectors", r"elements apart"),
    cure=(r"contiguous", r"layout", r"tiling", r"order", r"kernel of its own"),
)


def normalise(rows: int = 32768, columns: int = 512, transposed: bool = True) -> Any:
    import torch
    from torch.nn import functional

    def model(x: torch.Tensor) -> torch.Tensor:
        y = functional.layer_norm(x, (columns,))
        return y.t().contiguous() if transposed else y.contiguous()

    return model, (torch.randn(rows, columns),)
