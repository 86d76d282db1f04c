from __future__ import annotations

from typing import Any

from reported import SMALL_STEP, Reported, Side

CASE = Reported(
    issue="pytorch/pytorch#181108",
    kind="lost fusion",
    title="a projection per group of heads is one kernel with static and several with dynamic "
    "shapes",
    said="more kernels with dynamic than with static shapes (counts in the thread's script, no "
    "times); 2026-04",
    rebuilt="published",
    seen="dynamic: several kernels, the normalised values and the sums go through memory; static: "
    "fewer",
    bad=Side("project", dynamic=True),
    good=Side("project"),
    codes=frozenset({"PC501"}),
    cause=(r"dynamic", r"fusion"),
    cure=(r"static", r"dynamic=False", r"mark_dynamic"),
    true_of_good=SMALL_STEP,
)


def project(batch: int = 4, length: int = 2048, heads: int = 16, groups: int = 4) -> Any:
    import torch
    from torch.nn import functional

    width = 64

    def reject(output: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, ...]:
        groups = values.shape[2]
        direction = functional.normalize(values, dim=-1, eps=1e-6).unsqueeze(3)
        grouped = output.view(*output.shape[:2], groups, output.shape[2] // groups, width)
        along = (grouped * direction).sum(-1, keepdim=True)
        cosine = along.squeeze(-1).abs()
        share = cosine / grouped.norm(dim=-1).clamp(min=1e-6)
        return (grouped - along * direction).view_as(output), cosine, share

    output = torch.randn(batch, length, heads, width, dtype=torch.bfloat16)
    values = torch.randn(batch, length, groups, width, dtype=torch.bfloat16)
    return reject, (output, values)
