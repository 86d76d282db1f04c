from __future__ import annotations

from typing import Any

from reported import Reported, Side

CASE = Reported(
    issue="pytorch/pytorch#189239",
    kind="copies",
    title="the backward pass of convolutions no longer prefers channels-last",
    said="a training step of MobileNetV3 84.9 ms, 53.6 ms before, 1.6×; H100, 2026-07",
    rebuilt="pattern",
    seen="backward kernels that read one tensor with a stride and another without, and copies "
    "between layouts before convolution_backward; the good twin's inputs and weights are "
    "channels-last from the start",
    bad=Side("train", params={"channels_last": False}),
    good=Side("train", params={"channels_last": True}),
    codes=frozenset({"PC503", "PC501", "PC207"}),
    cause=(r"layout", r"channels.last", r"cop(y|ies)", r"uncoalesced"),
    cure=(r"channels.last", r"memory_format", r"layout"),
)


def train(batch: int = 64, channels_last: bool = False, mode: str = "training") -> Any:
    import torch
    from torch import nn

    def block(inner: int) -> nn.Sequential:
        return nn.Sequential(
            nn.Conv2d(40, inner, 1, bias=False),
            nn.BatchNorm2d(inner),
            nn.Hardswish(),
            nn.Conv2d(inner, inner, 5, padding=2, groups=inner, bias=False),
            nn.BatchNorm2d(inner),
            nn.Hardswish(),
            nn.Conv2d(inner, 40, 1, bias=False),
            nn.BatchNorm2d(40),
        )

    model = nn.Sequential(block(120), block(120))
    x = torch.randn(batch, 40, 28, 28, requires_grad=True)
    if channels_last:
        model = model.to(memory_format=torch.channels_last)
        x = x.detach().to(memory_format=torch.channels_last).requires_grad_()
    return model, (x,)
