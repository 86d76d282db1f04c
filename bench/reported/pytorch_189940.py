from __future__ import annotations

from typing import Any

from reported import Reported, Side

WIDTHS = (2048, 256, 256, 256, 2048, 256, 256, 256)

CASE = Reported(
    issue="pytorch/pytorch#189940",
    kind="division",
    title="cat along a dynamic width divides by a run-time size for every element",
    said="2 to 2.5× slower than eager's cat; with static shapes faster than eager; 2026-07",
    rebuilt="published",
    seen="one pointwise kernel whose index is xindex % ks0 and xindex // ks0 with 64-bit or "
    "run-time sizes (calls of a division routine in the SASS); static: a multiplication",
    bad=Side("repack", dynamic=True),
    good=Side("repack"),
    codes=frozenset({"PC208"}),
    cause=(r"division", r"modulo", r"divid", r"instructions per byte"),
    cure=(r"static", r"mark_static", r"dynamic=False", r"assume_static", r"mark_dynamic"),
)


def repack(rows: int = 8192) -> Any:
    """Two nested cats of query, key and value gradients, as in a backward pass of attention."""
    import torch

    def pack(*parts: torch.Tensor) -> torch.Tensor:
        halves = [
            torch.cat([query, key, first + second], dim=-1)
            for query, key, first, second in (parts[:4], parts[4:])
        ]
        return torch.cat(halves, dim=-1)

    inputs = tuple(torch.randn(rows, width, dtype=torch.bfloat16) for width in WIDTHS)
    return pack, inputs
