from __future__ import annotations

from typing import Any

from reported import SMALL_STEP, Reported, Side

CASE = Reported(
    issue="pytorch/pytorch#188578",
    kind="too few blocks",
    title="group norm of one image is no longer split on Blackwell: 32 blocks for 152 "
    "multiprocessors",
    said="18.9 µs not split, 9.4 µs split (with SiLU 22.4 and 9.8 µs), for 1 × 320 × 64 × 64 in 32 "
    "groups: 2.0×, and 1 % of Stable Diffusion 1.5; GB200, 2026-06",
    rebuilt="published",
    seen="one reduction kernel of 32 rows of 40,960 elements, one block each; the good twin splits "
    "each row over several blocks, as torch does for older devices",
    bad=Side("group_norm", options={"split_reductions": False}),
    good=Side("group_norm"),
    codes=frozenset({"PC210", "PC205"}),
    cause=(r"no longer split", r"not split", r"\bblocks?\b.*multiprocessors", r"idle"),
    cure=(r"split_reductions", r"split"),
    target="h200",
    true_of_good=SMALL_STEP,
)


def group_norm(batch: int = 1, channels: int = 320, side: int = 64) -> Any:
    import torch
    from torch.nn import functional

    weight = torch.nn.Parameter(torch.ones(channels))

    def norm(x: torch.Tensor) -> torch.Tensor:
        return functional.silu(functional.group_norm(x, 32, weight, weight))

    return norm, (torch.randn(batch, channels, side, side),)
