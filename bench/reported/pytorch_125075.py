from __future__ import annotations

from typing import Any

from reported import Reported, Side

CASE = Reported(
    issue="pytorch/pytorch#125075",
    kind="lost fusion",
    title="padding a matrix by a cat and casting it are two kernels that read the same matrix",
    said="one whole load of a 30522 × 768 matrix more than necessary; 2024-04",
    rebuilt="published",
    seen="two kernels load in_ptr0, one for the cat, one for the cast; the good twin casts the "
    "rows of the padded matrix in the kernel that writes them",
    bad=Side("pad_and_cast"),
    good=Side("pad_then_cast"),
    codes=frozenset({"PC501"}),
    cause=(r"fus(ed|ion|e)\b", r"read (twice|again)", r"both read"),
    cure=(r"fus(ed|ion|e)", r"one kernel", r"combo_kernels"),
)


def pad_and_cast(rows: int = 30522, columns: int = 768) -> Any:
    import torch

    def both(x: torch.Tensor, zeros: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.cat([x, zeros]), x.to(torch.float16)

    return both, (torch.randn(rows, columns), torch.zeros(6, columns))


def pad_then_cast(rows: int = 30522, columns: int = 768) -> Any:
    import torch
    from torch.nn import functional

    def both(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        padded = functional.pad(x, (0, 0, 0, 6))
        return padded, padded.to(torch.float16)

    return both, (torch.randn(rows, columns),)
